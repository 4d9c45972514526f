"""Reads the messages that a stream keeps, each once and in order, up to the last one there is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext

from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError
from stalltop.fleet.messages.problem_message import decoded_change
from stalltop.fleet.server_place import Rack, jetstream_of
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.problem_changes import ProblemChange

T = TypeVar("T")
READ_SECONDS: Final = 5.0
"""Longest wait for a message that the server says is there."""


async def stored_messages(
    js: JetStreamContext,
    stream: str,
    subject: str,
    after: int = 0,
    most: int | None = None,
    since: float = 0.0,
) -> list[Msg]:
    """Returns the messages of ``subject`` (with wildcards) that ``stream`` keeps after the sequence number
    ``after``, or stored at the Unix time ``since`` or later, oldest first, at most ``most``. Raises
    nats.errors.Error and TimeoutError.

    The sequence number of the last message says where to end. The number of pending messages does not:
    nats-server 2.9 now and then says one too many.
    """
    try:
        last = await js.get_last_msg(stream, subject)
    except nats.js.errors.NotFoundError:
        return []
    end = int(last.seq or 0)
    if end <= after or (last.time is not None and last.time.timestamp() < since):
        return []
    config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=after + 1)
    if since:
        start = datetime.fromtimestamp(since, UTC)
        config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=start)
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


async def decoded_messages(
    js: JetStreamContext,
    stream: str,
    subject: str,
    what: str,
    decode: Callable[[Msg], T],
    since: float = 0.0,
) -> list[T]:
    """Returns what ``decode`` makes of the messages of ``subject`` that ``stream`` keeps and has stored at
    the Unix time ``since`` or later, oldest first; those for which it raises ValueError are left out. Raises
    FleetError: ``what`` cannot be read."""
    try:
        messages = await stored_messages(js, stream, subject, since=since)
    except (nats.errors.Error, TimeoutError) as error:
        raise FleetError(
            f"{what} cannot be read: {error or 'the server does not permit it'}", "see stalltop fleet check"
        ) from None
    found = []
    for message in messages:
        with contextlib.suppress(ValueError):
            found.append(decode(message))
    return found


async def problem_changes(
    client: Client, cluster: str, rack: Rack | None = None
) -> list[tuple[HostAddress, ProblemChange]]:
    """Returns the changes of problems: of one rack, wherever they are kept; or of one cluster or all (''), if
    the server keeps them. Raises FleetError if they cannot be read."""

    def decode(message: Msg) -> tuple[HostAddress, ProblemChange]:
        return subjects.address_in(message.subject), decoded_change(message.data)

    if rack is None:
        js, every = client.jetstream(timeout=READ_SECONDS), subjects.every(subjects.PROBLEM, cluster)
    else:
        js, every = jetstream_of(client, rack, READ_SECONDS), subjects.every(subjects.PROBLEM, *rack)
    return await decoded_messages(js, "ST1_CHAIN", every, "the past problems", decode)
