"""Passes the windows of a host on to the fleet: a summary a second, its problems, and whole windows.

The windows come from any thread; messages are sent in a loop of its own, so that a slow server delays no
window. While the server is away, windows wait in a bounded buffer. What the buffer cannot hold is taken from
the host's own recording afterwards, and otherwise named as missing in the summaries.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from stalltop.fleet import subjects
from stalltop.fleet.answers import NO_ANSWERS, HostAnswers, serve_requests
from stalltop.fleet.connection import (
    ConnectionListener,
    FleetError,
    FleetLoop,
    ServerAccess,
    close,
    connected,
)
from stalltop.fleet.messages.problem_message import encoded_change
from stalltop.fleet.messages.summary_message import encoded
from stalltop.fleet.messages.window_message import END, ID, START, encoded_window
from stalltop.fleet.outbox import Outbox, OutgoingWindow
from stalltop.fleet.streams import make_streams
from stalltop.model.errors import StalltopError, described
from stalltop.model.fleet.condensing import condensed, namespaces, seen_by
from stalltop.model.fleet.host_summary import HostAddress, HostSummary, WindowGap
from stalltop.model.fleet.problem_changes import ProblemChange, ProblemChanges
from stalltop.model.window import Window

BUFFER_BYTES: Final = 16 << 20
"""Default size of the buffer: about 15 minutes of a host with 100 rows."""
MOST_PAYLOAD: Final = 1 << 20
"""The server's default limit of a message, in bytes; used until a server says another."""
MOST_CHANGES: Final = 10_000
"""Changes of problems that wait for the server. Older ones are dropped."""
PUBLISH_SECONDS: Final = 5.0
"""Longest wait until the server has stored a message. Then it is sent again, with the same id."""
AT_ONCE: Final = 16
"""Windows that are on their way to the server at a time."""
ROUND_TRIPS: Final = 3
"""Answers of the server that are timed before each summary; the quickest one counts."""
LEASE_SECONDS: Final = 30.0
"""For how long a request keeps windows coming, if they are sent only while somebody asks."""
RESUME_SECONDS: Final = 3600.0
"""Windows that an agent missed while it did not run are looked for in the recording up to this age."""

Past = Callable[[float, float], Sequence[Window]]
"""Returns the windows between two Unix times that the host has kept, oldest first. Called in a thread."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How an agent works."""

    access: ServerAccess
    address: HostAddress
    program: str = ""
    """Version of stalltop, for the summaries."""
    session: str = ""
    windows: Literal["always", "asked"] = "always"
    """``asked``: whole windows are sent only while somebody looks at this host; they are then not rolled
    up."""
    buffer_bytes: int = BUFFER_BYTES
    past: Past | None = None
    answers: HostAnswers = NO_ANSWERS
    clock: Callable[[], float] = time.time
    """The clock of the host, by which the times in its windows are."""


