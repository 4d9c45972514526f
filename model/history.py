"""Windows of the past: single ones for ten minutes, coarser ones for a day, within a bound of memory."""

from __future__ import annotations

from collections import deque

from model.merging import merge
from model.packing import Packed, pack
from model.window import RowKey, Window

DEFAULT_BYTES = 64 << 20
"""Memory bound where none is given: 64 MiB."""

LEVELS = ((0.0, 600.0), (10.0, 3_600.0), (60.0, 86_400.0))
"""(shortest length, age) of windows in seconds: windows as they came for 10 minutes, of at least 10 s
for an hour, of at least 60 s for a day; older ones are dropped."""

_LEFT_ALONE = 60
"""So many of the newest windows of each length stay as long as older ones can give way."""


class History:
    """What was seen before, oldest first. Used from one thread."""

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        """``most_bytes`` bounds the memory of all windows, counted from the sizes of their arrays."""
        if most_bytes <= 0:
            raise ValueError(f"most_bytes must be above 0, got {most_bytes}")
        self.most_bytes = most_bytes
        self._levels: list[deque[Packed]] = [deque() for _ in LEVELS]
        self._keys: dict[RowKey, RowKey] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels)

    @property
    def bytes(self) -> int:
        """Memory of all windows, from the sizes of their arrays; never above ``most_bytes``."""
        return self._bytes

    @property
    def seconds(self) -> float:
        """Time that the windows held stand for."""
        return sum(packed.window.seconds for packed in self._packed())

    def add(self, window: Window) -> None:
        """Keep ``window``, the newest one; older ones are merged or dropped as age and memory demand."""
        self._append(0, window)
        for number in range(len(LEVELS)):
            while self._too_old(number):
                self._push_down(number)
        while self._bytes > self.most_bytes and len(self):
            self._shrink()
        if len(self._keys) > 4096 and len(self._keys) > 2 * len(window.rows):
            self._forget_keys()

    def between(self, start: float, end: float) -> list[Window]:
        """Windows that overlap ``start`` to ``end`` (Unix time in seconds), oldest first."""
        return [
            packed.unpack()
            for packed in self._packed()
            if packed.window.start < end and packed.window.end > start
        ]

    def latest(self, seconds: float) -> list[Window]:
        """The newest windows that together last at least ``seconds``, or all there are; oldest first."""
        found: list[Packed] = []
        length = 0.0
        for packed in reversed(self._packed()):
            if length >= seconds:
                break
            found.append(packed)
            length += packed.window.seconds
        return [packed.unpack() for packed in reversed(found)]

    def at(self, position: int) -> Window:
        """The window at ``position`` in the list of all, negative from the newest: -1. Raises IndexError."""
        return self._packed()[position].unpack()

    def times(self) -> list[tuple[float, float]]:
        """(start, seconds) of every window held, oldest first: what ``at`` can be asked for."""
        return [(packed.window.start, packed.window.seconds) for packed in self._packed()]

    def _packed(self) -> list[Packed]:
        return [packed for level in reversed(self._levels) for packed in level]

    def _append(self, number: int, window: Window) -> None:
        # Windows share their keys: one object for each, however many windows hold it.
        packed = pack(window, tuple(self._keys.setdefault(key, key) for key in window.rows.keys))
        self._levels[number].append(packed)
        self._bytes += packed.bytes

    def _drop_oldest(self, number: int) -> Packed:
        packed = self._levels[number].popleft()
        self._bytes -= packed.bytes
        return packed

    def _too_old(self, number: int) -> bool:
        """Whether the level's oldest window is older than the level reaches (counted in measured time)."""
        newer = 0.0
        for level in self._levels[: number + 1]:
            newer += sum(packed.window.seconds for packed in level)
        level = self._levels[number]
        return bool(level) and newer - level[0].window.seconds >= LEVELS[number][1]

    def _push_down(self, number: int) -> None:
        """Hand the oldest window of a level on to the next coarser one, or drop it from the last."""
        oldest = self._drop_oldest(number).unpack()
        if number + 1 == len(LEVELS):
            return
        below = self._levels[number + 1]
        if below and self._continues(below[-1].window, oldest, LEVELS[number + 1][0]):
            unfinished = below.pop()
            self._bytes -= unfinished.bytes
            oldest = merge([unfinished.unpack(), oldest])
        self._append(number + 1, oldest)

    @staticmethod
    def _continues(before: Window, after: Window, length: float) -> bool:
        """Whether ``before`` is still shorter than its level's windows and ``after`` follows it directly."""
        gap = abs(after.start - before.end)
        return before.host == after.host and before.seconds < length * 0.99 and gap < length

    def _shrink(self) -> None:
        """One step towards less memory: merge the oldest of the dearest level, else drop the oldest."""
        sizes = {
            number: sum(packed.bytes for packed in level)
            for number, level in enumerate(self._levels[:-1])
            if len(level) > _LEFT_ALONE
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
