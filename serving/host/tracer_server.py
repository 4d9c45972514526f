"""Passes the windows of the tracer to its clients, in a thread of its own: no client delays tracing."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from stalltop.model.errors import StalltopError
from stalltop.model.hosts.tracer import Tracer
from stalltop.model.merge.packing import Peak
from stalltop.model.window import Window
from stalltop.recordings.message.encoding import encode
from stalltop.serving.host import messages
from stalltop.serving.host.messages import MessageError, MessageInbox
from stalltop.serving.host.peers import Peer, is_admitted, peer_of

MOST_CLIENTS: Final = 64
MOST_QUEUED: Final = 8 << 20
"""Most bytes that wait for one client. Windows that come while more wait are lost for this client, which is
told how many."""
MOST_NEW: Final = 16
"""Most windows that wait to be encoded. Older ones are lost for all clients."""
ALIVE_SECONDS: Final = 1.0
"""Time without another message after which a client gets a sign of life."""
HELLO_SECONDS: Final = 5.0
"""Time within which a new client must say hello."""
MOST_PAST: Final = 1_000
"""Most windows of the past that a client gets: of a history in memory, windows of a second for 10 minutes and
of 10 seconds for the hour before; of a recording, the last 16 minutes."""
_PAST_BYTES: Final = 1 << 20
"""A client gets further windows of the past only while fewer bytes than these wait for it."""
_PAST_SHARE: Final = 0.25
"""Share of one CPU that encoding the past may take."""
_ONCE: Final = 1 << 16

Past = Callable[[float], Iterable[tuple[Window, Peak]]]
"""Returns the windows that ended by a time (Unix seconds), newest first. Called in a thread of its own."""


def nothing(before: float) -> Iterable[tuple[Window, Peak]]:
    """Return no windows: the past of a tracer that keeps none."""
    return ()


class _Client:
    """One connection. Used by the server's thread only, except for ``queued`` and ``closed``."""

    def __init__(self, link: socket.socket, peer: Peer) -> None:
        self.link = link
        self.peer = peer
        self.inbox = MessageInbox(messages.MOST_ASKED)
        self.outbox: deque[memoryview] = deque()
        self.queued = 0
        """Bytes in ``outbox``."""
        self.since = self.heard = time.monotonic()
        """When it connected, and when it was last sent something, by ``time.monotonic()``."""
        self.greeted = False
        self.lost = 0
        self.asked = False
        """Whether it has asked for the past."""
        self.ending = False
        """Whether it is closed as soon as everything is sent."""
        self.closed = False

    def put(self, frame: bytes) -> None:
        self.outbox.append(memoryview(frame))
        self.queued += len(frame)
        self.heard = time.monotonic()

    def offer(self, frame: bytes) -> None:
        """Queue a window, or count it as lost."""
        if self.queued + len(frame) > max(MOST_QUEUED, len(frame)):
            self.lost += 1
            return
        if self.lost:
            self.put(messages.told(messages.LOST, windows=self.lost))
            self.lost = 0
        self.put(frame)

    def send(self) -> None:
        """Send as much as the socket takes. Raises OSError if the client is gone."""
        with contextlib.suppress(BlockingIOError):
            while self.outbox:
                part = self.outbox[0]
                sent = self.link.send(part[:_ONCE])
                self.queued -= sent
                if sent == len(part):
                    self.outbox.popleft()
                else:
                    self.outbox[0] = part[sent:]


