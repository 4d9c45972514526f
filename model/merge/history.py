"""The history of windows in memory: single windows for ten minutes, coarser ones for a day, bounded in
bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from stalltop.model.chain import Chain
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Packed, Peak, pack
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window

DEFAULT_BYTES = 64 << 20
"""Default bound of the memory: 64 MiB."""

LEVELS = ((0.0, 600.0), (10.0, 3_600.0), (60.0, 86_400.0))
"""(minimum length, maximum age) of windows in seconds by level: original windows for 10 minutes, windows of
at least 10 s for an hour, of at least 60 s for a day. Older windows are dropped."""

_LEFT_ALONE = 50
"""Number of newest windows of each level that are not merged while another level can be reduced."""


class History:
    """Windows of the past, oldest first. Used by one thread."""

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        """``most_bytes`` limits the memory of all windows, computed from the sizes of their arrays."""
        if most_bytes <= 0:
            raise ValueError(f"most_bytes must be above 0, got {most_bytes}")
        self.most_bytes = most_bytes
        self._levels: list[deque[Packed]] = [deque() for _ in LEVELS]
        self._keys: dict[RowKey, RowKey] = {}
        self._bytes = 0
        self._chains: tuple[Chain, ...] | None = None
        """Chains of the newest window."""

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels)

    @property
    def bytes(self) -> int:
        """Memory of all windows, computed from the sizes of their arrays; never above ``most_bytes``."""
        return self._bytes

    @property
    def seconds(self) -> float:
        """Total length of all windows in seconds."""
        return sum(packed.window.seconds for packed in self._packed())

    def add(self, window: Window) -> Packed:
        """Adds the newest window and returns it packed. Older ones are merged or dropped by age and
        memory."""
        packed = self._append(0, pack(window, self._shared(window), Peak.of(window, self._chains)))
        self._chains = window.chains
        newer = 0.0
        for number in range(len(LEVELS)):
            newer += self._seconds(number)
            while self._levels[number] and newer - self._spare(number) >= LEVELS[number][1]:
                newer -= self._push_down(number)
        while self._bytes > self.most_bytes and len(self):
            self._shrink()
        if len(self._keys) > 4096 and len(self._keys) > 2 * len(window.rows):
            self._forget_keys()
        return packed

    @property
    def parts(self) -> tuple[Packed, ...]:
        """All windows, packed, oldest first. They are immutable, so any thread may read them."""
        return tuple(self._packed())

    def between(self, start: float, end: float) -> list[Window]:
        """Returns the windows that overlap ``start`` to ``end`` (Unix time in seconds), oldest first."""
        return [
            packed.unpack()
            for packed in self._packed()
            if packed.window.start < end and packed.window.end > start
        ]

    def latest(self, seconds: float) -> list[Window]:
        """Returns the newest windows that together last at least ``seconds``, or all; oldest first."""
        return [packed.unpack() for packed in latest(self._packed(), seconds)]

    def at(self, position: int) -> Window:
        """Returns the window at an index of the list of all windows (-1: the newest). Raises IndexError."""
        return self._packed()[position].unpack()

    def times(self) -> list[tuple[float, float]]:
        """Returns (start, seconds) of every window, oldest first, with the indices of ``at``."""
        return [(packed.window.start, packed.window.seconds) for packed in self._packed()]

    def _packed(self) -> list[Packed]:
        return [packed for level in reversed(self._levels) for packed in level]

    def _seconds(self, number: int) -> float:
        return sum(packed.window.seconds for packed in self._levels[number])

    def _shared(self, window: Window) -> tuple[RowKey, ...]:
        """Returns the window's keys as objects that all windows share, to save memory."""
        return tuple(self._keys.setdefault(key, key) for key in window.rows.keys)

    def _append(self, number: int, packed: Packed) -> Packed:
        self._levels[number].append(packed)
        self._bytes += packed.bytes
        return packed

    def _drop_oldest(self, number: int) -> Packed:
        packed = self._levels[number].popleft()
        self._bytes -= packed.bytes
        return packed

    def _oldest(self, number: int) -> int:
        """Returns how many of the oldest windows of a level to merge into one of the next coarser level (1
        in the last).

        Only consecutive windows are merged: no window spans a gap or two hosts."""
        level = self._levels[number]
        if number + 1 == len(LEVELS):
            return 1
        length = LEVELS[number + 1][0]
        seconds = 0.0
        for at, packed in enumerate(level):
            window = packed.window
            if at and (window.host != level[at - 1].window.host or _gap(level[at - 1], packed) >= length):
                return at
            seconds += window.seconds
            if seconds >= length * 0.99:
                return at + 1
        return len(level)

    def _spare(self, number: int) -> float:
        """Returns the seconds that a level may hold beyond its maximum age.

        In the last level this is the oldest window: without it, the level must still reach back to the
        maximum age.
        """
        return 0.0 if number + 1 < len(LEVELS) else self._levels[number][0].window.seconds

    def _push_down(self, number: int) -> float:
        """Merges the oldest windows of a level into one of the next coarser level; drops the oldest of the
        last level.

        Returns the total seconds of the windows that left the level.
        """
        some = [self._drop_oldest(number) for _ in range(self._oldest(number))]
        if number + 1 < len(LEVELS):
            merged = merge([packed.unpack() for packed in some])
            peak = Peak.highest([packed.peak for packed in some])
            self._append(number + 1, pack(merged, self._shared(merged), peak))
        return sum(packed.window.seconds for packed in some)

    def _shrink(self) -> None:
        """Reduces memory by one step: merges the oldest windows of the largest level, else drops the oldest
        window."""
        sizes = {
            number: sum(packed.bytes for packed in level)
            for number, level in enumerate(self._levels[:-1])
            if len(level) - self._oldest(number) >= _LEFT_ALONE
        }
        if sizes:
            self._push_down(max(sizes, key=lambda number: sizes[number]))
            return
        for number in reversed(range(len(LEVELS))):
            if self._levels[number]:
                self._drop_oldest(number)
                return

    def _forget_keys(self) -> None:
        self._keys = {key: key for packed in self._packed() for key in packed.keys}


def latest(parts: Sequence[Packed], seconds: float) -> Sequence[Packed]:
    """Returns the last of ``parts`` that together last at least ``seconds``, or all of them."""
    at = len(parts)
    while at > 0 and seconds > 0:
        at -= 1
        seconds -= parts[at].window.seconds
    return parts[at:]


def _gap(before: Packed, after: Packed) -> float:
    return abs(after.window.start - before.window.end)
