"""The history of windows in memory: the original windows for ten minutes, merged windows for a day, within a
memory limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from stalltop.model.chain import Chain
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Packed, Peak, pack
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window

DEFAULT_BYTES = 40 << 20
"""Default limit of the memory of a history: 40 MiB. With 400 rows that all change, these are ten minutes
window by window, and an hour of merged windows."""
FRESH = 16
"""Number of the newest windows that are not squeezed: the sliding window unpacks them when they leave it."""

_KEY_BYTES = 480
"""Estimated memory of the key of a row, with its strings and its places in the dictionaries of a history.
Windows share keys, so a key counts once. Short-lived processes have keys of their own."""
LEVELS = ((0.0, 600.0), (10.0, 3_600.0), (60.0, 86_400.0))
"""By level: (minimum length, maximum age) of windows in seconds. The original windows are kept for 10
minutes, windows of at least 10 s for an hour, and windows of at least 60 s for a day. Older windows are
dropped."""

_LEFT_ALONE = 50
"""To save memory, windows of a level are merged only if at least this many newer windows of the level stay as
they are."""
_FULL = 0.99
"""Part of the length of a level that its windows have at least: readings are not exactly on time."""
_SAME_MOMENT = 1e-3
"""Times that differ by less than this, in seconds, count as the same moment."""


class History:
    """Windows of the past, oldest first. Used by one thread, except for ``parts``."""

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        """``most_bytes`` limits the memory of all windows together (``bytes``)."""
        if most_bytes <= 0:
            raise ValueError(f"most_bytes must be above 0, got {most_bytes}")
        self.most_bytes = most_bytes
        self._levels: list[deque[Packed]] = [deque() for _ in LEVELS]
        self._keys: dict[RowKey, RowKey] = {}
        """The keys of the rows of all windows."""
        self._fresh: deque[Packed] = deque()
        """The newest windows, which are not squeezed."""
        self._uses: dict[RowKey, int] = {}
        """Number of windows that have a row with this key."""
        self._bytes = 0
        """Sum of ``Packed.bytes`` of all windows."""
        self._chains: tuple[Chain, ...] | None = None
        """Chains of the newest window."""
        self._parts: tuple[Packed, ...] = ()

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels)

    @property
    def bytes(self) -> int:
        """Memory of all windows together, with the keys of their rows; never above ``most_bytes``."""
        return self._bytes + _KEY_BYTES * len(self._keys)

    @property
    def seconds(self) -> float:
        """Total length of all windows in seconds."""
        return sum(packed.window.seconds for packed in self._packed())

    def add(self, window: Window) -> Packed:
        """Adds ``window``, the newest one, and returns it packed. Older windows are merged or dropped if they
        are too old or the memory is above the limit."""
        packed = self._append(0, pack(window, self._shared(window.rows.keys), Peak.of(window, self._chains)))
        self._chains = window.chains
        self._fresh.append(packed)
        if len(self._fresh) > FRESH:
            self._bytes -= self._fresh.popleft().squeeze()
        newer = 0.0
        for number in range(len(LEVELS)):
            newer += self._seconds(number)
            while self._levels[number] and newer - self._spare(number) >= LEVELS[number][1]:
                newer -= self._push_down(number)
        while self.bytes > self.most_bytes and len(self):
            self._shrink()
        self._publish()
        return packed

    def prepend(self, parts: Sequence[Packed]) -> None:
        """Adds windows that are older than all others, oldest first. Windows that are not older are left out,
        and so are the oldest if the memory would be above the limit."""
        first = next((packed.window.start for level in reversed(self._levels) for packed in level), None)
        for packed in reversed(parts):
            if first is not None and packed.window.end > first + _SAME_MOMENT:
                continue
            new = sum(key not in self._keys for key in packed.keys)
            if self.bytes + packed.bytes + _KEY_BYTES * new > self.most_bytes:
                break
            first = packed.window.start
            shared = self._shared(packed.keys)
            # The coarsest level so far, because each level is older than those before it.
            coarsest = max((number for number, level in enumerate(self._levels) if level), default=0)
            lengths = [
                number for number, (length, _) in enumerate(LEVELS) if packed.window.seconds >= _FULL * length
            ]
            level = max(coarsest, *lengths)
            self._levels[level].appendleft(replace(packed, keys=shared))
            self._bytes += packed.bytes
        self._publish()

    @property
    def parts(self) -> tuple[Packed, ...]:
        """All windows, packed, oldest first, as of the last change. Any thread may use it."""
        return self._parts

    def _publish(self) -> None:
        self._parts = tuple(self._packed())

    def between(self, start: float, end: float) -> list[Window]:
        """Returns the windows that overlap ``start`` to ``end`` (Unix time in seconds), oldest first."""
        return [
            packed.unpack()
            for packed in self._packed()
            if packed.window.start < end and packed.window.end > start
        ]

    def latest(self, seconds: float) -> list[Window]:
        """Returns the newest windows that together last at least ``seconds``, or all windows if they last
        less; oldest first."""
        return [packed.unpack() for packed in latest(self._packed(), seconds)]

    def at(self, position: int) -> Window:
        """Returns window number ``position`` of all windows, oldest first (-1 is the newest). Raises
        IndexError if there is no such window."""
        return self._packed()[position].unpack()

    def times(self) -> list[tuple[float, float]]:
        """Returns (start, seconds) of every window, oldest first: element i belongs to ``at(i)``."""
        return [(packed.window.start, packed.window.seconds) for packed in self._packed()]

    def _packed(self) -> list[Packed]:
        return [packed for level in reversed(self._levels) for packed in level]

    def _seconds(self, number: int) -> float:
        return sum(packed.window.seconds for packed in self._levels[number])

    def _shared(self, keys: Sequence[RowKey]) -> tuple[RowKey, ...]:
        """Returns the ``keys`` of the rows of a new window. Equal keys of several windows are one object,
        which saves memory."""
        shared = tuple(self._keys.setdefault(key, key) for key in keys)
        for key in shared:
            self._uses[key] = self._uses.get(key, 0) + 1
        return shared

    def _append(self, number: int, packed: Packed) -> Packed:
        self._levels[number].append(packed)
        self._bytes += packed.bytes
        return packed

    def _drop_oldest(self, number: int) -> Packed:
        packed = self._levels[number].popleft()
        self._bytes -= packed.bytes
        if self._fresh and packed is self._fresh[0]:
            self._fresh.popleft()
        for key in packed.keys:
            self._uses[key] -= 1
            if not self._uses[key]:
                del self._uses[key], self._keys[key]
        return packed

    def _oldest(self, number: int) -> int:
        """Returns how many of the oldest windows of level ``number`` to merge into one window of the next
        coarser level; 1 in the last level.

        Windows are only merged if they are of one host and no long gap is between them."""
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
            if seconds >= _FULL * length:
                return at + 1
        return len(level)

    def _spare(self, number: int) -> float:
        """Returns by how many seconds a level may exceed its maximum age: 0, except in the last level.

        In the last level, the oldest window is dropped only if the remaining windows still reach back to the
        maximum age. The result is therefore the length of the oldest window.
        """
        return 0.0 if number + 1 < len(LEVELS) else self._levels[number][0].window.seconds

    def _push_down(self, number: int) -> float:
        """Merges the oldest windows of level ``number`` into one window of the next coarser level. In the
        last level, drops the oldest window.

        Returns the total seconds of the windows that left the level.
        """
        some = [self._drop_oldest(number) for _ in range(self._oldest(number))]
        if number + 1 < len(LEVELS):
            merged = merge([packed.unpack() for packed in some])
            peak = Peak.highest([packed.peak for packed in some])
            packed = pack(merged, self._shared(merged.rows.keys), peak)
            packed.squeeze()
            self._append(number + 1, packed)
        return sum(packed.window.seconds for packed in some)

    def _shrink(self) -> None:
        """Saves memory by one step: merges the oldest windows of the level that takes most memory. If no
        level has enough windows to merge, drops the oldest window of the history."""
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


def latest(parts: Sequence[Packed], seconds: float) -> Sequence[Packed]:
    """Returns the last elements of ``parts`` that together last at least ``seconds``, or all elements if they
    last less."""
    at = len(parts)
    while at > 0 and seconds > 0:
        at -= 1
        seconds -= parts[at].window.seconds
    return parts[at:]


def _gap(before: Packed, after: Packed) -> float:
    return abs(after.window.start - before.window.end)
