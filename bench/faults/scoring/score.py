"""Computes from the outcomes of trials how often and how soon faults were found: for each fault, and for all
together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from bench.faults.trial.outcome import Healthy, Outcome
from bench.measuring.table import TextTable

HEAD: Final = (
    *("cause", "trials", "top-1 %", "raw %", "named %", "precision %", "culprit %"),
    *("detected s", "root s", "early", "not set up", "instead"),
)

DETECTED_SECONDS: Final = 2.0
ROOT_SECONDS: Final = 3.0
"""Targets for the times until a problem opens and until its cause is found, s. They are meant for faults with
an immediate effect; some faults take effect later."""


def table(outcomes: Sequence[Outcome], title: str) -> TextTable:
    """Returns a table with a line for each fault and, if there are several, a line for all faults
    together."""
    made = TextTable(title, HEAD)
    faults = dict.fromkeys(outcome.fault for outcome in outcomes)
    for fault in faults:
        made.add(*_line(fault, [outcome for outcome in outcomes if outcome.fault == fault], outcomes))
    if len(faults) > 1:
        made.add(*_line("all", outcomes, outcomes))
    scored = [outcome for outcome in outcomes if outcome.scored]
    soon = _within(scored, DETECTED_SECONDS, root=False)
    named = _within(scored, ROOT_SECONDS, root=True)
    made.notes.append(
        f"detected within {DETECTED_SECONDS:g} s in {soon}, root cause within {ROOT_SECONDS:g} s in {named} "
        f"of {len(scored)}"
    )
    return made


def _within(outcomes: Sequence[Outcome], seconds: float, *, root: bool) -> int:
    times = [outcome.root_seconds if root else outcome.detected_seconds for outcome in outcomes]
    return sum(time is not None and time <= seconds for time in times)


def false_alarms(outcomes: Sequence[Outcome], healthy: Sequence[Healthy]) -> TextTable:
    """Returns a table of the alarms at times when no fault was injected: in the healthy runs, and in trials
    before the injection."""
    made = TextTable(
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
    """Returns one outcome per trial. Outcomes of faults that were injected together describe the same time
    before the injection, which must be counted once."""
    return list(
        {
            (outcome.seed, tuple(sorted((outcome.cause, *outcome.others)))): outcome for outcome in outcomes
        }.values()
    )


def _line(cause: str, own: Sequence[Outcome], everything: Sequence[Outcome]) -> tuple[str, ...]:
    scored = [outcome for outcome in own if outcome.scored]
    causes = {outcome.cause for outcome in own}
    top = [outcome for outcome in scored if outcome.found == outcome.cause]
    raw = [outcome for outcome in scored if outcome.found_raw == outcome.cause]
    found = [
        outcome
        for outcome in everything
        if outcome.scored and outcome.found and (cause == "all" or outcome.found in causes)
    ]
    right = [
        outcome for outcome in found if outcome.found == outcome.cause or outcome.found in outcome.others
    ]
    instead = sorted({outcome.found or "nothing" for outcome in scored if outcome not in top})
    return (
        cause,
        str(len(scored)),
        _percent(len(top), len(scored)),
        _percent(len(raw), len(scored)),
        _percent(sum(outcome.named for outcome in scored), len(scored)),
        _percent(len(right), len(found)),
        _percent(sum(outcome.culprit_right for outcome in scored), len(scored)),
        _median([outcome.detected_seconds for outcome in scored]),
        _median([outcome.root_seconds for outcome in scored]),
        str(sum(outcome.open_before and not outcome.error for outcome in own)),
        str(sum(bool(outcome.error) for outcome in own)),
        ", ".join(instead) if cause != "all" else "",
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}" if whole else "-"


def _median(values: Sequence[float | None]) -> str:
    """Returns the text of the median of ``values``, and how many of them are known. None counts as infinite;
    a median that is infinite is shown as ``never``."""
    if not values:
        return "-"
    median = statistics.median(math.inf if value is None else value for value in values)
    known = sum(value is not None for value in values)
    return f"{'never' if math.isinf(median) else f'{median:.1f}'} ({known}/{len(values)})"
