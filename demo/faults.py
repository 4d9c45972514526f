"""Reads the faults that a scenario injects in turn, and finds the one that is active at a given time.

A scenario file lists them as ``fault`` tables. Each has ``family`` (which fault the simulation shows, see
``FAMILIES``), ``begin`` and ``end`` (seconds from the start of the period), ``injected`` (what happens to
whom) and ``look`` (where the screen shows it). While the fault is active, a demo that is traced, not
simulated, does one of two things: the process ``process`` of the tenant ``tenant`` repeats ``cycle`` in
``threads`` threads instead of its own cycle, or the settings ``gpu`` of the stand-in NVML are added to those
of the scenario and override equal keys. ``period`` is the time after which the faults repeat, seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

Family = Literal["cpu", "disk", "lock", "rank", "heat"]
"""Kinds of faults that can be simulated: CPUs taken by a neighbour, a disk loaded by a neighbour, a lock held
for long, a rank that arrives late, a GPU whose clocks are throttled by heat."""
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)
DEFAULT_PERIOD: Final = 90.0


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One fault, and when it is active."""

    family: Family
    begin: float
    """``begin`` and ``end`` are times of the fault, in seconds from the start of each period."""
    end: float
    injected: str = ""
    """Caption: what was injected, in one line of at most 78 characters."""
    look: str = ""
    """Caption: where the screen shows the fault, in one line of at most 78 characters."""
    tenant: str = ""
    process: str = ""
    cycle: str = ""
    """Items that the process repeats while the fault is active; '' if the process continues with its own
    cycle."""
    threads: int = 1
    gpu: Mapping[str, str] = field(default_factory=dict)
    """Settings of the stand-in NVML while the fault is active."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """The faults of a scenario in the order of their times. They repeat after each ``period`` seconds."""

    faults: tuple[InjectedFault, ...] = ()
    period: float = DEFAULT_PERIOD

    def __bool__(self) -> bool:
        return bool(self.faults)

    def at(self, age: float) -> InjectedFault | None:
        """Returns the fault that is active ``age`` seconds after the start; None if there is none."""
        within = age % self.period
        return next((fault for fault in self.faults if fault.begin <= within < fault.end), None)

    def next_change(self, age: float) -> float:
        """Returns the first age after ``age`` at which a fault begins or ends. If none does in the present
        period, returns the end of the period."""
        start = age - age % self.period
        moments = sorted(start + moment for fault in self.faults for moment in (fault.begin, fault.end))
        later = [moment for moment in moments if moment > age]
        return later[0] if later else start + self.period

    def caption(self, age: float) -> tuple[str, ...]:
        """Returns the lines about what happens ``age`` seconds after the start: always two, so that the
        screen does not move; none if the scenario has no faults with captions."""
        told = [fault for fault in self.faults if fault.injected]
        if not told:
            return ()
        active = self.at(age)
        if active in told:
            at = told.index(active) + 1
            return f"{at}/{len(told)} {active.injected}", f"Look: {active.look}"
        within = age % self.period
        over = [fault for fault in told if fault.end <= within]
        coming = next((fault for fault in told if fault.begin > within), told[0])
        soon = f"{told.index(coming) + 1}/{len(told)} follows: {TITLES[coming.family]}"
        if not over:
            return soon, "Look: the containers and their calls; nothing is injected yet"
        before = TITLES[over[-1].family]
        return soon, f"Over: {before}. Its problem closes within some seconds"


TITLES: Final[Mapping[Family, str]] = MappingProxyType(
    {
        "cpu": "a neighbour takes CPUs",
        "disk": "a neighbour loads the disk",
        "lock": "a lock is held for too long",
        "rank": "one rank is a straggler",
        "heat": "heat throttles a GPU",
    }
)
"""By family: the name of the fault in captions."""


def read_timetable(content: Mapping[str, Any]) -> Timetable:
    """Returns the faults of a scenario file with this ``content``. Raises KeyError or ValueError if they are
    not valid."""
    faults = tuple(sorted((_fault(table) for table in content.get("fault", ())), key=lambda one: one.begin))
    period = float(content.get("period", DEFAULT_PERIOD))
    for one, other in pairwise(faults):
        if other.begin < one.end:
            raise ValueError(f"two [[fault]] tables at {other.begin:g} s")
    if faults and faults[-1].end > period:
        raise ValueError("[[fault]] ends after the period")
    return Timetable(faults, period)


def _fault(table: Mapping[str, Any]) -> InjectedFault:
    begin, end = float(table["begin"]), float(table["end"])
    if table["family"] not in FAMILIES or not 0 <= begin < end:
        raise ValueError(f"[[fault]] is not valid: {dict(table)}")
    return InjectedFault(
        table["family"],
        begin,
        end,
        str(table.get("injected", "")),
        str(table.get("look", "")),
        tenant=str(table.get("tenant", "")),
        process=str(table.get("process", "")),
        cycle=" ".join(table.get("cycle", ())),
        threads=int(table.get("threads", 1)),
        gpu=MappingProxyType({str(key): str(value) for key, value in table.get("gpu", {}).items()}),
    )
