"""Merges the windows of each rack in tiers of 10 s and 1 min, by any number of workers that may end at any
time.

What is done stands in the result itself: each message of a tier says up to which message of the source stream
it counts. A worker reads the last one, merges what came after it, and publishes the sum on condition that the
last one is still the last one (``Nats-Expected-Last-Subject-Sequence``). So each message of the source is
counted exactly once, whoever is killed when, and however often a message is sent again: a sum that another
worker published first makes this one void.

Workers share the work by a queue group: for each period, whoever comes first asks for the racks that have new
windows (``st1.job.TIER.CLUSTER.RACK``), and the server gives each request to one worker. Workers at the
server of a rack hear only the requests for that rack: sequence numbers are those of its streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext

from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError
from stalltop.fleet.messages.rolled_message import UPTO, RolledBatch, decoded_batch, encoded_batch
from stalltop.fleet.messages.window_message import decoded_window
from stalltop.fleet.server_place import Rack, jetstream_of, place_of
from stalltop.fleet.stored import READ_SECONDS, decoded_messages, stored_messages
from stalltop.model.errors import StalltopError, described
from stalltop.model.fleet.rolling import period_of, rolled
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder

QUEUE: Final = "stalltop-rollup"
WHICH_RACKS: Final = f"{subjects.VERSION}.{subjects.JOB}.racks"
"""Subject of a request that workers at servers of racks answer with the domain of their rack."""
EXPECTED_LAST: Final = "Nats-Expected-Last-Subject-Sequence"
MOST_MESSAGES: Final = 1000
"""Messages of the source that one batch counts at most."""
_WRONG_SEQUENCE: Final = 10071
"""JetStream's error: another message is the last one of the subject."""
_TOO_LARGE: Final = 10054
_LATE_SECONDS: Final = 1.0
"""A period is merged this long after its end, so that its last windows have arrived."""


@dataclass(frozen=True, slots=True)
class RollTier:
    """One step of merging."""

    name: str
    seconds: float
    source: str
    """Stream that is merged."""
    target: str
    """Stream of the results."""

    @property
    def source_kind(self) -> str:
        """Kind of the subjects of what is merged."""
        return subjects.WINDOW if self is TIERS[0] else f"{subjects.ROLLED}.{TIERS[0].name}"

    def source_subject(self, rack: Rack) -> str:
        """Returns the subject of what is merged for ``rack``."""
        if self is TIERS[0]:
            return subjects.every(subjects.WINDOW, *rack)
        return subjects.rolled(TIERS[0].name, *rack)

    def subject(self, rack: Rack) -> str:
        """Returns the subject of the results for ``rack``."""
        return subjects.rolled(self.name, *rack)


TIERS: Final = (
    RollTier("10s", 10.0, "ST1_WIN", "ST1_ROLL_10S"),
    RollTier("1m", 60.0, "ST1_ROLL_10S", "ST1_ROLL_1M"),
)
"""The finest tier merges windows of hosts; each further one merges the results of the first."""


class _Cursor(NamedTuple):
    sequence: int
    """Sequence number of the last result in its stream; 0: there is none."""
    upto: int
    """Sequence number of the last message of the source that is counted."""


