"""Reads an opened recording in the background, including what another program adds to it."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.message import Message

from stalltop.recordings.past.in_file import InFile
from stalltop.recordings.past.kept import Stale
from stalltop.recordings.past.opened import OpenedRecording
from stalltop.tui.reading.collector import Snapshot, SourceReader, Tick

_SHARE = 50
"""After a read the follower waits this many times as long as the CPU time of the read, but at most
``_MOST_SECONDS``, so that reading seldom takes more than 2 % of a CPU."""
_MOST_SECONDS = 10.0
"""The longest time in seconds that the follower waits because of a slow read."""
FIRST_SECONDS = 10.0
"""Length in seconds of the window that is shown first. Longer windows may take a while to compute."""


class Follower(SourceReader):
    """Posts the newest window of ``recording`` from its own thread whenever the recording has grown."""

    def __init__(
        self,
        recording: OpenedRecording,
        post: Callable[[Message], object],
        *,
        interval: float = 1.0,
        length: float | None = 10.0,
    ) -> None:
        """``interval`` is the least number of seconds between two reads. ``length`` is the length of a window
        in seconds; None: of all data."""
        super().__init__("follower", post)
        self._recording = recording
        self._interval = interval
        self._length = length

    def choose(self, length: float | None) -> None:
        """Post windows of ``length`` seconds from now on; None: of all data. The screen itself computes the
        current window of that length."""
        self._length = length

    def _close(self) -> None:
        self._recording.close()

    def _read(self) -> None:
        kept = InFile.of(self._recording)
        # Show a short window first. The windows before it and the chosen length follow.
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
        """Post the window of the chosen length. If the user chooses another length meanwhile, start again
        with that length."""
        while not self._wake.is_set():
            length = self._length
            window = kept.window_at(kept.end, length, self._stale(length))
            if window is not None:
                self._post(Tick(Snapshot(window, length, window, kept, None, time.monotonic(), grows)))
                return

    def _stale(self, length: float | None) -> Stale:
        return lambda: self._wake.is_set() or self._length != length
