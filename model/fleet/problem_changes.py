"""What changed in the problems of a host: which opened, changed and closed."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from stalltop.model.chain import loss_step
from stalltop.model.fleet.host_summary import HostSummary, ProblemSummary

Change = Literal["opened", "changed", "closed"]
STEPS: Final = 2
"""Steps of ``model.chain.loss_step`` by which a loss must differ to be a change: a factor of 3."""


class ProblemChange(NamedTuple):
    """One change of one problem."""

    change: Change
    problem: ProblemSummary
    """The problem now; if it closed, as it was last."""
    at: float
    """Unix time in seconds, on the host's clock."""


class ProblemChanges:
    """Compares each summary of a host with what was told about the ones before."""

    def __init__(self) -> None:
        self._told: dict[str, ProblemSummary] = {}

    def take(self, summary: HostSummary) -> list[ProblemChange]:
        """Returns what changed with ``summary``."""
        now = {one.id: one for one in summary.problems}
        changes = []
        for key, one in now.items():
            before = self._told.get(key)
            if before is None:
                changes.append(ProblemChange("opened", one, summary.end))
            elif _differs(before, one):
                changes.append(ProblemChange("changed", one, summary.end))
            else:
                continue
            self._told[key] = one
        if summary.problems_in_all <= len(now):  # otherwise, a problem may only have left the list
            ended = sorted(self._told.keys() - now.keys())
            changes += [ProblemChange("closed", self._told.pop(key), summary.end) for key in ended]
        return changes


def _differs(before: ProblemSummary, now: ProblemSummary) -> bool:
    steps = abs(loss_step(before.lost_ms_per_s) - loss_step(now.lost_ms_per_s))
    return before.severity != now.severity or before.culprit != now.culprit or steps >= STEPS
