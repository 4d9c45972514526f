"""Summarizes how one process uses the GPU: sums over its outermost calls of each family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Final, NamedTuple

from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.chain import Fix, Link
from stalltop.model.families import KERNELS_OF_A_GRAPH, WAITING_PARTS, Family, OperationKind, kind_of
from stalltop.model.text.words import program_of

SECOND_NS: Final = 1_000_000_000
NOTICEABLE: Final = 0.05
"""Something that a program does is reported as a fault only if it costs at least this part of one thread's
time. Figures of one second vary by a tenth of this by chance."""


@dataclass(frozen=True, slots=True)
class DeviceCalls:
    """Sums over some rows of one process. Only the part of their time that lies in the window counts."""

    rows: tuple[Row, ...] = ()
    """The rows, with the row that took most time first."""
    calls: int = 0
    errors: int = 0
    bytes: int = 0
    total_ns: int = 0
    waited_ns: int = 0
    """Part of ``total_ns`` in ``WAITING_PARTS`` of the split. If the calls synchronize, this is how long they
    waited for the device: asleep in the driver, or spinning."""
    running_ns: int = 0

    @property
    def mean_ns(self) -> float:
        """Returns the mean time of one call, ns."""
        return self.total_ns / self.calls if self.calls else 0.0

    @property
    def mean_bytes(self) -> float:
        """Returns the mean number of bytes of one call."""
        return self.bytes / self.calls if self.calls else 0.0


NO_CALLS: Final = DeviceCalls()
_WAITED: Final = itemgetter(*WAITING_PARTS)


class _RowTime(NamedTuple):
    """One row, with those parts of its time that lie in the window."""

    row: Row
    kind: OperationKind
    total_ns: int
    waited_ns: int
    running_ns: int


class Usage:
    """Shows how one process uses the GPU. Times are summed over all threads of the process that make
    calls."""

    def __init__(self, facts: Facts, pid: int, rows: Sequence[Row]) -> None:
        """``rows`` are the rows of the process's outermost calls; there must be at least one."""
        self.facts = facts
        self.pid = pid
        self._rows = [_counted(facts, row) for row in rows]
        self._families: defaultdict[Family, list[_RowTime]] = defaultdict(list)
        for counted in self._rows:
            self._families[counted.kind.family].append(counted)
        self._known: dict[tuple[Family, ...], DeviceCalls] = {}
        self.all = _sum(self._rows)
        self.tenant, self.process = self.all.rows[0].key.tenant, self.all.rows[0].key.process
        gaps = facts.gaps_of(pid)
        self.gap = added(facts, gaps) if gaps else None
        """Sums over the time between the calls of the process; None if that time was not measured."""
        self.wall_ns = facts.wall_ns(pid)

    def of(self, *families: Family) -> DeviceCalls:
        """Returns sums over the process's outermost calls of ``families``."""
        known = self._known.get(families)
        if known is None:
            known = _sum([row for family in families for row in self._families.get(family, ())])
            self._known[families] = known
        return known

    @property
    def utilization_percent(self) -> float | None:
        """Utilization of the busiest device that the process uses; None if none is known."""
        return max(
            (
                device.utilization_percent
                for device in self.facts.window.devices.devices
                if device.utilization_percent is not None
                and any(process.pid == self.pid for process in device.processes)
            ),
            default=None,
        )

    def copies(self, *directions: str, asynchronous: bool | None = None) -> DeviceCalls:
        """Returns sums over the process's outermost copies in ``directions``; in all directions if none is
        given.

        If ``asynchronous`` is True, only asynchronous copies count; if it is False, only synchronous ones.
        """
        return _sum(
            [
                row
                for row in self._families.get(Family.COPY, ())
                if (not directions or row.kind.direction in directions)
                and (asynchronous is None or row.kind.asynchronous is asynchronous)
            ]
        )

    def everywhere(self, family: Family) -> DeviceCalls:
        """Returns sums over all calls of ``family``, nested calls included, in one layer: the one that spent
        most time on them. Layers are not added up, because the same work is seen in each of them."""
        layers: defaultdict[str, list[Row]] = defaultdict(list)
        for row in self.facts.rows_of(self.pid):
            if kind_of(row.key.layer, row.key.operation).family is family:
                layers[row.key.layer].append(row)
        found = (added(self.facts, rows) for rows in layers.values())
        return max(found, key=lambda calls: calls.total_ns, default=NO_CALLS)

    @property
    def launched(self) -> DeviceCalls:
        """Returns sums over the launches of single CUDA kernels. CUDA kernels that a graph launches are not
        included."""
        return self.of(Family.LAUNCH)

    @property
    def kernels(self) -> int:
        """Returns a low estimate of the number of CUDA kernels that were given to the device. A launch of a
        graph counts as ``KERNELS_OF_A_GRAPH``, because the CUDA kernels in a graph are not counted."""
        return self.launched.calls + KERNELS_OF_A_GRAPH * self.of(Family.GRAPH_LAUNCH).calls

    @cached_property
    def synced(self) -> DeviceCalls:
        """Returns sums over the calls in which the host waits for the device: synchronizations, and
        synchronous copies to the host."""
        copies = [
            row
            for row in self._families.get(Family.COPY, ())
            if row.kind.direction == "DtoH" and not row.kind.asynchronous
        ]
        return _sum([*self._families.get(Family.SYNC, ()), *copies])

    def per_second(self, value: float) -> float:
        """Converts ``value``, a sum over the window, to a rate per second."""
        return value / self.facts.seconds

    @property
    def who(self) -> str:
        """Returns process, PID and tenant as text, as shown to users."""
        return program_of(self.process, self.pid, self.facts.name(self.tenant))

    def own(self, text: str, *, share: float | None = None, ns: float | None = None, depth: int = 2) -> Link:
        """Returns a link that names the process itself as the culprit. ``ns`` is how
        much time of the window the process took."""
        return link_of(
            self,
            "culprit",
            text,
            share=share,
            ns_per_s=None if ns is None else self.per_second(ns),
            depth=depth,
        )

    def step(self, text: str, calls: DeviceCalls, lost_ns: float) -> Link:
        """Returns a link of role ``mechanism`` that says that ``calls`` took time. Its share is the part of
        ``lost_ns``, the whole loss, that they took."""
        return link_of(
            self,
            "mechanism",
            text,
            share=min(1.0, calls.total_ns / lost_ns) if lost_ns > 0 else None,
            ns_per_s=self.per_second(min(calls.total_ns, lost_ns) if lost_ns > 0 else calls.total_ns),
        )

    def suspect(
        self,
        cause: str,
        summary: str,
        lost_ns: float,
        *,
        confidence: float,
        links: Iterable[Link],
        fixes: Iterable[Fix],
        hit: DeviceCalls,
        about: str = "",
        unknown: Iterable[str] = (),
        verb: str = "loses",
    ) -> Suspicion:
        """Returns a suspicion that this process loses ``lost_ns`` of the window through ``cause``. Most of
        this time was lost in the calls ``hit``."""
        effect = hit.rows[0] if hit.rows else None
        where = effect.key.operation if effect else "its calls"
        return Suspicion(
            cause=cause,
            tenant=self.tenant,
            summary=summary,
            lost_ns_per_s=self.per_second(lost_ns),
            confidence=confidence,
            links=(
                link_of(
                    self,
                    "effect",
                    f"{self.facts.name(self.tenant)} {verb} time in {where}",
                    share=1.0,
                    ns_per_s=self.per_second(lost_ns),
                    depth=0,
                ),
                *links,
            ),
            fixes=tuple(fixes),
            effect=effect.key if effect else None,
            rows=tuple(row.key for row in hit.rows),
            pid=self.pid,
            process=self.process,
            about=about or self.process,
            unknown=tuple(unknown),
            p99_ns=effect.p99_ns if effect else None,
            normal_p99_ns=effect.normal_p99_ns if effect else None,
            calls=hit.calls,
            share=min(1.0, lost_ns / self.wall_ns),
        )

    def noticeable(self, lost_ns: float) -> bool:
        """Returns whether a loss of ``lost_ns`` in the window is large enough to be reported."""
        return self.per_second(lost_ns) >= NOTICEABLE * SECOND_NS


