"""Passes the windows of the tracer to its clients, in a thread of its own: no client delays tracing."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from stalltop.model.hosts.tracer import Tracer
from stalltop.model.window import Window
from stalltop.recordings.message.encoding import encode
from stalltop.serving.host import messages
from stalltop.serving.host.messages import MessageError, MessageInbox
from stalltop.serving.host.peers import Peer, is_admitted, is_owner, peer_of
from stalltop.serving.host.place import ADMISSION, released_first
from stalltop.serving.host.recall import Past, Recall, nothing

MOST_CLIENTS: Final = 64
MOST_OF_USER: Final = 16
"""Most clients of one user who is neither root nor the user of the tracer."""
OWNERS_PLACES: Final = 8
"""Clients, of ``MOST_CLIENTS``, that only root and the user of the tracer may have."""
MOST_QUEUED: Final = 8 << 20
"""Most bytes that wait for one client. Windows that come while more wait are lost for this client, which is
told how many."""
MOST_QUEUED_TOTAL: Final = 64 << 20
"""Most bytes that wait for all clients together. Beyond that, a client for which something waits already gets
no further window."""
MOST_NEW: Final = 16
"""Most windows that wait to be encoded. Older ones are lost for all clients."""
ALIVE_SECONDS: Final = 1.0
"""Time without another message after which a client gets a sign of life."""
HELLO_SECONDS: Final = 5.0
"""Time within which a new client must say hello."""
_PAST_BYTES: Final = 1 << 20
"""A client gets further windows of the past only while fewer bytes than these wait for it."""
_ONCE: Final = 1 << 16


class _Client:
    """One connection. Used by the server's thread only, except for ``queued``, ``given`` and ``closed``."""

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
        self.given = False
        """Whether a window of the past is not in ``outbox`` yet."""
        self.ending = False
        """Whether it is closed as soon as everything is sent."""
        self.closed = False

    def put(self, frame: bytes) -> None:
        self.outbox.append(memoryview(frame))
        self.queued += len(frame)
        self.heard = time.monotonic()

    def offer(self, frame: bytes, room: int) -> None:
        """Queue a window, or count it as lost. ``room``: how many bytes may wait in addition, for all clients
        together. If nothing waits for this client, the window may always wait."""
        if self.queued and len(frame) > min(MOST_QUEUED - self.queued, room):
            self.lost += 1
            return
        self.tell_lost()
        self.put(frame)

    def tell_lost(self) -> None:
        """Queue the number of lost windows, if there are any."""
        if self.lost:
            self.put(messages.told(messages.LOST, windows=self.lost))
            self.lost = 0

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
        self,
        listener: socket.socket,
        tracer: Tracer,
        group: int | None = None,
        past: Past = nothing,
        failed: Callable[[Exception], object] = bool,
    ) -> None:
        """``group`` is the group whose members are admitted; None: root and this user only. ``failed`` is
        called, in the server's thread, if the server ends by an error."""
        self._listener = listener
        self._tracer = tracer
        self._group = group
        self._failed = failed
        self._clients: dict[socket.socket, _Client] = {}
        self._greeted = 0
        self._new: deque[Window] = deque()
        self._old: deque[tuple[_Client, bytes]] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._stopping = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Wakes the server's thread; -1: closed. Used with ``_lock``, except in that thread."""
        self._select = selectors.DefaultSelector()
        self._recall = Recall(past, self._give, self._has_room)
        self._thread = threading.Thread(target=self._run, name="stalltop-clients", daemon=True)

    def start(self) -> None:
        """Start to accept clients."""
        self._listener.setblocking(False)
        self._recall.start()
        self._thread.start()

    @property
    def clients(self) -> int:
        """Number of clients that get windows."""
        return self._greeted

    @property
    def waiting(self) -> int:
        """The bytes that wait for all clients."""
        return sum(client.queued for client in list(self._clients.values()))

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
        with self._lock:
            self._stopping = True
            self._rouse()
        if self._thread.ident is None:
            self._end()
        else:
            self._thread.join(timeout)

    def _rouse(self) -> None:
        """Wake the server's thread. Called with the lock: the number of a closed descriptor may be that of
        another file already."""
        if self._wake >= 0:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_write(self._wake, 1)

    # ---- run by its own thread

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._serve()
        except Exception as error:
            failure = error
        finally:
            self._end()
        if failure is not None and not self._stopping:
            self._failed(failure)

    def _serve(self) -> None:
        self._select.register(self._listener, selectors.EVENT_READ)
        self._select.register(self._wake, selectors.EVENT_READ)
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
            for client in list(self._clients.values()):
                self._tend(client)

    def _end(self) -> None:
        self._recall.stop()
        for client in list(self._clients.values()):
            self._close(client)
        self._listener.close()
        self._select.close()
        with self._lock:
            wake, self._wake = self._wake, -1
            if wake >= 0:
                os.close(wake)

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            # No descriptor is left, or the client is gone. The listener stays readable: do not spin.
            time.sleep(0.01)
            return
        link = socket.socket(fileno=released_first(accepted.detach()))
        try:
            link.setblocking(False)
            client = _Client(link, peer_of(link))
            self._select.register(link, selectors.EVENT_READ)
        except Exception:
            link.close()
            return
        full = self._full_for(client.peer)
        self._clients[link] = client
        if not is_admitted(client.peer, self._group):
            self._refuse(
                client,
                f"the tracer of this host does not admit user {client.peer.uid}",
                ADMISSION,
            )
        elif full:
            self._refuse(client, full, "end one of them")

    def _full_for(self, peer: Peer) -> str:
        """Return why there is no place for another client of ``peer``; '' if there is one."""
        users = [client.peer.uid for client in self._clients.values() if not client.ending]
        if len(users) >= MOST_CLIENTS:
            return f"the tracer has {MOST_CLIENTS} clients already"
        if is_owner(peer):
            return ""
        if users.count(peer.uid) >= MOST_OF_USER:
            return f"user {peer.uid} has {MOST_OF_USER} clients of the tracer already"
        if len(users) >= MOST_CLIENTS - OWNERS_PLACES:
            return f"the tracer has {len(users)} clients already, and keeps {OWNERS_PLACES} places for root"
        return ""

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
        except Exception:  # whatever it is, only this client ends
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
            self._recall.ask(client, messages.past_before(content))

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
            except Exception:  # too large, or not a number where one is needed: only this window is lost
                for client in greeted:
                    client.lost += 1
                continue
            for client in greeted:
                client.offer(frame, MOST_QUEUED_TOTAL - self.waiting)
        for client, frame in old:
            client.put(frame)
            client.given = False

    def _tend(self, client: _Client) -> None:
        """Send what waits for the client, and close it if it is over."""
        now = time.monotonic()
        try:
            if client.greeted and not client.queued:
                # Without a further window, the client would not learn that windows were lost.
                client.tell_lost()
                if now - client.heard >= ALIVE_SECONDS * 0.9:
                    client.put(messages.message(messages.ALIVE))
            client.send()
            late = not client.greeted and now - client.since > HELLO_SECONDS
            if late or (client.ending and not client.queued):
                self._close(client)
                return
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.queued else 0)
            if self._select.get_key(client.link).events != wanted:
                self._select.modify(client.link, wanted)
        except Exception:  # whatever it is, only this client ends
            self._close(client)

    def _close(self, client: _Client) -> None:
        if client.closed:
            return
        client.closed = True
        self._greeted -= client.greeted
        del self._clients[client.link]
        with contextlib.suppress(KeyError, ValueError, OSError):
            self._select.unregister(client.link)
        client.link.close()

    # ---- in the thread of the past

    def _has_room(self, client: _Client) -> bool | None:
        if client.closed:
            return None
        return (
            not client.given
            and client.queued <= _PAST_BYTES
            and self.waiting <= MOST_QUEUED_TOTAL // 2  # the other half is for new windows
        )

    def _give(self, client: _Client, frame: bytes) -> None:
        with self._lock:
            client.given = True
            self._old.append((client, frame))
            self._rouse()
