"""Distributes the windows of one source to the screens of all browsers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from stalltop.model.errors import StalltopError
from stalltop.model.source import Source
from stalltop.model.window import Window
from stalltop.serving.link import frame

BACKLOG_SECONDS = 10.0
"""Seconds of past windows that a new screen gets at once: as many as the sliding window of a screen shows by
default, so that it is full from the start."""

Take = Callable[[bytes], None]
"""Callback of a listener. The feed's thread calls it for every frame, so it must not block."""


@dataclass(slots=True, eq=False)
class _BacklogWindow:
    """A window of the backlog, and the frame into which the window is encoded when a screen first needs
    it."""

    window: Window
    frame: bytes | None = None

    def content(self) -> bytes:
        if self.frame is None:
            try:
                self.frame = frame(self.window)
            except (StalltopError, ValueError):
                # The window is too large, or contains NaN: screens get no frame, and show that no data came.
                self.frame = b""
        return self.frame


class Feed:
    """Reads ``source`` every ``interval`` seconds in a thread, and passes windows to all listeners.

    If the source raises, that thread calls ``failed`` and no more windows follow.
    """

    def __init__(self, source: Source, interval: float, failed: Callable[[BaseException], None]) -> None:
        self._source = source
        self._interval = interval
        self._failed = failed
        self._lock = threading.Lock()
        self._new: set[Take] = set()
        self._listeners: set[Take] = set()
        self._kept: deque[_BacklogWindow] = deque()
        self._stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalltop-feed", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stops the thread, which closes the source. Waits ``timeout`` seconds at most."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def listen(self, take: Take) -> None:
        """Registers ``take``, which gets the frames of the backlog and then every new frame."""
        with self._lock:
            self._new.add(take)
        self._wake.set()

    def leave(self, take: Take) -> None:
        """Removes ``take``, which may still get the frame that the feed's thread is passing on at this
        moment."""
        with self._lock:
            self._new.discard(take)
            self._listeners.discard(take)

    def _run(self) -> None:
        try:
            self._read_on()
        except BaseException as error:
            if not self._stopping:
                self._failed(error)
        finally:
            try:
                self._source.close()
            except Exception as error:
                self._failed(error)

    def _read_on(self) -> None:
        due = time.monotonic()
        while not self._stopping:
            kept = _BacklogWindow(self._source.read())
            for take in self._listening():
                take(kept.content())
            self._keep(kept)
            due = max(due + self._interval, time.monotonic())
            while not self._stopping:
                self._welcome()
                if not self._wake.wait(max(due - time.monotonic(), 0.0)):
                    break
                self._wake.clear()

    def _listening(self) -> list[Take]:
        with self._lock:
            return list(self._listeners)

    def _welcome(self) -> None:
        """Passes the backlog to new listeners."""
        with self._lock:
            new, self._new = self._new, set()
            self._listeners |= new
        for take in new:
            for kept in self._kept:
                take(kept.content())

    def _keep(self, kept: _BacklogWindow) -> None:
        self._kept.append(kept)
        seconds = sum(each.window.seconds for each in self._kept)
        while len(self._kept) > 1 and seconds - self._kept[0].window.seconds >= BACKLOG_SECONDS:
            seconds -= self._kept.popleft().window.seconds