async def advance(client: Client, tier: RollTier, rack: Rack, now: float | None = None) -> int:
    """Merges one batch of what came since the last result, up to the period that ``now`` (Unix time) is in.
    Returns the number of messages that it counts; 0 if nothing is left to do; -1 if another worker was
    faster. Raises nats.errors.Error and TimeoutError: the same can be tried again; and FleetError if the last
    result is not one of a worker."""
    js = client.jetstream(timeout=READ_SECONDS)
    before = await _cursor(js, tier, rack)
    edge = ((time.time() if now is None else now) // tier.seconds) * tier.seconds
    messages = await _source(js, tier, rack, before.upto, edge)
    while messages:
        batch = await asyncio.get_running_loop().run_in_executor(None, _merged, tier, rack, messages)
        content = encoded_batch(batch)
        if len(content) <= client.max_payload - 4096 or len(messages) == 1:
            headers = {EXPECTED_LAST: str(before.sequence), UPTO: str(batch.upto)}
            try:
                await js.publish(tier.subject(rack), content, stream=tier.target, headers=headers)
            except nats.js.errors.APIError as error:
                if error.err_code == _WRONG_SEQUENCE:
                    return -1
                raise
            return len(messages)
        messages = messages[: len(messages) // 2]  # the rest comes with the next batch
    return 0


async def _cursor(js: JetStreamContext, tier: RollTier, rack: Rack) -> _Cursor:
    try:
        last = await js.get_last_msg(tier.target, tier.subject(rack))
    except nats.js.errors.NotFoundError:
        return _Cursor(0, 0)
    upto = (last.headers or {}).get(UPTO, "")
    if not upto.isdecimal():
        raise FleetError(
            f"the newest message of {tier.target} for {rack.text} does not say up to where it counts: "
            "no worker stored it",
            f"nats stream rmm {tier.target} {last.seq}",
        )
    return _Cursor(int(last.seq or 0), int(upto))


async def _source(js: JetStreamContext, tier: RollTier, rack: Rack, after: int, edge: float) -> list[Msg]:
    """Returns the messages of the source after the sequence number ``after`` that the server received before
    the Unix time ``edge``, at most ``MOST_MESSAGES``."""
    messages = await stored_messages(js, tier.source, tier.source_subject(rack), after, MOST_MESSAGES)
    return list(itertools.takewhile(lambda one: one.metadata.timestamp.timestamp() < edge, messages))


def _merged(tier: RollTier, rack: Rack, messages: list[Msg]) -> RolledBatch:
    """Merges ``messages`` by period. A message that cannot be read counts as read: it would never become
    readable."""
    periods: dict[float, list[Window]] = {}
    decoders: dict[str, MessageDecoder] = {}
    for message in messages:
        with contextlib.suppress(ValueError):
            if tier is TIERS[0]:
                decoder = decoders.setdefault(message.subject, MessageDecoder())
                windows: tuple[Window, ...] = (decoded_window(message.data, decoder),)
            else:
                windows = decoded_batch(message.data).windows
            for window in windows:
                periods.setdefault(period_of(window, tier.seconds), []).append(window)
    return RolledBatch(
        messages[-1].metadata.sequence.stream,
        len(messages),
        tuple(rolled(periods[start], rack.rack, start, tier.seconds) for start in sorted(periods)),
    )


async def batches(
    client: Client, tier: RollTier, rack: Rack | None = None, cluster: str = "", since: float = 0.0
) -> list[RolledBatch]:
    """Returns the results of a tier that its stream has stored since a Unix time, oldest first: of one rack,
    wherever they are kept; or of one cluster or all of them, if the server keeps them. Raises FleetError if
    they cannot be read."""
    if rack is None:
        js = client.jetstream(timeout=READ_SECONDS)
        subject = subjects.every(f"{subjects.ROLLED}.{tier.name}", cluster)
    else:
        js, subject = jetstream_of(client, rack, READ_SECONDS), tier.subject(rack)

    def decode(message: Msg) -> RolledBatch:
        return decoded_batch(message.data)

    return await decoded_messages(js, tier.target, subject, "the merged windows", decode, since)


class RollupWorker:
    """One worker of the queue group. ``say`` gets lines for the user."""

    def __init__(self, client: Client, say: Callable[[str], object]) -> None:
        self._client = client
        self._say = say
        self._asked: dict[str, int] = {}
        """Period for which each subject of requests was last asked, by any worker."""
        self._busy: set[str] = set()
        self.counted = 0
        """Messages of sources that this worker has counted."""

    async def run(self) -> None:
        """Works until it is cancelled."""
        rack = place_of(self._client).rack
        names = (subjects.ALL, subjects.ALL) if rack is None else map(subjects.token, rack)
        every = ".".join((subjects.VERSION, subjects.JOB, subjects.ALL, *names))
        if rack is not None:
            domain = rack.domain.encode()

            async def tell(message: Msg) -> None:
                # A viewer chooses the subject and the headers of its request: an answer elsewhere could be
                # kept by a stream as a result.
                if message.reply.startswith(subjects.INBOX):
                    await self._client.publish(message.reply, domain)

            await self._client.subscribe(WHICH_RACKS, cb=tell)
        await self._client.subscribe(every, cb=self._heard)
        await self._client.subscribe(every, queue=QUEUE, cb=self._work)
        while True:
            for tier in TIERS:
                with contextlib.suppress(nats.errors.Error, TimeoutError):
                    await self._ask(tier)
            await asyncio.sleep(1.0 + random.random())

    async def _ask(self, tier: RollTier) -> None:
        """Asks for the racks of ``tier`` for which nobody has asked in this period."""
        period = int((time.time() - _LATE_SECONDS) // tier.seconds)
        if self._asked.get(tier.name) == period:
            return
        racks = await racks_in(self._client, tier.source, tier.source_kind)
        for rack in racks:
            subject = ".".join((subjects.VERSION, subjects.JOB, tier.name, *map(subjects.token, rack)))
            if self._asked.get(subject) != period:
                await self._client.publish(subject, str(period).encode())
        self._asked[tier.name] = period

    async def _heard(self, message: Msg) -> None:
        if message.data.isdigit() and len(message.data) < 16:
            self._asked[message.subject] = int(message.data)

    async def _work(self, message: Msg) -> None:
        parts = message.subject.split(".")
        tier = next((one for one in TIERS if one.name == parts[2]), None)
        if tier is None or len(parts) != 5 or message.subject in self._busy:
            return
        self._busy.add(message.subject)
        try:
            rack = Rack(*map(subjects.name_in, parts[3:]))
            while (count := await advance(self._client, tier, rack)) > 0:
                self.counted += count
        except (nats.errors.Error, TimeoutError, ValueError, StalltopError) as error:
            self._say(f"{message.subject}: {described(error)}; trying again")  # in the next period
        finally:
            self._busy.discard(message.subject)


async def racks_in(client: Client, stream: str, kind: str) -> list[Rack]:
    """Returns the racks that ``stream`` has messages of ``kind`` of. Raises nats.errors.Error and
    TimeoutError."""
    js = client.jetstream(timeout=READ_SECONDS)
    info = await js.stream_info(stream, subjects_filter=f"{subjects.VERSION}.{kind}.>")
    first = 2 + kind.count(".")
    found = set()
    for subject in info.state.subjects or {}:
        with contextlib.suppress(ValueError):
            cluster, rack = subject.split(".")[first : first + 2]
            found.add(Rack(subjects.name_in(cluster), subjects.name_in(rack)))
    return sorted(found)
