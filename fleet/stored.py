"""Reads the messages that a stream keeps, each once and in order, up to the last one there is."""

from __future__ import annotations

import contextlib
from typing import Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext

from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError
from stalltop.fleet.messages.problem_message import decoded_change
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.problem_changes import ProblemChange

READ_SECONDS: Final = 5.0
"""Longest wait for a message that the server says is there."""


async def stored_messages(
    js: JetStreamContext, stream: str, subject: str, after: int = 0, most: int | None = None
) -> list[Msg]:
    """Returns the messages of ``subject`` (with wildcards) that ``stream`` keeps after the sequence number
    ``after``, oldest first, at most ``most``. Raises nats.errors.Error and TimeoutError.

    The sequence number of the last message says where to end. The number of pending messages does not:
    nats-server 2.9 now and then says one too many.
    """
    try:
        end = int((await js.get_last_msg(stream, subject)).seq or 0)
    except nats.js.errors.NotFoundError:
        return []
    if end <= after:
        return []
    config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=after + 1)
    subscription = await js.subscribe(subject, stream=stream, ordered_consumer=True, config=config)
    found: list[Msg] = []
    try:
        while most is None or len(found) < most:
            found.append(await subscription.next_msg(READ_SECONDS))
            if found[-1].metadata.sequence.stream >= end:
                break
    finally:
        with contextlib.suppress(nats.errors.Error):
            await subscription.unsubscribe()
    return found


async def problem_changes(client: Client, cluster: str) -> list[tuple[HostAddress, ProblemChange]]:
    """Returns the changes of problems that the server keeps, of one cluster or of all ('').  Raises
    FleetError if they cannot be read."""
    js = client.jetstream(timeout=READ_SECONDS)
    try:
        messages = await stored_messages(js, "ST1_CHAIN", subjects.every(subjects.PROBLEM, cluster))
    except (nats.errors.Error, TimeoutError) as error:
        raise FleetError(
            f"the past problems cannot be read: {error or 'the server does not permit it'}",
            "see stalltop fleet check",
        ) from None
    found = []
    for message in messages:
        with contextlib.suppress(ValueError):
            found.append((subjects.address_in(message.subject), decoded_change(message.data)))
    return found
