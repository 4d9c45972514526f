"""Results of trials and of runs without a fault, as results files store them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

MOST_OUTSIDE: Final = 0.03
"""Share of the victim's time that processes outside of a trial may take, if the fault has a chosen strength.
If they take more, the trial does not count."""
MOST_OUTSIDE_OF_STRENGTH: Final = 0.25
"""The same limit as a share of the fault's strength. The greater of this limit and `MOST_OUTSIDE` applies."""


@dataclass(slots=True)
class Outcome:
    """Result of one fault of a trial."""

    cause: str
    seed: int
    notes: dict[str, float | str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Causes of the other faults that were injected at the same time."""
    name: str = ""
    """Name of the fault; '' if it is equal to the cause."""
    open_before: bool = False
    """Whether the victim already had a chain of the right cause before the injection. Such a trial does not
    count."""
    detected_seconds: float | None = None
    """Time from the injection to the first new chain about the victim; None if there was none."""
    root_seconds: float | None = None
    """Time from the injection until the victim's worst chain was a new one of the right cause; None if that
    never happened."""
    found: str = ""
    """Cause of the worst chain about the victim when the trial ends; '' if there is none."""
    found_raw: str = ""
    """Like ``found``, but chains that rightly blame a process outside of the trial count, too: the cause of
    the worst chain about the victim when the trial ends, '' if there is none."""
    named: bool = False
    """Whether the right cause was among the victim's chains at the end."""
    culprit_expected: bool = False
    """Whether another tenant caused the fault and should be blamed."""
    culprit_right: bool = False
    """Whether the chain of the right cause names the tenant that caused the fault as its first culprit; if no
    other tenant caused it, whether the chain blames no other tenant."""
    healthy_seconds: float = 0.0
    """Length of the windows before the fault, s."""
    early: tuple[str, ...] = ()
    """False alarms: alarms before the fault about tenants of this trial."""
    wrong: tuple[str, ...] = ()
    """False alarms: alarms since the fault began about tenants of this trial, of causes that were not
    injected."""
    disturbed: tuple[str, ...] = ()
    """Alarms before the fault that rightly blame a process outside of the trial: that process used as much of
    a resource as the alarm charges to it. Such alarms are not false; they show that the host was not
    quiet."""
    said: tuple[str, ...] = ()
    """The victim's worst chains at the end, as text: at most four."""
    error: str = ""
    """Why the trial could not be set up; '' if it could."""
    strength: float = 0.0
    """Share of the victim's time that the fault was meant to take; 0 if the script chose the strength."""
    lost_share: float | None = None
    """Share of the victim's time that was lost, computed from the victim's own count of steps; None if the
    victim does not count steps."""
    outside_share: float = 0.0
    """How long the victim waited for CPUs on which processes outside of the trial ran, as a share of the time
    watched. It is computed before and after the beginning of the fault; this is the greater value."""

    @property
    def fault(self) -> str:
        """Returns the name of the fault."""
        return self.name or self.cause

    @property
    def scored(self) -> bool:
        """Returns whether the outcome counts: the trial could be set up, the cause was not found before the
        fault began, and the host was quiet enough."""
        return not self.error and not self.open_before and self.quiet

    @property
    def quiet(self) -> bool:
        """Returns whether processes outside of the trial took so little of the victim's time that its loss
        can be ascribed to the fault. Always True if the script chose the strength, because the loss is then
        not compared with anything."""
        most = max(MOST_OUTSIDE, MOST_OUTSIDE_OF_STRENGTH * self.strength)
        return not self.strength or self.outside_share <= most

    @property
    def right(self) -> bool:
        """Returns whether the right cause and the right culprit were found."""
        return self.scored and self.found == self.cause and self.culprit_right

    def plain(self) -> dict[str, Any]:
        """Returns the outcome as a dict for JSON."""
        return asdict(self)


def outcome_of(plain: Mapping[str, Any]) -> Outcome:
    """Reverses `Outcome.plain`, also after ``plain`` was written as JSON and read again, which turns tuples
    into lists."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
    }
    return Outcome(**values)


@dataclass(slots=True)
class Healthy:
    """Result of a run of healthy tenants, without a fault."""

    seconds: float = 0.0
    alarms: tuple[str, ...] = ()
    """False alarms: alarms although nothing was wrong."""
    disturbed: tuple[str, ...] = ()
    """Alarms that rightly blame processes outside of the run; they are not false alarms."""
    seed: int = 0
    busy_seconds: float = 0.0
    """Sum over all windows of the run: the length of the window, s, times the share of all CPUs that was busy
    in it."""
    events: tuple[str, ...] = ()
    """The changes that tenants went through, such as ``start reader`` or ``phase``, oldest first."""