class FleetAgent:
    """Publishes what ``take`` is given. ``say`` gets lines for the user, in any thread."""

    def __init__(self, options: AgentOptions, say: Callable[[str], object]) -> None:
        self._options = options
        self._say = say
        self._loop = FleetLoop("stalltop-agent")
        self._outbox = Outbox(options.buffer_bytes)
        self._changes = ProblemChanges()
        self._events: deque[ProblemChange] = deque(maxlen=MOST_CHANGES)
        self._newest: HostSummary | None = None
        self._missing: deque[WindowGap] = deque(maxlen=8)
        """Stretches that neither the buffer nor the recording has."""
        self._leased_until = 0.0
        self._payload = MOST_PAYLOAD
        self._client: Client | None = None
        self._wake = asyncio.Event()
        self._resumed = False
        self._again = False
        """Whether the server was away since the streams were made."""
        self._stopping = False
        self._said: dict[str, float] = {}
        """When each line was last said, by ``time.monotonic()``."""
        self.sent = 0
        """Windows that the server has stored."""

    @property
    def connected(self) -> bool:
        """Whether the server can be reached at present."""
        return self._client is not None and bool(self._client.is_connected)

    @property
    def waiting(self) -> int:
        """Windows that wait for the server."""
        return len(self._outbox)

    def start(self) -> None:
        """Begins to connect. Returns at once: the server may be away."""
        self._options.access.options()  # mistakes of the user are told at once
        self._ended = self._loop.begin(self._run())

    def check(self) -> None:
        """Raises the error that ended the connection for good, if there is one."""
        if self._ended.done() and (error := self._ended.exception()) is not None:
            raise error

    def take(self, window: Window) -> None:
        """Takes a window. Encodes it in the thread of the caller."""
        options = self._options
        gaps = (*self._missing, *self._outbox.gaps)
        summary = condensed(window, program=options.program, session=options.session, gaps=gaps)
        self._newest = summary
        self._events.extend(self._changes.take(summary))
        if options.windows == "always" or time.monotonic() < self._leased_until:
            self._outbox_put(window)
        self._loop.call(self._wake.set)

    def stop(self, seconds: float = 3.0) -> None:
        """Sends what waits, for at most ``seconds``, and ends the connection. May be called twice."""
        until = time.monotonic() + seconds
        self._stopping = True
        while self.connected and (self._outbox or self._events) and time.monotonic() < until:
            self._loop.call(self._wake.set)
            time.sleep(0.02)
        try:
            self._loop.wait(close(self._client), seconds)
        except Exception:  # it is left anyway
            pass
        finally:
            self._loop.stop()

    def _outbox_put(self, window: Window) -> None:
        try:
            self._outbox.put(self._outgoing(window))
        except StalltopError as error:
            self._missing.append(WindowGap(window.start, window.end, error.reason))
            self._say_once(str(error))

    def _outgoing(self, window: Window) -> OutgoingWindow:
        content = encoded_window(window, self._payload)
        # The times identify a window: it is the same whether it comes from the tracer or the recording.
        name = ".".join(map(subjects.token, self._options.address))
        identity = f"{name}:{round(window.start * 1e3)}:{round(window.end * 1e3)}"
        return OutgoingWindow(identity, window.start, window.end, content)

    def _say_once(self, line: str) -> None:
        now = time.monotonic()
        if now - self._said.get(line, float("-inf")) > 300.0:
            self._said[line] = now
            self._say(line)

    # ---- in the loop

    async def _run(self) -> None:
        access = self._options.access
        was_lost = [False]

        def back() -> None:
            if was_lost[0]:
                was_lost[0] = False
                self._again = True
                self._say(f"{access.shown} answers again")
            self._wake.set()

        def lost() -> None:
            if not was_lost[0] and not self._stopping:
                was_lost[0] = True
                self._say(f"{access.shown} is away; windows wait for it")

        listener = ConnectionListener(back, lost, lambda text: self._say_once(f"the NATS server: {text}"))
        address = self._options.address
        self._client = client = await connected(
            access, f"stalltop agent {address.text}", listener, patient=True
        )
        self._payload = min(int(client.max_payload), 8 << 20) - 4096
        await self._make_streams(client)
        answers = self._options.answers
        await serve_requests(client, address, answers, self._options.program, self._lease, self._say)
        js = client.jetstream(timeout=PUBLISH_SECONDS)
        shown: HostSummary | None = None
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            if not client.is_connected:
                continue
            try:
                if self._again:  # streams in memory end with the server
                    self._again = False
                    await self._make_streams(client)
                if self._newest is not shown and self._newest is not None:
                    shown = self._newest
                    await self._send_summary(client, shown)
                await self._resume(js)
                await self._send_changes(js)
                await self._send_windows(js)
                await self._fill(js)
            except (nats.errors.Error, TimeoutError, OSError) as error:
                # Nothing was removed from the buffers: it is sent again, with the same ids.
                self._say_once(f"cannot publish: {described(error)}")

    async def _make_streams(self, client: Client) -> None:
        try:
            await make_streams(client)
        except FleetError as error:
            self._say_once(str(error))

    def _lease(self) -> None:
        self._leased_until = time.monotonic() + LEASE_SECONDS

    async def _send_summary(self, client: Client, summary: HostSummary) -> None:
        address = self._options.address
        # How long an answer takes bounds how long the summary is on its way (model.fleet.host_clock).
        round_trips = [await _round_trip_ns(client) for _ in range(ROUND_TRIPS)]
        summary = replace(summary, sent=self._options.clock(), round_trip_ns=min(round_trips))
        await client.publish(subjects.of_host(subjects.SUMMARY, address), encoded(summary))
        for namespace in namespaces(summary):
            part = encoded(seen_by(summary, namespace))
            await client.publish(subjects.of_namespace(address, namespace), part)

    async def _send_changes(self, js: JetStreamContext) -> None:
        subject = subjects.of_host(subjects.PROBLEM, self._options.address)
        while self._events:
            event = self._events[0]
            identity = f"{subject}:{event.problem.id}:{event.change}:{round(event.at * 1e3)}"
            await _stored(js, subject, encoded_change(event), {ID: identity})
            self._events.popleft()

    async def _send_windows(self, js: JetStreamContext) -> None:
        while windows := self._outbox.first(AT_ONCE):
            done = await asyncio.gather(*(self._store(js, one) for one in windows), return_exceptions=True)
            stored = [one for one, error in zip(windows, done, strict=True) if error is None]
            self._outbox.sent(stored)
            self.sent += len(stored)
            for error in done:
                if error is not None:
                    raise error

    async def _store(self, js: JetStreamContext, window: OutgoingWindow) -> None:
        subject = subjects.of_host(subjects.WINDOW, self._options.address)
        headers = {ID: window.id, START: repr(window.start), END: repr(window.end)}
        if not await _stored(js, subject, window.content, headers):
            place = f"{self._options.address.cluster}/{self._options.address.rack}"
            self._say_once(f"the NATS server keeps no windows of the rack {place}; see stalltop fleet check")

    async def _resume(self, js: JetStreamContext) -> None:
        """Once, finds out which windows the server lacks since an earlier run of the agent."""
        if self._resumed:
            return
        first = next(iter(self._outbox.first(1)), None)
        if first is None:
            return
        self._resumed = True
        try:
            subject = subjects.of_host(subjects.WINDOW, self._options.address)
            last = await js.get_last_msg("ST1_WIN", subject)
            end = float((last.headers or {}).get(END, "nan"))
        except (nats.errors.Error, TimeoutError, ValueError):
            return
        if 1.5 < first.start - end < RESUME_SECONDS:
            self._outbox.miss(WindowGap(end, first.start, "the agent did not run"))

    async def _fill(self, js: JetStreamContext) -> None:
        """Sends the windows of a missing stretch from the recording, and notes what it does not have."""
        if self._outbox or (gap := self._outbox.next_gap()) is None:
            return
        past, covered = self._options.past, gap.start
        if past is not None:
            try:
                windows = await asyncio.get_running_loop().run_in_executor(None, past, gap.start, gap.end)
                for window in windows:
                    if window.start < covered - 0.01 or window.end > gap.end + 0.01:
                        continue
                    if window.start > covered + 0.2:
                        self._missing.append(WindowGap(covered, window.start, gap.reason))
                    await self._store(js, self._outgoing(window))
                    covered = window.end
            except StalltopError as error:
                self._say_once(str(error))
            except BaseException:
                self._outbox.miss(gap._replace(start=covered))  # the rest is tried again
                raise
        if gap.end > covered + 0.01:
            self._missing.append(gap._replace(start=covered))


async def _round_trip_ns(client: Client) -> int:
    began = time.monotonic_ns()
    await client.flush(round(PUBLISH_SECONDS))
    return time.monotonic_ns() - began


async def _stored(js: JetStreamContext, subject: str, content: bytes, headers: dict[str, str]) -> bool:
    """Publishes, and returns whether a stream has stored it. Without a stream, whoever listens has it."""
    try:
        await js.publish(subject, content, headers=headers)
    except nats.js.errors.NoStreamResponseError:
        return False
    return True
