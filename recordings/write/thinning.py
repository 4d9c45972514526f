"""Decides which windows of a recording are merged or dropped, by their age and by the size of the recording.

As windows get older, windows of one second are merged into windows of ten seconds, and later these into
windows of one minute. Nothing is averaged: counts, histograms, splits, launches and charges add up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from stalltop.model.calls import bounded
from stalltop.model.chain import Chain, worst_first
from stalltop.model.evidence import MOST_EVENTS, Event
from stalltop.model.merge.merging import merge
from stalltop.model.window import Window
from stalltop.recordings.write.clock_watch import SET_SECONDS


class Tier(NamedTuple):
    """A level of detail: how long its windows are, and for how long they are kept."""

    length: int
    """Length in seconds to which its windows were merged; they are shorter before a pause. 0: windows stay as
    they were read."""
    seconds: float
    """Recorded time, in seconds, after which windows of this tier are merged into windows of the next tier.
    It is infinite for the last tier."""


TIERS: Final = (Tier(0, 3_600.0), Tier(10, 43_200.0), Tier(60, float("inf")))
"""For the newest hour, windows as they were read (one second); for the eleven hours before that, windows of
ten seconds; for everything older, windows of one minute."""

LEFT_ALONE: Final = 50
"""Number of newest windows of a tier that are spared if space is lacking: they are merged or dropped only
after all other windows."""
LONGEST_PAUSE: Final = 86_400.0
"""Seconds. A longer pause between two windows adds only this much to the age of older windows, so that
windows do not become old just because a clock was set forward by years."""
MOST_WINDOWS: Final = 900_000
"""Largest number of windows in a recording. Readers accept more (``recordings.read.moments``)."""
MOST_CALLS: Final = 40
"""Largest number of captured slow calls in a merged window, and largest number of captured random calls."""
_NEARLY: Final = 0.99


class KeptWindow(NamedTuple):
    """A window in the file."""

    window_id: int
    start: float
    """Unix time in seconds."""
    seconds: float
    host: str
    until: float = 0.0
    """Seconds from the end of the window that was added first to the end of this window. Pauses between
    windows are included; a pause counts as at most ``LONGEST_PAUSE``."""

    @property
    def end(self) -> float:
        """End, Unix seconds."""
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class ThinningStep:
    """One step of thinning. ``windows``, which are consecutive, are merged into one window of tier ``to``. If
    ``to`` is None, they are dropped."""

    windows: tuple[KeptWindow, ...]
    of: int
    """Index of the tier of ``windows``."""
    to: int | None


class TieredWindows:
    """The windows of a recording by tier, oldest first. Does not access the file."""

    def __init__(self, tiers: Sequence[Tier] = TIERS) -> None:
        self._tiers = tiers
        self._levels: list[deque[KeptWindow]] = [deque() for _ in tiers]
        self._seconds = [0.0 for _ in tiers]
        self._newest: KeptWindow | None = None

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels)

    @property
    def newest(self) -> KeptWindow | None:
        """The window that was added last."""
        return self._newest

    @property
    def oldest(self) -> KeptWindow | None:
        """The oldest window of all tiers."""
        return next((level[0] for level in reversed(self._levels) if level), None)

    @property
    def seconds(self) -> float:
        """Recorded time: the sum of the lengths of all windows, in seconds."""
        return sum(self._seconds)

    def add(self, kept: KeptWindow, tier: int = 0) -> None:
        """Add ``kept`` as the newest window of ``tier``. Windows must be added in the order in which they
        were recorded."""
        before = self._newest
        if before is not None:
            pause = min(max(kept.start - before.end, 0.0), LONGEST_PAUSE)
            kept = kept._replace(until=before.until + pause + kept.seconds)
        self._newest = kept
        self._append(kept, tier)

    def due(self, most_seconds: float) -> ThinningStep | None:
        """Return a step if one is needed, otherwise None. A step is needed for windows that are older than
        their tier allows, or older than ``most_seconds``. It is also needed, for the oldest window, if there
        are more than ``MOST_WINDOWS`` windows."""
        newer = 0.0
        for tier, level in enumerate(self._levels[:-1]):
            newer += self._seconds[tier]
            if level and newer - level[0].seconds >= self._tiers[tier].seconds:
                step = self._push_down(tier)
                if newer - sum(kept.seconds for kept in step.windows) >= self._tiers[tier].seconds:
                    return step
        if len(self) > MOST_WINDOWS:
            return self._drop(1)
        oldest, newest = self.oldest, self._newest
        if oldest is not None and newest is not None and newest.until - oldest.until > most_seconds:
            return self._drop(1)
        return None

    def least_needed(self, number: int = 1) -> ThinningStep | None:
        """Return a step that saves space. It merges windows of the tier that has most windows; if no tier has
        windows to spare (``LEFT_ALONE``), it drops the oldest windows, at most ``number``. Return None if
        there is only one window."""
        spare = {
            tier: len(level)
            for tier, level in enumerate(self._levels[:-1])
            if len(level) - self._group(tier) >= LEFT_ALONE
        }
        if spare:
            return self._push_down(max(spare, key=lambda tier: spare[tier]))
        return self._drop(number)

    def done(self, step: ThinningStep, merged: KeptWindow | None) -> None:
        """Apply ``step`` to the list. ``merged`` is the window that replaces the windows of ``step``; None if
        they were dropped."""
        level = self._levels[step.of]
        for _ in step.windows:
            self._seconds[step.of] -= level.popleft().seconds
        if not level:
            self._seconds[step.of] = 0.0
        if step.to is not None and merged is not None:
            self._append(merged._replace(until=step.windows[-1].until), step.to)

    def _append(self, kept: KeptWindow, tier: int) -> None:
        self._levels[tier].append(kept)
        self._seconds[tier] += kept.seconds

    def _push_down(self, tier: int) -> ThinningStep:
        level = self._levels[tier]
        return ThinningStep(tuple(level[at] for at in range(self._group(tier))), tier, tier + 1)

    def _drop(self, number: int) -> ThinningStep | None:
        tier = next((tier for tier in reversed(range(len(self._levels))) if self._levels[tier]), 0)
        level = self._levels[tier]
        number = min(number, len(level), len(self) - 1)
        return ThinningStep(tuple(level[at] for at in range(number)), tier, None) if number > 0 else None

    def _group(self, tier: int) -> int:
        """Return how many of the oldest windows of a tier are merged into one window of the next tier. Each
        of these windows begins where the one before it ends. So no merged window spans a pause, a change of
        the clock, or two hosts."""
        length = self._tiers[tier + 1].length
        seconds = 0.0
        first: KeptWindow | None = None
        for at, kept in enumerate(self._levels[tier]):
            if first is None:
                first = kept
            elif kept.host != first.host or abs(kept.start - (first.start + seconds)) >= SET_SECONDS:
                return at
            seconds += kept.seconds
            if seconds >= length * _NEARLY:
                return at + 1
        return len(self._levels[tier])


def put_together(windows: Sequence[Window]) -> Window:
    """Return consecutive windows of one host, merged. The result also has the last state of each chain that
    ended within these windows."""
    if len(windows) == 1:
        return windows[0]
    merged = merge(windows)
    kept = merged.calls
    merged = replace(merged, calls=bounded(kept.kept, kept.passed_over, MOST_CALLS))
    chains: dict[str, Chain] = {}
    for window in windows:
        for chain in window.chains:
            chains[chain.id] = chain
    at_the_end = {chain.id for chain in merged.chains}
    over = [replace(chain, open=False) for chain in chains.values() if chain.id not in at_the_end]
    if not over:
        return merged
    return replace(merged, chains=tuple(sorted((*merged.chains, *over), key=worst_first)))


def with_events(window: Window, events: tuple[Event, ...]) -> Window:
    """Return ``window`` with ``events`` added before its own events. It has at most ``MOST_EVENTS`` events in
    all."""
    together = (*events, *window.evidence.events)[:MOST_EVENTS]
    return replace(window, evidence=replace(window.evidence, events=together))