class TracerServer:
    """Accepts clients at ``listener`` and passes them every window that is published."""

    def __init__(
        self, listener: socket.socket, tracer: Tracer, group: int | None = None, past: Past = nothing
    ) -> None:
        """``group`` is the group whose members are admitted; None: root and this user only."""
        self._listener = listener
        self._tracer = tracer
        self._group = group
        self._past = past
        self._clients: dict[socket.socket, _Client] = {}
        self._greeted = 0
        self._new: deque[Window] = deque()
        self._old: deque[tuple[_Client, bytes]] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._stopping = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._select = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="stalltop-clients", daemon=True)

    def start(self) -> None:
        """Start to accept clients."""
        self._listener.setblocking(False)
        self._thread.start()

    @property
    def clients(self) -> int:
        """Number of clients that get windows."""
        return self._greeted

    @property
    def most_waiting(self) -> int:
        """The most bytes that wait for one client."""
        return max((client.queued for client in list(self._clients.values())), default=0)

    def publish(self, window: Window) -> None:
        """Pass ``window`` to all clients. Returns at once; nothing is encoded if there are none."""
        if not self._greeted:
            return
        with self._lock:
            if len(self._new) >= MOST_NEW:
                self._new.popleft()
                self._dropped += 1
            self._new.append(window)
        self._rouse()

    def stop(self, timeout: float = 1.0) -> None:
        """Close all connections. Clients then look for the next tracer. May be called twice."""
        self._stopping = True
        if self._thread.is_alive():
            self._rouse()
            self._thread.join(timeout)

    def _rouse(self) -> None:
        with contextlib.suppress(OSError):
            os.eventfd_write(self._wake, 1)

    # ---- in the thread

    def _run(self) -> None:
        self._select.register(self._listener, selectors.EVENT_READ)
        self._select.register(self._wake, selectors.EVENT_READ)
        try:
            while not self._stopping:
                for key, _ in self._select.select(ALIVE_SECONDS if self._clients else None):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj == self._wake:
                        with contextlib.suppress(BlockingIOError):
                            os.eventfd_read(self._wake)
                    else:
                        self._receive(self._clients[key.fileobj])  # type: ignore[index]
                self._pass_on()
                self._tend()
        finally:
            for client in list(self._clients.values()):
                self._close(client)
            self._listener.close()
            self._select.close()
            os.close(self._wake)

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError:
            # No descriptor is left, or the client is gone. The listener stays readable: do not spin.
            time.sleep(0.01)
            return
        try:
            link.setblocking(False)
            client = _Client(link, peer_of(link))
        except OSError:
            link.close()
            return
        self._clients[link] = client
        self._select.register(link, selectors.EVENT_READ)
        if not is_admitted(client.peer, self._group):
            self._refuse(
                client,
                f"the tracer of this host does not admit user {client.peer.uid}",
                'run as root; root can admit a group: group = "NAME" in /etc/stalltop/config.toml',
            )
        elif len(self._clients) > MOST_CLIENTS:
            self._refuse(client, f"the tracer has {MOST_CLIENTS} clients already", "end one of them")

    def _refuse(self, client: _Client, reason: str, remedy: str = "") -> None:
        client.put(messages.told(messages.REFUSED, reason=reason, remedy=remedy))
        client.ending = True

    def _receive(self, client: _Client) -> None:
        try:
            data = client.link.recv(_ONCE)
            if not data:
                self._close(client)
                return
            if client.ending:
                return
            for kind, content in client.inbox.feed(data):
                self._handle(client, kind, content)
        except MessageError as told:
            self._refuse(client, told.reason, told.remedy)
        except BlockingIOError:
            return
        except OSError:
            self._close(client)

    def _handle(self, client: _Client, kind: bytes, content: bytes) -> None:
        if kind == messages.HELLO and not client.greeted:
            client.put(messages.hello_of_tracer(messages.common_version(content), self._tracer))
            client.greeted = True
            self._greeted += 1
        elif not client.greeted:
            raise MessageError("the first message is no hello")
        elif kind == messages.PAST and not client.asked:
            client.asked = True
            before = messages.past_before(content)
            threading.Thread(
                target=self._recall, args=(client, before), name="stalltop-past", daemon=True
            ).start()

    def _pass_on(self) -> None:
        """Queue new windows for all clients, and windows of the past for those that asked."""
        with self._lock:
            new, old = list(self._new), list(self._old)
            dropped, self._dropped = self._dropped, 0
            self._new.clear()
            self._old.clear()
        greeted = [client for client in self._clients.values() if client.greeted]
        for client in greeted:
            client.lost += dropped
        for window in new:
            try:
                frame = messages.message(messages.WINDOW, encode(window))
            except (StalltopError, ValueError):  # too large, or not a number where one is needed
                for client in greeted:
                    client.lost += 1
                continue
            for client in greeted:
                client.offer(frame)
        for client, frame in old:
            client.put(frame)

    def _tend(self) -> None:
        now = time.monotonic()
        for client in list(self._clients.values()):
            if client.greeted and not client.queued and now - client.heard >= ALIVE_SECONDS * 0.9:
                client.put(messages.message(messages.ALIVE))
            try:
                client.send()
            except OSError:
                self._close(client)
                continue
            late = not client.greeted and now - client.since > HELLO_SECONDS
            if late or (client.ending and not client.queued):
                self._close(client)
                continue
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.queued else 0)
            if self._select.get_key(client.link).events != wanted:
                self._select.modify(client.link, wanted)

    def _close(self, client: _Client) -> None:
        if client.closed:
            return
        client.closed = True
        self._greeted -= client.greeted
        del self._clients[client.link]
        self._select.unregister(client.link)
        client.link.close()

    # ---- in a thread for each client that asks for the past

    def _recall(self, client: _Client, before: float) -> None:
        left = MOST_PAST
        with contextlib.suppress(StalltopError, OSError, ValueError):  # the past is then shorter
            began = time.thread_time()
            for window, peak in self._past(before):
                frame = messages.message(messages.KEPT, encode(window, peak))
                while client.queued > _PAST_BYTES and not (client.closed or self._stopping):
                    time.sleep(0.02)
                if client.closed or self._stopping:
                    return
                self._give(client, frame)
                left -= 1
                if not left:
                    break
                took = time.thread_time() - began
                time.sleep(took * (1.0 / _PAST_SHARE - 1.0))
                began = time.thread_time()
        self._give(client, messages.message(messages.END))

    def _give(self, client: _Client, frame: bytes) -> None:
        with self._lock:
            self._old.append((client, frame))
        self._rouse()
