"""Windows of the past: single ones for ten minutes, coarser ones for a day, within a bound of memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from stalltop.model.chain import Chain
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Packed, Peak, pack
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window

DEFAULT_BYTES = 64 << 20
"""Memory bound where none is given: 64 MiB."""

LEVELS = ((0.0, 600.0), (10.0, 3_600.0), (60.0, 86_400.0))
"""(shortest length, age) of windows in seconds: windows as they came for 10 minutes, of at least 10 s
for an hour, of at least 60 s for a day; older ones are dropped."""

_LEFT_ALONE = 50
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
        self._chains: tuple[Chain, ...] | None = None
        """Those of the newest window."""

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

    def add(self, window: Window) -> Packed:
        """Keep ``window``, the newest one, and return it put away; older ones are merged or dropped as age
        and memory demand."""
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
        """All windows held, put away, oldest first: they never change, and may be read from any thread."""
        return tuple(self._packed())

    def between(self, start: float, end: float) -> list[Window]:
        """Windows that overlap ``start`` to ``end`` (Unix time in seconds), oldest first."""
        return [
            packed.unpack()
            for packed in self._packed()
            if packed.window.start < end and packed.window.end > start
        ]

    def latest(self, seconds: float) -> list[Window]:
        """The newest windows that together last at least ``seconds``, or all there are; oldest first."""
        return [packed.unpack() for packed in latest(self._packed(), seconds)]

    def at(self, position: int) -> Window:
        """The window at ``position`` in the list of all, negative from the newest: -1. Raises IndexError."""
        return self._packed()[position].unpack()

    def times(self) -> list[tuple[float, float]]:
        """(start, seconds) of every window held, oldest first: what ``at`` can be asked for."""
        return [(packed.window.start, packed.window.seconds) for packed in self._packed()]

    def _packed(self) -> list[Packed]:
        return [packed for level in reversed(self._levels) for packed in level]

    def _seconds(self, number: int) -> float:
        return sum(packed.window.seconds for packed in self._levels[number])

    def _shared(self, window: Window) -> tuple[RowKey, ...]:
        """Windows share their keys: one object for each, however many windows hold it."""
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
        """How many of the oldest windows of a level make one of the next coarser one, where that exists.

        They follow each other directly: no window spans a gap, nor two hosts."""
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
        """Seconds that a level may hold beyond its age: in the last one the oldest window, so that what is
        left after dropping it still reaches as far back as it should."""
        return 0.0 if number + 1 < len(LEVELS) else self._levels[number][0].window.seconds

    def _push_down(self, number: int) -> float:
        """Hand the oldest windows of a level on to the next coarser one, as one, or drop one from the last.
        Returns the seconds that they stand for."""
        some = [self._drop_oldest(number) for _ in range(self._oldest(number))]
        if number + 1 < len(LEVELS):
            merged = merge([packed.unpack() for packed in some])
            peak = Peak.highest([packed.peak for packed in some])
            self._append(number + 1, pack(merged, self._shared(merged), peak))
        return sum(packed.window.seconds for packed in some)

    def _shrink(self) -> None:
        """One step towards less memory: merge the oldest of the dearest level, else drop the oldest."""
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
    """The last of ``parts`` that together stand for at least ``seconds``, or all of them."""
    at = len(parts)
    while at > 0 and seconds > 0:
        at -= 1
        seconds -= parts[at].window.seconds
    return parts[at:]


def _gap(before: Packed, after: Packed) -> float:
    return abs(after.window.start - before.window.end)
