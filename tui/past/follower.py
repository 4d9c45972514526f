"""Follows an opened recording beside the screen: what is written to it while it is shown is shown too."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.message import Message

from stalltop.recordings.past.in_file import InFile
from stalltop.recordings.past.kept import Stale
from stalltop.recordings.past.opened import OpenedRecording
from stalltop.tui.collector import Snapshot, SourceReader, Tick

_SHARE = 50
"""Of so many seconds one at most is spent on looking at what is new,"""
_MOST_SECONDS = 10.0
"""but it is looked at this often whatever that takes."""
FIRST_SECONDS = 10.0
"""Length of the window that is shown first: longer ones may take a while."""


class Follower(SourceReader):
    """Hands the newest of ``recording`` to ``post``, from its own thread, as often as there is more of it."""

    def __init__(
        self,
        recording: OpenedRecording,
        post: Callable[[Message], object],
        *,
        interval: float = 1.0,
        length: float | None = 10.0,
    ) -> None:
        """``interval``: seconds between two looks, at least; ``length``: seconds of a window, None: all."""
        super().__init__("follower", post)
        self._recording = recording
        self._interval = interval
        self._length = length

    def choose(self, length: float | None) -> None:
        """What is handed over from now on has this length; the screen asks for that of now itself."""
        self._length = length

    def _close(self) -> None:
        self._recording.close()

    def _read(self) -> None:
        kept = InFile.of(self._recording)
        # The picture first, a short one; then what led to it, and the length that is wanted.
        first = kept.window_at(kept.end, FIRST_SECONDS, self._wake.is_set)
        if first is not None:
            kept = kept.with_parts()
            self._post(Tick(Snapshot(first, FIRST_SECONDS, first, kept, None, time.monotonic())))
            self._tell(kept.with_parts(fetch=True, stale=self._wake.is_set), grows=False)
        took = 0.0
        while not self._wake.wait(max(self._interval, min(_SHARE * took, _MOST_SECONDS))):
            began = time.thread_time()
            before, kept = kept, InFile.of(self._recording)
            if not kept.is_as(before):
                self._tell(kept.with_parts(fetch=True, stale=self._wake.is_set), grows=True)
            took = time.thread_time() - began

    def _tell(self, kept: InFile, *, grows: bool) -> None:
        """Hand over the window of the chosen length; if another one is chosen meanwhile, of that."""
        while not self._wake.is_set():
            length = self._length
            window = kept.window_at(kept.end, length, self._stale(length))
            if window is not None:
                self._post(Tick(Snapshot(window, length, window, kept, None, time.monotonic(), grows)))
                return

    def _stale(self, length: float | None) -> Stale:
        return lambda: self._wake.is_set() or self._length != length
