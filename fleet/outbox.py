"""What a host has not passed on yet: windows up to a number of bytes, and the stretches that it had to
drop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from stalltop.model.fleet.host_summary import WindowGap

MOST_GAPS: Final = 64
"""Maximum number of stretches that are remembered; further ones are joined with the last."""
DROPPED: Final = "the server was away for longer than the buffer holds"
_NEAR_SECONDS: Final = 2.0
"""Stretches that are nearer to each other than this are one."""


class OutgoingWindow(NamedTuple):
    """An encoded window."""

    id: str
    start: float
    end: float
    content: bytes


class Outbox:
    """A bounded queue of windows. Thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._windows: deque[OutgoingWindow] = deque()
        self._bytes = 0
        self._gaps: deque[WindowGap] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._windows)

    @property
    def bytes(self) -> int:
        """Bytes of the windows that wait."""
        return self._bytes

    def put(self, window: OutgoingWindow) -> None:
        """Adds a window. If there is no room for it, the oldest ones are dropped, and their time is a gap."""
        with self._lock:
            self._windows.append(window)
            self._bytes += len(window.content)
            while self._bytes > self._most and len(self._windows) > 1:
                oldest = self._windows.popleft()
                self._bytes -= len(oldest.content)
                self._add(WindowGap(oldest.start, oldest.end, DROPPED))

    def first(self, count: int) -> list[OutgoingWindow]:
        """Returns the oldest windows, at most ``count``; they stay."""
        with self._lock:
            return [self._windows[at] for at in range(min(count, len(self._windows)))]

    def sent(self, windows: Iterable[OutgoingWindow]) -> None:
        """Removes windows that the server has. Those that were dropped in the meantime are no gap any
        more."""
        done = {one.id: one for one in windows}
        with self._lock:
            kept = deque(one for one in self._windows if one.id not in done)
            for one in self._windows:
                done.pop(one.id, None)
            self._windows, self._bytes = kept, sum(len(one.content) for one in kept)
            for one in done.values():
                self._subtract(one.start, one.end)

    def miss(self, gap: WindowGap) -> None:
        """Notes a stretch whose windows were never put here, or could not be encoded."""
        with self._lock:
            self._add(gap)

    def next_gap(self) -> WindowGap | None:
        """Removes and returns the oldest stretch that is missing; None if there is none."""
        with self._lock:
            return self._gaps.popleft() if self._gaps else None

    @property
    def gaps(self) -> tuple[WindowGap, ...]:
        """The stretches that are missing, oldest first."""
        with self._lock:
            return tuple(self._gaps)

    def _add(self, gap: WindowGap) -> None:
        if self._gaps:
            last = self._gaps[-1]
            near = 0.0 <= gap.start - last.end <= _NEAR_SECONDS
            if (near and last.reason == gap.reason) or len(self._gaps) >= MOST_GAPS:
                self._gaps[-1] = last._replace(end=max(gap.end, last.end))
                return
        self._gaps.append(gap)

    def _subtract(self, start: float, end: float) -> None:
        left: list[WindowGap] = []
        for gap in self._gaps:
            if end <= gap.start or start >= gap.end:
                left.append(gap)
                continue
            if gap.start < start:
                left.append(gap._replace(end=start))
            if end < gap.end:
                left.append(gap._replace(start=end))
        self._gaps = deque(left)
