"""The live windows of one host of the fleet, as a source for the screen of a host."""

from __future__ import annotations

import contextlib
import getpass
import json
import math
import queue
import time
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy

from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError, FleetLoop, ServerAccess, close, connected
from stalltop.fleet.messages.window_message import START, decoded_window
from stalltop.fleet.server_place import Rack, jetstream_of
from stalltop.fleet.streams import ANSWER_SECONDS
from stalltop.fleet.watch import stamp
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.merge.history import History
from stalltop.model.merge.merging import merge
from stalltop.model.text.clean import clean
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder

PAST_SECONDS: Final = 120.0
"""How much of the host's past a screen gets when it opens."""
ASK_SECONDS: Final = 10.0
"""How often the host is asked for windows: it may send them only while somebody asks."""
AGAIN_SECONDS: Final = 1.0
"""How soon a host is asked again that did not answer: its agent may have just started."""
RENEW_SECONDS: Final = 4.0
"""Without a window for this long, the subscription is made anew: the server, or the line to the rack, may
have failed, and the client library gives up then."""
SILENT_SECONDS: Final = 10.0
_AT_ONCE: Final = 32
_NEXT_SECONDS: Final = 1e-3
"""The next window of a host is stored at least this long after the one before."""


class RemoteHostSource:
    """Reads the windows of a host from the fleet's server."""

    def __init__(self, access: ServerAccess, address: HostAddress, history: History | None = None) -> None:
        """``history`` gets the past of the host before the first read. Raises FleetError if the server cannot
        be reached."""
        self._address = address
        self._history = history
        self._decoder = MessageDecoder()
        self._arrived: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._closed = False
        self._asked = float("-inf")
        self._asking: Future[Msg] | None = None
        self._subscription: Any = None
        self._since = time.time() - PAST_SECONDS
        """Windows that the server stores from this Unix time on are still to come."""
        self._renewed = time.monotonic()
        self._renewing: Future[None] | None = None
        self._loop = FleetLoop("stalltop-remote-host")
        self._client: Client | None = None
        try:
            self._client = self._loop.wait(connected(access, f"stalltop fleet, {address.text}"))
            self._loop.wait(self._subscribe(self._client))
        except BaseException:
            self.close()
            raise

    def read(self) -> Window:
        """Returns what happened since the last read; waits for the next window.

        Raises FleetError if the host sends nothing for ``SILENT_SECONDS``, or something that is no window;
        RuntimeError after `close`.
        """
        until = time.monotonic() + SILENT_SECONDS
        windows: list[Window] = []
        while not windows or (not self._arrived.empty() and len(windows) < _AT_ONCE):
            self._ask()
            try:
                content = self._arrived.get(timeout=min(max(until - time.monotonic(), 0.01), 1.0))
            except queue.Empty:
                self._renew()
                if time.monotonic() > until:
                    raise FleetError(
                        f"{self._address.text} has sent no window for {SILENT_SECONDS:g} s",
                        "see whether its agent runs: stalltop agent",
                    ) from None
                continue
            if content is None or self._closed:
                raise RuntimeError("read after close")
            self._renewed = time.monotonic()
            try:
                windows.append(decoded_window(content, self._decoder))
            except ValueError as error:
                raise FleetError(f"{self._address.text} sends no window: {error}") from error
        if self._history is not None and len(windows) > 1:
            history, self._history = self._history, None
            for window in windows[:-1]:
                history.add(window)
            return windows[-1]
        self._history = None
        return windows[0] if len(windows) == 1 else merge(windows)

    def close(self) -> None:
        """Ends the connection. May be called twice."""
        self._closed = True
        self._arrived.put(None)
        with contextlib.suppress(Exception):
            self._loop.wait(close(self._client), 2.0)
        self._loop.stop()

    def _ask(self) -> None:
        now, asking = time.monotonic(), self._asking
        failed = asking is not None and asking.done() and asking.exception() is not None
        pause = AGAIN_SECONDS if failed else ASK_SECONDS
        if now - self._asked >= pause and self._client is not None:
            self._asked = now
            self._asking = self._loop.begin(request(self._client, self._address, {"what": "windows"}))

    def _renew(self) -> None:
        """Subscribes anew if no window has come for long."""
        now = time.monotonic()
        busy = self._renewing is not None and not self._renewing.done()
        if now - self._renewed >= RENEW_SECONDS and not busy and self._client is not None:
            self._renewed = now
            self._renewing = self._loop.begin(self._subscribe(self._client))

    async def _subscribe(self, client: Client) -> None:
        subject = subjects.of_host(subjects.WINDOW, self._address)
        before, self._subscription = self._subscription, None
        if before is not None:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await before.unsubscribe()

        async def kept(message: Msg) -> None:
            self._since = stamp(message)[0] + _NEXT_SECONDS
            self._arrived.put(message.data)

        async def live(message: Msg) -> None:
            self._since = time.time()
            self._arrived.put(message.data)

        rack = Rack(self._address.cluster, self._address.rack)
        try:
            self._subscription = await jetstream_of(client, rack, ANSWER_SECONDS).subscribe(
                subject,
                stream="ST1_WIN",
                cb=kept,
                ordered_consumer=True,
                config=ConsumerConfig(
                    name=client.new_inbox().rpartition(".")[2],
                    deliver_policy=DeliverPolicy.BY_START_TIME,
                    opt_start_time=datetime.fromtimestamp(self._since, UTC),
                ),
            )
        except (nats.errors.Error, TimeoutError):
            self._subscription = await client.subscribe(subject, cb=live)


class UnansweredError(FleetError):
    """A host answers that it cannot give what it was asked for."""

    def __init__(self, reason: str, code: str, start: float = math.nan) -> None:
        super().__init__(reason)
        self.code = code
        """One of those in ``fleet.answers``."""
        self.start = start
        """When the window begins that is too large, Unix time in seconds; NaN if that is not known."""


async def request(client: Client, address: HostAddress, asked: dict[str, Any], seconds: float = 5.0) -> Msg:
    """Asks a host (``fleet.answers``), and returns its answer. Raises UnansweredError, and FleetError if
    there is none."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    try:
        answer = await client.request(
            subjects.asking(address), json.dumps(asked).encode(), timeout=seconds, headers={"St-User": user}
        )
    except nats.errors.NoRespondersError:
        raise FleetError(f"{address.text} does not answer: no agent of it is connected") from None
    except (nats.errors.TimeoutError, TimeoutError):
        raise FleetError(f"{address.text} did not answer within {seconds:g} s") from None
    except nats.errors.Error as error:
        raise FleetError(f"{address.text} cannot be asked: {error}") from error
    headers = answer.headers or {}
    if reason := headers.get("Nats-Service-Error"):
        start = math.nan
        with contextlib.suppress(ValueError):
            start = float(headers.get(START, "nan"))
        code = headers.get("Nats-Service-Error-Code", "")
        raise UnansweredError(f"{address.text}: {clean(reason)}", code, start)
    return answer
