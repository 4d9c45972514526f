"""Defines what a process lost through one cause, and adds such losses up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stalltop.diagnosis.links import Who, who_of
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ThreadId

INTERRUPTED: Final = "interrupted"
"""A part of ``running``: time in which interrupts had the CPU of a thread."""


@dataclass(slots=True)
class Loss:
    """Time that one process lost through one cause, in ns of the window."""

    cause: str
    victim: Who
    ns: float = 0.0
    effects: dict[RowKey, float] = field(default_factory=lambda: defaultdict(float))
    """The lost ns by row."""
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The lost ns by part of the rows' split."""
    paths: dict[tuple[Who, ...], float] = field(default_factory=lambda: defaultdict(float))
    """The lost ns by path: the workers for which the process waited, the nearest one first. The path is empty
    if the process itself lost the time."""
    last_parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The lost ns by part of the split of the last worker on the path or, if the path is empty, of the
    victim. If that thread was stopped, the key is the way in which it was stopped, one of
    ``model.thread_evidence.HELD_BACK``."""
    culprits: dict[Who, float] = field(default_factory=lambda: defaultdict(float))
    """The lost ns by culprit, as far as culprits are known. The rule ``waits`` divides the loss anew, by what
    the culprits took over time (`diagnosis.blame`)."""
    first: Who | None = None
    """The culprit that the chain named first until now."""
    sure_ns: float = 0.0
    """The lost ns that are measured directly. The rest is inferred: a caller waits for one result of a
    worker, but how a worker spends its time is known only as a sum over all its results."""

    @property
    def sure(self) -> float:
        """Returns the part of the loss that is measured directly, 0 to 1."""
        return min(self.sure_ns / self.ns, 1.0) if self.ns else 0.0

    @property
    def path(self) -> tuple[Who, ...]:
        """Returns the path of workers through which most time was lost."""
        return max(self.paths, key=lambda path: self.paths[path], default=())

    @property
    def last_part(self) -> str:
        """Returns the key of ``last_parts`` with most time."""
        return max(self.last_parts, key=lambda part: self.last_parts[part])

    @property
    def last(self) -> Who:
        """Returns the process at the root: the last worker, or the victim."""
        return self.path[-1] if self.path else self.victim


class Wait(NamedTuple):
    """A wait in which time was lost: the row, the part of its split, and the workers for which the caller
    waited."""

    effect: RowKey
    part: str
    path: tuple[Who, ...] = ()
    sure: float = 1.0
    """Part of the workers' time that was spent in the way to which the wait is attributed, 0 to 1."""
    threads: tuple[ThreadId, ...] = ()
    """The threads through which the wait was followed so far, the nearest one first."""

    @property
    def victim(self) -> Who:
        """Returns the process that makes the calls."""
        return who_of(self.effect)


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