def added(facts: Facts, rows: Iterable[Row]) -> DeviceCalls:
    """Returns sums over ``rows``. If calls began long before the window, only the part of their time that can
    lie in the window counts."""
    return _sum([_counted(facts, row) for row in rows])


def _counted(facts: Facts, row: Row) -> _RowTime:
    weight, split = facts.within(row), row.split_ns
    waited = sum(_WAITED(split)) if split else 0
    running = split["running"] if split else 0
    kind = kind_of(row.key.layer, row.key.operation)
    if weight == 1.0:
        return _RowTime(row, kind, row.total_ns, waited, running)
    return _RowTime(row, kind, round(row.total_ns * weight), round(waited * weight), round(running * weight))


def _sum(rows: list[_RowTime]) -> DeviceCalls:
    if not rows:
        return NO_CALLS
    if len(rows) == 1:  # the usual case
        row, _, *times = rows[0]
        return DeviceCalls((row,), row.calls, row.errors, row.bytes, *times)
    rows = sorted(rows, key=lambda counted: counted.row.total_ns, reverse=True)
    calls = errors = moved = total = waited = running = 0
    for row, _, total_ns, waited_ns, running_ns in rows:
        calls += row.calls
        errors += row.errors
        moved += row.bytes
        total += total_ns
        waited += waited_ns
        running += running_ns
    return DeviceCalls(tuple([counted.row for counted in rows]), calls, errors, moved, total, waited, running)


def usages(facts: Facts) -> list[Usage]:
    """Returns the usage of every process that makes calls."""
    return [Usage(facts, pid, rows) for pid in facts.callers if (rows := facts.calls_of(pid))]
