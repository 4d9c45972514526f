"""Computes how well a cause is found by how strong its fault was: the points of a curve for each cause."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.faults.judging import Outcome
from bench.table import TextTable

HEAD: Final = ("cause", "meant %", "lost %", "trials", "found", "named", "culprit", "false alarms", "instead")
AIM: Final = 0.1
"""Least share of the victim's time from which on a cause is meant to be named."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """All trials of one cause that count, at one strength."""

    cause: str
    strength: float
    """Share of its time that the victim was meant to lose."""
    lost: tuple[float, ...]
    """Share that it lost in each trial, by its own count of steps."""
    trials: int
    found: int
    """Trials with a new problem about the victim, of whatever cause."""
    named: int
    """Trials whose first problem at the end had the right cause."""
    culprit: int
    """Trials in which a problem with the right cause blamed the right tenant, or rightly none."""
    alarms: int
    """Alarms before the fault, and those of other causes since."""
    instead: tuple[str, ...]
    """Causes that came first instead."""

    @property
    def typical_lost(self) -> float:
        """Returns the median share lost; the intended one if none was measured."""
        return statistics.median(self.lost) if self.lost else self.strength


def points(outcomes: Sequence[Outcome]) -> list[CurvePoint]:
    """Returns the points of all curves: by cause, in the order of the trials, and by strength."""
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
        made.notes.append(f"disturbed, and not counted: {disturbed} trials")
    from_aim = [point for point in known if point.strength >= AIM]
    made.notes.append(
        f"meant to take {AIM:.0%} or more: named in {sum(point.named for point in from_aim)}, with the right "
        f"culprit in {sum(point.culprit for point in from_aim)} of {sum(point.trials for point in from_aim)}"
    )
    return made


def _range(shares: Sequence[float]) -> str:
    """Returns the median, and the least and greatest if they differ from it."""
    if not shares:
        return "-"
    low, middle, high = (
        f"{100 * value:.0f}" for value in (min(shares), statistics.median(shares), max(shares))
    )
    return middle if low == high else f"{middle} ({low} to {high})"
