"""The client's end of a connection to the tracer: receives windows in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from stalltop.model.errors import StalltopError, TracingError, described
from stalltop.model.hosts.tracer import Tracer
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Packed, pack
from stalltop.model.window import Missing, Window
from stalltop.recordings.message.decoding import DecodedWindow, MessageDecoder
from stalltop.serving.host import messages
from stalltop.serving.host.messages import MessageError, MessageInbox
from stalltop.serving.host.peers import peer_of
from stalltop.serving.host.place import ANSWER_SECONDS, TracerSilentError

_AT_ONCE: Final = 32
"""If more windows than these wait to be read, they are merged."""
_ONCE: Final = 1 << 18


class TracerRefusesError(TracingError):
    """The tracer of this host does not admit this client."""


class TracerEndedError(StalltopError):
    """The tracer ended while this client connected. There may be another one already."""

    def __init__(self) -> None:
        super().__init__("the tracer of this host ended while this stalltop connected to it")


class TracerLink:
    """Windows from the tracer at the other end of ``link``, which this object owns."""

    def __init__(self, link: socket.socket, *, past: bool = False) -> None:
        """Greets the tracer. ``past``: also ask for the windows that it has kept.

        Raises TracerRefusesError, TracerEndedError, TracerSilentError if the tracer does not answer within
        ``ANSWER_SECONDS``, and StalltopError if the answer is not that of a tracer.
        """
        self._link = link
        self._wanted = past
        self._inbox = MessageInbox()
        self._decoder = MessageDecoder()
        self._changed = threading.Condition()
        self._windows: list[Window] = []
        self._past: list[Packed] = []
        self._lost = 0
        self._error: StalltopError | None = None
        self._ended = False
        self._waiting: list[tuple[bytes, bytes]] = []
        self.heard = self.window_at = time.monotonic()
        """When the tracer last sent something, and when it last sent a valid window or accepted this
        client; by ``time.monotonic()``."""
        try:
            self.tracer = self._greet()
        except BaseException:
            link.close()
            raise
        self._thread = threading.Thread(target=self._run, name="stalltop-link", daemon=True)

    def start(self, ended: Callable[[], object]) -> None:
        """Start to receive in a thread, which calls ``ended`` when the connection has ended."""
        self._on_end = ended
        self._thread.start()

    def take(self, timeout: float) -> Window | None:
        """Return all windows that have come since the last call, merged; wait for the first one. Return None
        if none comes within ``timeout`` seconds, or the connection has ended.

        Raises StalltopError if the tracer sent something invalid.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._windows or self._ended, timeout)
            windows, self._windows = self._windows, []
            if not windows and self._error is not None:
                raise self._error
        return merge(windows) if windows else None

    def past(self) -> list[Packed]:
        """Return the windows of the past that have come since the last call, oldest first."""
        with self._changed:
            past, self._past = self._past, []
        return past[::-1]

    @property
    def error(self) -> StalltopError | None:
        """What ended the connection, if the tracer sent something invalid."""
        return self._error

    @property
    def lost(self) -> int:
        """How many windows were lost since the last one."""
        return self._lost

    @property
    def ended(self) -> bool:
        """Whether the connection has ended and all its windows were taken."""
        return self._ended and not self._windows

    def close(self) -> None:
        """End the connection. May be called twice."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        if not self._thread.is_alive():
            self._link.close()

    def _greet(self) -> Tracer:
        until = time.monotonic() + ANSWER_SECONDS
        self._link.settimeout(ANSWER_SECONDS)
        try:
            # A tracer that refuses this client closes the connection at once; its reason can still be read.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._link.sendall(messages.hello_of_client())
            while not self._waiting:
                # The limit is for the whole greeting: a tracer could send one byte at a time.
                self._link.settimeout(max(until - time.monotonic(), 1e-3))
                data = self._link.recv(_ONCE)
                if not data:
                    raise TracerEndedError
                self._waiting += self._inbox.feed(data)
        except TimeoutError:
            raise TracerSilentError(peer_of(self._link).pid) from None
        except ConnectionResetError:
            raise TracerEndedError from None
        except OSError as error:
            raise StalltopError(
                f"cannot reach the tracer of this host: {error.strerror or error}", "trace by yourself: --own"
            ) from None
        kind, content = self._waiting.pop(0)
        if kind == messages.REFUSED:
            raise TracerRefusesError(*messages.refusal_of(content))
        if kind != messages.HELLO:
            raise MessageError("the tracer of this host did not say hello")
        self._link.settimeout(None)
        return messages.tracer_of(content)

    # ---- run by its own thread

    def _run(self) -> None:
        try:
            self._receive()
        except StalltopError as error:
            self._error = error
        except Exception as error:
            self._error = MessageError(f"what the tracer of this host sent is of no use: {described(error)}")
        finally:
            self._link.close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()
            self._on_end()

    def _receive(self) -> None:
        while True:
            for kind, content in self._waiting:
                self._handle(kind, content)
            self._waiting.clear()
            try:
                data = self._link.recv(_ONCE)
            except OSError:
                return
            if not data:
                return
            self.heard = time.monotonic()
            self._waiting += self._inbox.feed(data)

    def _handle(self, kind: bytes, content: bytes) -> None:
        if kind == messages.WINDOW:
            try:
                decoded = self._decoder.decode(content)
            except ValueError:
                self._lost += 1  # the next one may be readable
                return
            window = self._told(decoded)
            self.window_at = time.monotonic()
            with self._changed:
                self._windows.append(window)
                if len(self._windows) > _AT_ONCE:
                    self._windows = [merge(self._windows)]
                self._changed.notify_all()
            if self._wanted:
                self._wanted = False
                with contextlib.suppress(OSError):
                    self._link.sendall(messages.told(messages.PAST, before=window.start))
        elif kind == messages.KEPT:
            try:
                window, peak = self._decoder.decode(content)
            except ValueError:
                return
            packed = pack(self._told(DecodedWindow(window, peak)), peak=peak)
            with self._changed:
                self._past.append(packed)
        elif kind == messages.LOST:
            self._lost += messages.lost_of(content)
        elif kind == messages.REFUSED:
            raise TracerRefusesError(*messages.refusal_of(content))

    def _told(self, decoded: DecodedWindow) -> Window:
        """Return the window, which says whose it is, and how many windows before it were lost."""
        window = decoded.window
        coverage = replace(window.coverage, tracer=self.tracer)
        lost, self._lost = self._lost, 0
        if lost:
            gap = Missing(
                "windows of the tracer",
                f"{lost} windows before this one are missing: this client was too slow, or they were invalid",
                "let it draw less, or raise its share of CPU time",
            )
            coverage = replace(coverage, missing=(*coverage.missing, gap))
        return replace(window, coverage=coverage)
