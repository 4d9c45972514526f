"""Defines the time that a process lost through one cause, and adds up such losses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stalltop.diagnosis.links import Who, who_of
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ThreadId

INTERRUPTED: Final = "interrupted"
"""A part of the split that is cut out of ``running``: time in which an interrupt had the CPU of a thread."""


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
    """The lost ns by path. A path has the workers for which the process waited, the nearest one first. It is
    empty if the process lost the time without waiting for a worker."""
    last_parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The lost ns by what the last worker of the path (the victim, if the path is empty) did in this time: a
    part of the split or, if the thread was stopped, one of ``model.thread_evidence.HELD_BACK``."""
    culprits: dict[Who, float] = field(default_factory=lambda: defaultdict(float))
    """The lost ns by culprit, for the known culprits. The rule ``waits`` replaces these figures: it divides
    the loss among the culprits in proportion to what each took over time (`diagnosis.blame`)."""
    first: Who | None = None
    """The culprit that the chain of this loss has named first so far."""
    sure_ns: float = 0.0
    """The lost ns that are measured directly. The rest is inferred: the caller waited for one result of a
    worker, but how the worker spent its time is known only for all its results together."""

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
        """Returns the key of ``last_parts`` that has most of the time."""
        return max(self.last_parts, key=lambda part: self.last_parts[part])

    @property
    def last(self) -> Who:
        """Returns the process at the root: the last worker of the path, or the victim if the path is
        empty."""
        return self.path[-1] if self.path else self.victim


class Wait(NamedTuple):
    """A wait in which a caller lost time: in which row, in which part of the split, and for which workers."""

    effect: RowKey
    part: str
    path: tuple[Who, ...] = ()
    sure: float = 1.0
    """How certain the attribution is, 0 to 1: the part of the workers' time that they spent on the activity
    to which the wait is attributed."""
    threads: tuple[ThreadId, ...] = ()
    """The threads through which the wait was followed so far. The caller waited for the first of them."""
    mean_ns: float = 0.0
    """Mean length of the waits that the last of ``threads`` ended, ns."""

    @property
    def victim(self) -> Who:
        """Returns the process that makes the calls."""
        return who_of(self.effect)


class Losses:
    """Losses of one window, by process and cause."""

    def __init__(self) -> None:
        self._losses: dict[tuple[int, str], Loss] = {}

    def add(self, cause: str, wait: Wait, last_part: str, ns: float, by: Mapping[Who, float]) -> None:
        """Adds ``ns`` that were lost through ``cause``. ``last_part`` is what the thread at the root did in
        this time (see ``Loss.last_parts``); ``by`` has the ns of each culprit."""
        if ns <= 0:
            return
        loss = self._losses.get((wait.effect.pid, cause))
        if loss is None:
            loss = self._losses[wait.effect.pid, cause] = Loss(cause, wait.victim)
        loss.ns += ns
        loss.effects[wait.effect] += ns
        loss.parts[wait.part] += ns
        loss.paths[wait.path] += ns
        loss.last_parts[last_part] += ns
        loss.sure_ns += ns * wait.sure
        for who, lost in by.items():
            loss.culprits[who] += lost

    def of(self, pid: int, cause: str = "") -> float:
        """Returns how many ns a process lost through ``cause``; through all causes together if ``cause`` is
        ''."""
        return sum(
            loss.ns for (victim, of), loss in self._losses.items() if victim == pid and cause in ("", of)
        )

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._losses.values())
