"""Which racks a fleet has, for readers of the past that the server of each rack keeps."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError
from stalltop.fleet.digest_watch import WAIT_SECONDS
from stalltop.fleet.messages.digest_message import decoded_digest, of_cluster
from stalltop.fleet.rollup import WHICH_RACKS, racks_in
from stalltop.fleet.server_place import Rack, place_in

_MOST_ANSWER: Final = 1024


async def known_racks(client: Client, cluster: str) -> list[Rack]:
    """Returns the racks of one cluster, or of all (''): those where a worker of ``stalltop rollup`` runs,
    those whose hosts send, and those that a digest still has, whose hosts have been silent for up to an
    hour. Raises FleetError if they cannot be listed."""
    digests: dict[str, bytes] = {}
    found: set[Rack] = set()
    missing = False

    async def take(message: Msg) -> None:
        digests[message.subject] = message.data

    async def answered(message: Msg) -> None:
        if len(message.data) <= _MOST_ANSWER:
            rack = place_in(message.data.decode("ascii", "replace")).rack
            found.update(() if rack is None else (rack,))

    try:
        inbox = client.new_inbox()
        asked = [
            await client.subscribe(of_cluster(cluster), cb=take),
            await client.subscribe(inbox, cb=answered),
        ]
        await client.publish(WHICH_RACKS, b"", reply=inbox)
        try:
            found.update(await racks_in(client, "ST1_SUM", subjects.SUMMARY))
        except nats.js.errors.NotFoundError:  # streams in memory end with the server
            missing = True
        await asyncio.sleep(WAIT_SECONDS)
        for subscription in asked:
            await subscription.unsubscribe()
    except (nats.errors.Error, TimeoutError) as error:
        raise FleetError(
            f"the racks cannot be listed: {error or 'the server does not permit it'}",
            "see stalltop fleet check",
        ) from None
    for content in digests.values():
        with contextlib.suppress(ValueError):
            found |= {Rack(line.cluster, line.rack) for line in decoded_digest(content).hosts}
    if missing and not found:
        raise FleetError("the racks cannot be listed: there is no stream ST1_SUM", "see stalltop fleet check")
    return sorted(rack for rack in found if cluster in ("", rack.cluster))
