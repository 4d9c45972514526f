"""One source for many screens: read once, whoever looks."""

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
"""A new screen gets the windows of so long ago at once: what the screen shows at its start."""

Take = Callable[[bytes], None]
"""Gets frames, one by one, from a thread of the feed; must not wait."""


@dataclass(slots=True, eq=False)
class _Kept:
    """A window, and its frame once somebody wanted it."""

    window: Window
    frame: bytes | None = None

    def content(self) -> bytes:
        if self.frame is None:
            try:
                self.frame = frame(self.window)
            except (StalltopError, ValueError):
                self.frame = b""  # too large, or no figures: the screens say that nothing came
        return self.frame


class Feed:
    """Reads ``source`` every ``interval`` seconds in a thread, and passes windows to all who listen.

    ``failed`` is called once, from that thread, where the source raised: nothing more will come then.
    """

    def __init__(self, source: Source, interval: float, failed: Callable[[BaseException], None]) -> None:
        self._source = source
        self._interval = interval
        self._failed = failed
        self._lock = threading.Lock()
        self._new: set[Take] = set()
        self._listeners: set[Take] = set()
        self._kept: deque[_Kept] = deque()
        self._stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalltop-feed", daemon=True)

    def start(self) -> None:
        """Begin reading."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop and close the source; what takes longer than ``timeout`` seconds ends with the process."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def listen(self, take: Take) -> None:
        """From now on ``take`` gets every frame, those of the last seconds first."""
        with self._lock:
            self._new.add(take)
        self._wake.set()

    def leave(self, take: Take) -> None:
        """``take`` gets nothing more, but perhaps what is on its way."""
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
            kept = _Kept(self._source.read())
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
        """Give those who are new what is kept."""
        with self._lock:
            new, self._new = self._new, set()
            self._listeners |= new
        for take in new:
            for kept in self._kept:
                take(kept.content())

    def _keep(self, kept: _Kept) -> None:
        self._kept.append(kept)
        seconds = sum(each.window.seconds for each in self._kept)
        while len(self._kept) > 1 and seconds - self._kept[0].window.seconds >= BACKLOG_SECONDS:
            seconds -= self._kept.popleft().window.seconds
