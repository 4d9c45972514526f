"""Follows the summaries of all hosts: first the last one of each, then new ones as they come."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy

from stalltop.fleet import subjects
from stalltop.fleet.connection import ConnectionListener, FleetLoop, ServerAccess, close, connected
from stalltop.fleet.messages.summary_message import taken
from stalltop.fleet.streams import ANSWER_SECONDS
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.fleet_view import FleetView
from stalltop.model.fleet.server_clock import ServerClock

QUIET_SECONDS: Final = 4.0
"""Without a message for this long, although there are hosts, the subscription is made anew: the server may
have lost it in a restart."""
LIVE_SECONDS: Final = 1.2
"""Without a stream, each host is known after this time: it sends a summary a second."""
STREAM_SECONDS: Final = 10.0
"""A stream that does not exist is looked for again after this time: only a stream tells when the server
received a message."""
YIELD_MESSAGES: Final = 64
"""Messages that are taken in before other work of the loop gets its turn."""


class FleetWatch:
    """Keeps the state of the fleet. ``say`` gets lines for the user, in any thread."""

    def __init__(
        self,
        access: ServerAccess,
        *,
        cluster: str = "",
        namespace: str = "",
        say: Callable[[str], object] = bool,
    ) -> None:
        """``cluster``: only its hosts; '': all. ``namespace``: only what its members may see."""
        self._access = access
        self._say = say
        kind = subjects.NAMESPACE if namespace else subjects.SUMMARY
        self._subject = (
            subjects.every_of_namespace(namespace, cluster) if namespace else subjects.every(kind, cluster)
        )
        self._stream = "ST1_NS" if namespace else "ST1_SUM"
        self._state = FleetState()
        self._lock = threading.Lock()
        self._loop = FleetLoop("stalltop-fleet")
        self._client: Client | None = None
        self._subscription: Any = None
        self._clock = ServerClock()
        self._again = float("inf")
        """When to look for the stream again, by ``time.monotonic()``."""
        self._heard = time.monotonic()
        self._joined = threading.Event()
        self._stopping = False
        self.join_seconds = 0.0
        """How long it took to know the last summary of each host."""
        self.messages = 0
        """Messages taken in."""
        self.refused = 0
        """Messages that could not be read."""

    def start(self) -> None:
        """Connects and subscribes. Raises FleetError if the server cannot be reached or refuses the user."""
        began = time.monotonic()
        self._loop.wait(self._connect())
        self._task = self._loop.begin(self._follow(began))

    def join(self, seconds: float) -> bool:
        """Waits until the last summary of each host is known; returns False after ``seconds``."""
        return self._joined.wait(seconds)

    @property
    def connected(self) -> bool:
        """Whether the server can be reached at present."""
        return self._client is not None and bool(self._client.is_connected)

    @property
    def client(self) -> Client:
        """The connection, for other readers in the same loop."""
        assert self._client is not None
        return self._client

    @property
    def loop(self) -> FleetLoop:
        """The loop of the connection."""
        return self._loop

    def view(self) -> FleetView:
        """Returns the fleet now. Any thread may call this."""
        with self._lock:
            return self._state.view(self._clock.now(time.time()))

    def stop(self) -> None:
        """Ends the connection. May be called twice."""
        self._stopping = True
        with contextlib.suppress(Exception):
            self._loop.wait(close(self._client), 2.0)
        self._loop.stop()

    # ---- in the loop

    async def _connect(self) -> None:
        def lost() -> None:
            if self._stopping:
                return
            self._say(f"{self._access.shown} is away")

        def back() -> None:
            if self._client is not None:
                self._say(f"{self._access.shown} answers again")
                self._heard = float("-inf")  # subscribe anew

        listener = ConnectionListener(back, lost, self._say)
        self._client = await connected(self._access, "stalltop fleet", listener)

    async def _follow(self, began: float) -> None:
        await self._begin(began)
        while True:
            await asyncio.sleep(0.5)
            await self._check()

    async def _begin(self, began: float) -> None:
        await self._subscribe(began)

    async def _check(self) -> None:
        """Subscribes if nothing is subscribed to, or the subscription brings nothing."""
        quiet = time.monotonic() - self._heard > QUIET_SECONDS
        lost = quiet and (len(self._state) or self._heard == float("-inf"))
        if self.connected and (lost or self._subscription is None or time.monotonic() > self._again):
            self._heard = time.monotonic()
            await self._unsubscribe()
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await self._subscribe(None)

    async def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await subscription.unsubscribe()

    def _all_known(self, began: float) -> None:
        """Notes that all hosts are known, since ``began`` by ``time.monotonic()``."""
        if not self._joined.is_set():
            self.join_seconds = time.monotonic() - began
            self._joined.set()

    async def _subscribe(self, began: float | None) -> None:
        client = self.client
        js = client.jetstream(timeout=ANSWER_SECONDS)

        def joined() -> None:
            if began is not None:
                self._all_known(began)

        async def kept(message: Msg) -> None:
            at, pending = stamp(message)
            self._take(message, at)
            if not pending:
                joined()
            await self._yield()

        async def live(message: Msg) -> None:
            self._take(message, time.time())
            await self._yield()

        self._again = float("inf")
        try:
            # The name makes the filter part of the request's subject, which permissions can then limit.
            config = ConsumerConfig(name=client.new_inbox().rpartition(".")[2])
            self._subscription = await js.subscribe(
                self._subject,
                stream=self._stream,
                cb=kept,
                ordered_consumer=True,
                config=config,
                deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
            )
            info = await self._subscription.consumer_info()
            delivered = info.delivered.consumer_seq if info.delivered is not None else 0
            if not (info.num_pending or 0) + (delivered or 0):
                joined()  # there is no host yet
        except (nats.errors.Error, TimeoutError) as error:
            if not isinstance(error, nats.js.errors.NotFoundError | nats.errors.TimeoutError | TimeoutError):
                self._say(f"the stream {self._stream} cannot be read: {error}")
            if isinstance(error, nats.js.errors.NotFoundError):
                self._again = time.monotonic() + STREAM_SECONDS
            self._subscription = await client.subscribe(self._subject, cb=live)
            await asyncio.sleep(LIVE_SECONDS)
            joined()

    async def _yield(self) -> None:
        if self.messages % YIELD_MESSAGES == 0:
            await asyncio.sleep(0)

    def _take(self, message: Msg, at: float) -> None:
        self.messages += 1
        self._heard = time.monotonic()
        try:
            address = subjects.address_in(message.subject)
        except ValueError:
            self.refused += 1
            return
        with self._lock:
            self._clock.take(at, time.time())
            self.refused += taken(self._state, address, message.data, at) is None


def stamp(message: Msg) -> tuple[float, int]:
    """Returns when the server received a message of a stream (Unix time), and how many more it has.

    They stand in the reply subject: ``$JS.ACK``, in newer servers domain and account, then stream, consumer,
    three counts, the time in ns, and what is pending. ``Msg.metadata`` takes three times as long.
    """
    parts = message.reply.split(".")
    first = 2 if len(parts) == 9 else 4
    return int(parts[first + 5]) / 1e9, int(parts[first + 6])
