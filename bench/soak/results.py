"""The figures of a soak, and whether they stayed as they were."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bench.measuring.table import TextTable
from bench.soak.footprint import Footprint

SETTLED: Final = (0.5, 0.65)
"""The part of a run with which the end is compared. Before it, what is bounded fills up: memory for the past,
baselines, names, and records of threads, of which each is used once before the first is used again."""
AT_LAST: Final = (0.85, 1.0)
SETTLED_MINUTES: Final = 45.0
"""In a shorter run, what is bounded still fills up when it ends."""
FLAT: Final = 1.05
"""Target: memory at the end is at most this many times that of the settled part."""
QUANTITIES: Final[dict[str, tuple[str, Callable[[Footprint], float]]]] = {
    "resident memory, MB": (".1f", lambda one: one.resident_mb),
    "of that, neither files nor BPF maps, MB": (".1f", lambda one: one.own_mb),
    "own memory of its helpers, MB": (".1f", lambda one: one.helpers_mb),
    "helpers": (".0f", lambda one: one.helpers),
    "descriptors": (".0f", lambda one: one.descriptors),
    "threads": (".0f", lambda one: one.threads),
    "BPF maps": (".0f", lambda one: one.maps),
    "BPF programs": (".0f", lambda one: one.programs),
    "BPF links": (".0f", lambda one: one.links),
}
"""What has to stay flat: format and value of each."""
MOST_FAULTS: Final = 8
HEAD: Final = ("what", "settled", "at last", "at last / settled", "most")


@dataclass(slots=True)
class Soak:
    """What happened in a soak, and what was measured."""

    machine: str
    minutes: float
    footprints: list[Footprint] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)
    """Time since the begin, s, and kind of each disturbance."""
    takeovers: list[float] = field(default_factory=list)
    """Seconds from the kill of each tracer to the first window of the next one."""
    containers: int = 0
    processes: int = 0
    made: int = 0
    """Number of calls of the CUDA runtime that all containers made."""
    counted: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    """What the tracer said it had missed."""
    told: int = 0
    """Number of calls that were not counted, of containers of which the tracer said that it may not have
    counted their first calls."""
    untold: dict[str, int] = field(default_factory=dict)
    """Number of calls of each other container that were not counted; below 0: that were counted twice."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """Number of calls that were counted for tenants that the run did not start, by process and tenant."""
    failures: list[str] = field(default_factory=list)
    left_behind: int = 0
    """Number of BPF objects that existed after the recorder had ended."""
    recorded: str = ""
    """What the recorder said at its end."""

    def plain(self) -> dict[str, Any]:
        """Returns everything as a dict for JSON."""
        return asdict(self)

    def part(self, share: tuple[float, float]) -> list[Footprint]:
        """Returns the footprints in a part of the run, from and to a share of its length."""
        length = self.footprints[-1].seconds if self.footprints else 0.0
        low, high = (one * length for one in share)
        return [one for one in self.footprints if low <= one.seconds <= high]

    def growth(self, value: Callable[[Footprint], float]) -> float:
        """Returns the median of ``value`` at last, divided by that of the settled part."""
        before, after = (
            statistics.median(value(one) for one in self.part(part)) for part in (SETTLED, AT_LAST)
        )
        return after / before if before else 1.0

    def cpu_percent(self, part: tuple[float, float] = (0.0, 1.0)) -> float:
        """Returns the CPU time of the recorder and its helpers in a part of the run, percent of a core."""
        some = self.part(part)
        return (
            100.0
            * (some[-1].cpu_seconds - some[0].cpu_seconds)
            / max(some[-1].seconds - some[0].seconds, 1e-6)
        )

    def faults(self) -> list[str]:
        """Returns what was not as it should be."""
        found = [f"{failure}" for failure in self.failures]
        missed = sum(map(abs, self.untold.values())) - sum(self.losses.values())
        if missed > 0:
            found.append(f"{missed:,} calls were missed and not counted{_listed(self.untold)}")
            if self.elsewhere:
                found.append(f"calls of tenants that the run did not start{_listed(self.elsewhere)}")
        if self.left_behind:
            found.append(f"{self.left_behind} BPF objects exist after the end")
        if self.minutes >= SETTLED_MINUTES:
            for name, (_, value) in QUANTITIES.items():
                if (growth := self.growth(value)) > FLAT:
                    found.append(f"not flat: {name}, {growth:.3f}")
        return found

    def tables(self) -> list[TextTable]:
        """Returns the tables for people."""
        table = TextTable(
            f"soak: what a recorder holds, {self.minutes:g} minutes, {self.containers:,} containers", HEAD
        )
        for name, (form, value) in QUANTITIES.items():
            if not any(value(one) for one in self.footprints):
                continue
            before, after = (
                statistics.median(value(one) for one in self.part(part)) for part in (SETTLED, AT_LAST)
            )
            most = max(value(one) for one in self.footprints)
            table.add(
                name, f"{before:{form}}", f"{after:{form}}", f"{self.growth(value):.3f}", f"{most:{form}}"
            )
        kinds = Counter(kind for _, kind in self.events)
        happened = ", ".join(f"{times} x {kind}" for kind, times in kinds.items())
        table.notes += [
            "",
            f"settled: median from {SETTLED[0]:.0%} to {SETTLED[1]:.0%} of the time, at last: from "
            f"{AT_LAST[0]:.0%}",
            f"CPU time of the recorder and its helpers: {self.cpu_percent():.2f} % of a core",
            f"processes that made calls: {self.processes:,}; calls made: {self.made:,}, counted: "
            f"{self.counted:,}, missed and counted as such: {sum(self.losses.values()):,}"
            f"{_listed(self.losses)}, made before their libraries were probed, which the coverage says: "
            f"{self.told:,}",
            f"disturbances: {happened or 'none'}",
            f"BPF objects that are left after the end: {self.left_behind}",
            f"the recorder: {self.recorded}",
        ]
        if self.takeovers:
            table.notes.append(
                "from the kill of a tracer to the next window: "
                f"median {statistics.median(self.takeovers):.1f} s, longest {max(self.takeovers):.1f} s, of "
                f"{len(self.takeovers)}"
            )
        faults = self.faults()
        table.notes += [f"FAULT: {fault}" for fault in faults[:MOST_FAULTS]]
        if len(faults) > MOST_FAULTS:
            table.notes.append(f"and {len(faults) - MOST_FAULTS} more")
        return [table]


def soak_of(plain: dict[str, Any]) -> Soak:
    """Returns the soak that `Soak.plain` made into ``plain``."""
    footprints = [Footprint(**one) for one in plain["footprints"]]
    events = [(float(at), str(kind)) for at, kind in plain["events"]]
    return Soak(**{**plain, "footprints": footprints, "events": events})


def _listed(losses: dict[str, int]) -> str:
    parts: Sequence[str] = [f"{name} {count:,}" for name, count in losses.items() if count][:MOST_FAULTS]
    return f" ({', '.join(parts)})" if parts else ""
