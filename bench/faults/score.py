"""Outcomes as figures: per cause, and for all together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.faults.judging import Outcome
from bench.table import Table

HEAD: Final = (
    *("cause", "trials", "top-1 %", "named %", "precision %", "culprit %", "detected s", "root s", "instead"),
)


@dataclass(slots=True)
class Healthy:
    """A stretch of time without a fault."""

    seconds: float = 0.0
    alarms: tuple[str, ...] = ()
    """What was said though nothing was wrong."""
    disturbed: tuple[str, ...] = ()
    """What was said about others on this host that took part in nothing."""
    seed: int = 0


def table(outcomes: Sequence[Outcome], title: str) -> Table:
    """A line for each cause, and one for all."""
    made = Table(title, HEAD)
    causes = dict.fromkeys(outcome.cause for outcome in outcomes)
    for cause in causes:
        made.add(*_line(cause, [outcome for outcome in outcomes if outcome.cause == cause], outcomes))
    if len(causes) > 1:
        made.add(*_line("all", outcomes, outcomes))
    return made


def false_alarms(outcomes: Sequence[Outcome], healthy: Sequence[Healthy]) -> Table:
    """Alarms where nothing was wrong: in the healthy stretches, and before the faults of trials."""
    made = Table(
        "faults: healthy tenants under noise", ("when", "minutes", "alarms", "an hour", "disturbed by others")
    )
    first = _first_of_trials(outcomes)
    rows = (
        (
            "healthy",
            sum(h.seconds for h in healthy),
            [h.alarms for h in healthy],
            [h.disturbed for h in healthy],
        ),
        (
            "before faults",
            sum(o.healthy_seconds for o in first),
            [o.early for o in first],
            [o.disturbed for o in first],
        ),
    )
    for when, seconds, said, others in rows:
        if seconds:
            count = sum(map(len, said))
            made.add(
                when,
                f"{seconds / 60:.1f}",
                str(count),
                f"{3600 * count / seconds:.1f}",
                str(sum(map(len, others))),
            )
    return made


def _first_of_trials(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """One outcome a trial: those of several faults at once share what was before."""
    return list(
        {
            (outcome.seed, tuple(sorted((outcome.cause, *outcome.others)))): outcome for outcome in outcomes
        }.values()
    )


def _line(cause: str, own: Sequence[Outcome], everything: Sequence[Outcome]) -> tuple[str, ...]:
    own = [outcome for outcome in own if not outcome.error]
    top = [outcome for outcome in own if outcome.found == outcome.cause]
    said = own if cause == "all" else [outcome for outcome in everything if outcome.found == cause]
    found = [outcome for outcome in said if outcome.found]
    right = [
        outcome for outcome in found if outcome.found == outcome.cause or outcome.found in outcome.others
    ]
    blamed = [outcome for outcome in own if outcome.culprit_expected]
    instead = sorted({outcome.found or "nothing" for outcome in own if outcome not in top})
    return (
        cause,
        str(len(own)),
        _percent(len(top), len(own)),
        _percent(sum(outcome.named for outcome in own), len(own)),
        _percent(len(right), len(found)),
        _percent(sum(outcome.culprit_right for outcome in blamed), len(blamed)),
        _median([outcome.detected_seconds for outcome in own]),
        _median([outcome.root_seconds for outcome in own]),
        ", ".join(instead) if cause != "all" else "",
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}" if whole else "-"


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.1f}" if known else "-"
