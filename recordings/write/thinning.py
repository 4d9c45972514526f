"""Which windows of a recording give way to which: by age, and where there is too little room.

Windows of a second are put together to such of ten seconds and of a minute as newer ones come. Nothing is
averaged: counts, histograms, splits, launches and charges add up.
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
    """Windows of a recording that are at least so long, and how long they stay so."""

    length: int
    """Seconds that the shortest of them lasts; 0: as it was read."""
    seconds: float
    """Recorded time after which they are put together to the next tier's. The last tier's has none."""


TIERS: Final = (Tier(0, 3_600.0), Tier(10, 43_200.0), Tier(60, float("inf")))
"""Each second for an hour, each ten seconds for twelve, after that each minute."""

LEFT_ALONE: Final = 50
"""So many of the newest windows of a tier stay as they are as long as anything else can give way."""
LONGEST_PAUSE: Final = 86_400.0
"""What a pause between two windows counts at most for their age, seconds: no set clock makes them old."""
MOST_WINDOWS: Final = 900_000
"""Windows that stay at most, however much room there is: somewhat fewer than a reader takes."""
MOST_CALLS: Final = 40
"""Slow calls, and as many taken at random, that windows which were put together keep one by one."""
_NEARLY: Final = 0.99


class KeptWindow(NamedTuple):
    """A window that the file has."""

    window_id: int
    start: float
    """Unix time in seconds."""
    seconds: float
    host: str
    until: float = 0.0
    """Seconds of the recording's own time at its end: recorded ones and pauses."""

    @property
    def end(self) -> float:
        """Unix time in seconds."""
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class ThinningStep:
    """What gives way next: ``windows``, which follow each other, become one of tier ``to``, or go."""

    windows: tuple[KeptWindow, ...]
    of: int
    """Index of the tier they are in."""
    to: int | None


class Kepts:
    """The windows of a recording by tier, oldest first. Knows no file."""

    def __init__(self, tiers: Sequence[Tier] = TIERS) -> None:
        self._tiers = tiers
        self._levels: list[deque[KeptWindow]] = [deque() for _ in tiers]
        self._seconds = [0.0 for _ in tiers]
        self._newest: KeptWindow | None = None

    def __len__(self) -> int:
        return sum(len(level) for level in self._levels)

    @property
    def newest(self) -> KeptWindow | None:
        """The one that was added last."""
        return self._newest

    @property
    def oldest(self) -> KeptWindow | None:
        """The first one of all."""
        return next((level[0] for level in reversed(self._levels) if level), None)

    @property
    def seconds(self) -> float:
        """Recorded time."""
        return sum(self._seconds)

    def add(self, kept: KeptWindow, tier: int = 0) -> None:
        """``kept`` is the newest of its tier, and follows all that were added before."""
        before = self._newest
        if before is not None:
            pause = min(max(kept.start - before.end, 0.0), LONGEST_PAUSE)
            kept = kept._replace(until=before.until + pause + kept.seconds)
        self._newest = kept
        self._append(kept, tier)

    def due(self, most_seconds: float) -> ThinningStep | None:
        """What is older than its tier allows, or than ``most_seconds``, or too much to read, if anything."""
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
        """What gives way where there is too little room: detail of the tier that has most windows; then the
        ``number`` oldest windows. None where there is only one."""
        spare = {
            tier: len(level)
            for tier, level in enumerate(self._levels[:-1])
            if len(level) - self._group(tier) >= LEFT_ALONE
        }
        if spare:
            return self._push_down(max(spare, key=lambda tier: spare[tier]))
        return self._drop(number)

    def done(self, step: ThinningStep, merged: KeptWindow | None) -> None:
        """``step`` was taken; ``merged`` is what its windows became, if not nothing."""
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
        """How many of the oldest windows of a tier make one of the next: each begins where those before it
        end, so that none spans a pause or a step of the clock, nor two hosts."""
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
    """Windows of one host that follow each other as one. Chains that ended within it are not forgotten: what
    was seen of each last stays."""
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
    """``window`` with ``events`` before its own."""
    together = (*events, *window.evidence.events)[:MOST_EVENTS]
    return replace(window, evidence=replace(window.evidence, events=together))
