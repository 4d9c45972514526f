"""Defines what a process lost through one cause, and adds such losses up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ThreadId


class Who(NamedTuple):
    """One process."""

    tenant: str
    pid: int
    process: str


@dataclass(slots=True)
class Loss:
    """Time that one process lost through one cause, in ns of the window."""

    cause: str
    victim: Who
    ns: float = 0.0
    effects: dict[RowKey, float] = field(default_factory=lambda: defaultdict(float))
    """Rows in which it was lost."""
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Parts of their split in which it was lost."""
    paths: dict[tuple[Who, ...], float] = field(default_factory=lambda: defaultdict(float))
    """Workers for which the process waited, the nearest one first; empty if it waited itself."""
    last_parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Parts of the split of the last of these workers, or else of the victim. Of time in which it was
    stopped, the way, one of ``model.thread_evidence.HELD_BACK``."""
    culprits: dict[Who, float] = field(default_factory=lambda: defaultdict(float))
    """Culprits that took it, as far as they are known; in a chain that is followed, by what they took over
    time (`diagnosis.blame`)."""
    first: Who | None = None
    """The culprit that the chain named first until now."""
    sure_ns: float = 0.0
    """Part of it that is directly measured. A caller waits for one result of a worker, but only the sum over
    all results of the worker is known."""

    @property
    def sure(self) -> float:
        """Returns the part of it that is directly measured, 0 to 1."""
        return min(self.sure_ns / self.ns, 1.0) if self.ns else 0.0

    @property
    def path(self) -> tuple[Who, ...]:
        """Returns the workers through which most of it was lost."""
        return max(self.paths, key=lambda path: self.paths[path], default=())

    @property
    def last_part(self) -> str:
        """Returns the largest of ``last_parts``."""
        return max(self.last_parts, key=lambda part: self.last_parts[part])

    @property
    def last(self) -> Who:
        """Returns the process at the root: the last worker, or the victim."""
        return self.path[-1] if self.path else self.victim


class Wait(NamedTuple):
    """Origin of lost time."""

    effect: RowKey
    part: str
    path: tuple[Who, ...] = ()
    sure: float = 1.0
    """Part of the time of the workers on the path that was spent in the same way."""
    threads: tuple[ThreadId, ...] = ()
    """The threads of the path."""

    @property
    def victim(self) -> Who:
        """Returns the process that makes the calls."""
        return Who(self.effect.tenant, self.effect.pid, self.effect.process)


class Losses:
    """Losses of one window, by process and cause."""

    def __init__(self) -> None:
        self._losses: dict[tuple[int, str], Loss] = {}

    def add(self, cause: str, wait: Wait, last_part: str, ns: float, by: Mapping[Who, float]) -> None:
        """Adds ``ns`` that were lost through ``cause``; ``last_part`` is the part of the split of the
        thread at the root, ``by`` has the culprits with their ns."""
        if ns <= 0:
            return
        victim = wait.victim
        loss = self._losses.setdefault((victim.pid, cause), Loss(cause, victim))
        loss.ns += ns
        loss.effects[wait.effect] += ns
        loss.parts[wait.part] += ns
        loss.paths[wait.path] += ns
        loss.last_parts[last_part] += ns
        loss.sure_ns += ns * wait.sure
        for who, lost in by.items():
            loss.culprits[who] += lost

    def of(self, pid: int, cause: str = "") -> float:
        """Returns what a process lost by ``cause``, or by all causes, ns."""
        return sum(
            loss.ns for (victim, of), loss in self._losses.items() if victim == pid and cause in ("", of)
        )

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses.values())
