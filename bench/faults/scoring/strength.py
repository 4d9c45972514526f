"""Computes how often a fault's cause is found, depending on the strength of the fault: the points of a curve
for each cause."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.faults.trial.outcome import Outcome
from bench.measuring.table import TextTable

HEAD: Final = ("cause", "meant %", "lost %", "trials", "found", "named", "culprit", "false alarms", "instead")
AIM: Final = 0.1
"""Target: a cause should be named if it takes at least this share of the victim's time."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Summary of the trials of one cause at one strength, without those that do not count."""

    cause: str
    strength: float
    """Share of the victim's time that the fault was meant to take."""
    lost: tuple[float, ...]
    """Share of the victim's time that was lost in each trial, computed from the victim's own count of
    steps."""
    trials: int
    found: int
    """Number of trials with a new problem about the victim, of any cause."""
    named: int
    """Number of trials in which the victim's worst problem at the end had the right cause."""
    culprit: int
    """Number of trials in which a problem of the right cause blamed the right tenant, or blamed none if no
    other tenant was at fault."""
    alarms: int
    """Number of false alarms: all alarms before the injection, and alarms of other causes after it."""
    instead: tuple[str, ...]
    """The wrong causes that the victim's worst problem had at the end of a trial, each once."""

    @property
    def typical_lost(self) -> float:
        """Returns the median of ``lost``; ``strength`` if no loss was measured."""
        return statistics.median(self.lost) if self.lost else self.strength


def points(outcomes: Sequence[Outcome]) -> list[CurvePoint]:
    """Returns the points of all curves. They are sorted by cause, in the order in which the trials have them,
    and then by strength."""
    causes = dict.fromkeys(outcome.cause for outcome in outcomes)
    strengths = sorted({outcome.strength for outcome in outcomes})
    found = (
        _point([one for one in outcomes if (one.cause, one.strength) == (cause, strength)])
        for cause in causes
        for strength in strengths
    )
    return [point for point in found if point is not None]


def _point(outcomes: Sequence[Outcome]) -> CurvePoint | None:
    scored = [outcome for outcome in outcomes if outcome.scored]
    if not scored:
        return None
    return CurvePoint(
        cause=scored[0].cause,
        strength=scored[0].strength,
        lost=tuple(outcome.lost_share for outcome in scored if outcome.lost_share is not None),
        trials=len(scored),
        found=sum(outcome.detected_seconds is not None for outcome in scored),
        named=sum(outcome.found == outcome.cause for outcome in scored),
        culprit=sum(outcome.culprit_right for outcome in scored),
        alarms=sum(len(outcome.early) + len(outcome.wrong) for outcome in scored),
        instead=tuple(sorted({one.found for one in scored if one.found not in ("", one.cause)})),
    )


def strength_table(outcomes: Sequence[Outcome]) -> TextTable:
    """Returns a table with a line for each cause at each strength."""
    made = TextTable("faults: how small a fault may be", HEAD)
    cause = ""
    known = points(outcomes)
    for point in known:
        figures = (point.trials, point.found, point.named, point.culprit, point.alarms)
        made.add(
            point.cause if point.cause != cause else "",
            f"{100 * point.strength:.0f}",
            _range(point.lost),
            *map(str, figures),
            ", ".join(point.instead),
        )
        cause = point.cause
    disturbed = sum(not outcome.scored for outcome in outcomes)
    if disturbed:
        made.notes.append(
            f"not counted (disturbed, reported before the fault, or not set up): {disturbed} trials"
        )
    from_aim = [point for point in known if point.strength >= AIM]
    made.notes.append(
        f"meant to take {AIM:.0%} or more: named in {sum(point.named for point in from_aim)}, with the right "
        f"culprit in {sum(point.culprit for point in from_aim)} of {sum(point.trials for point in from_aim)}"
    )
    return made


def _range(shares: Sequence[float]) -> str:
    """Returns the text of the median of ``shares`` in percent, and of the least and greatest share if those
    differ."""
    if not shares:
        return "-"
    low, middle, high = (
        f"{100 * value:.0f}" for value in (min(shares), statistics.median(shares), max(shares))
    )
    return middle if low == high else f"{middle} ({low} to {high})"
