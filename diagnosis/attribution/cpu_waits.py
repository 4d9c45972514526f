"""Attributes waits for CPUs: to a quota, to a CPU set that is too small, or to the processes that had the
CPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from stalltop.diagnosis.attribution.charges import mean_waits
from stalltop.diagnosis.attribution.losses import Losses, Wait
from stalltop.diagnosis.evidence import processors
from stalltop.diagnosis.evidence.interrupts import handles_interrupts
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.model.evidence import HOST_LAYER

MOSTLY_CHARGED: Final = 0.5
"""It may be unknown which process had the CPU in some of the time of a wait for a CPU. This time is reported
only if it is more than this part of the wait, and if the victim does not lose more time in other ways."""


SHORT_NS: Final = 1_000_000
"""Mean length of the waits for a CPU below which they occur on healthy hosts, ns, if CPUs have room: 0.03 to
0.4 ms with the ranks of gloo and with gRPC servers. A thread that competes for a CPU waits for slices of the
other thread, 0.7 to 3 ms each."""


class Late(NamedTuple):
    """A wait of ``who`` for a CPU."""

    wait: Wait
    who: Who
    ns: float
    by: Mapping[Who, float]
    """For how many ns of the wait each known process had the CPU."""

    @property
    def charged_ns(self) -> float:
        """Returns the part of the wait that has a known culprit, ns."""
        return min(sum(self.by.values()), self.ns)


class CpuWaits:
    """Waits for CPUs of one window. They are attributed together, because the time that a quota took is known
    only for a whole tenant."""

    def __init__(self, facts: Facts, losses: Losses) -> None:
        self._facts = facts
        self._losses = losses
        self._late: list[Late] = []
        self._pinned: dict[int, bool] = {}
        self._room: dict[int, bool] = {}
        self._mean_ns: dict[int, Mapping[Who, float]] = {}

    def add(self, late: Late) -> None:
        """Adds a wait."""
        self._late.append(late)

    def settle(self) -> None:
        """Attributes all waits that were added."""
        by_tenant: defaultdict[str, list[Late]] = defaultdict(list)
        for late in self._late:
            by_tenant[late.who.tenant].append(late)
        nobodys: defaultdict[Who, list[tuple[Late, float]]] = defaultdict(list)
        for tenant, waits in by_tenant.items():
            stopped = processors.throttled_ns(self._facts, tenant)
            if not stopped:
                waits = [self._without_short(late) for late in waits]
            of_charged = self._stopped_share(tenant, waits, stopped) if stopped else 0.0
            crowded_by = {} if stopped else self._crowded_by(tenant, waits)
            for late in waits:
                uncharged = late.ns - late.charged_ns
                if stopped:
                    by_quota = uncharged + of_charged * late.charged_ns
                    self._losses.add("cfs_throttling", late.wait, "runqueue", by_quota, {})
                elif uncharged > MOSTLY_CHARGED * late.ns:
                    nobodys[late.wait.victim].append((late, uncharged))
                self._charge(late, 1.0 - of_charged, crowded_by)
        for victim, found in nobodys.items():
            others = self._losses.of(victim.pid)
            if sum(ns for _, ns in found) > others:
                for late, ns in found:
                    cause = "cpu_pinning" if self._is_pinned(late.who.pid) else "cpu_contention"
                    self._losses.add(cause, late.wait, "runqueue", ns, {})

    def _without_short(self, late: Late) -> Late:
        """Returns ``late`` without the waits that occur although CPUs have room, because the Linux kernel
        often leaves a thread on the CPU of the thread that woke it: waits that are short on average, and
        waits in which no known process had the CPU."""
        room = self._room.get(late.who.pid)
        if room is None:
            room = self._room[late.who.pid] = processors.has_room(self._facts, late.who.pid)
        if not room:
            return late
        means = self._mean_ns.get(late.who.pid)
        if means is None:
            means = self._mean_ns[late.who.pid] = mean_waits(self._facts, late.who.pid)
        by = {
            who: ns
            for who, ns in late.by.items()
            if means.get(who, 0.0) >= SHORT_NS or handles_interrupts(self._facts, who)
        }
        return late._replace(ns=min(late.ns, sum(by.values())), by=by)

    def _stopped_share(self, tenant: str, waits: list[Late], stopped_ns: float) -> float:
        """Returns which part of the charged time of ``waits``, 0 to 1, is the fault of the tenant's quota. In
        this part, the quota would have stopped the threads even if no other process had had the CPU.

        ``stopped_ns`` is the time for which the quota stopped the tenant. It first accounts for the uncharged
        time of ``waits``, in which no known process had the CPU. What remains of it is spread over the
        charged time.
        """
        charged = sum(late.charged_ns for late in waits)
        if not charged:
            return 0.0
        # The Linux kernel counts the time stopped by a quota once per CPU, even if two threads waited for
        # that CPU.
        pids = {late.who.pid for late in waits}
        threads = sum(self._facts.wall_ns(pid) for pid in pids) / (self._facts.seconds * 1e9)
        cpus = processors.cpus_for(self._facts, tenant)
        most = stopped_ns * max(threads / cpus, 1.0) if cpus else stopped_ns
        left = most - sum(late.ns - late.charged_ns for late in waits)
        return min(max(left, 0.0) / charged, 1.0)

    def _crowded_by(self, tenant: str, waits: list[Late]) -> Mapping[Who, float]:
        """Returns the processes of other tenants that make threads of ``tenant`` compete for CPUs with each
        other. For each of them, the result has the part, 0 to 1, that is charged to it of the waits in which
        one of the tenant's own threads had the CPU.

        If the threads want no more CPUs than the tenant may use, they would not compete if the tenant were
        alone. If they want more, some of these waits would occur anyway. Besides, the Linux kernel often
        leaves a thread on the CPU of the thread that woke it, although another CPU is idle: waits up to the
        idle time of the tenant's CPUs are not charged to others. Only the rest is charged to other tenants,
        and at most the CPU time that they used beyond what is charged to them already.
        """
        use, cpus = self._facts.use(tenant), processors.cpus_for(self._facts, tenant)
        among_own, taken = 0.0, defaultdict[Who, float](float)
        for late in waits:
            for other, ns in late.by.items():
                if other.tenant == tenant and not late.wait.path:
                    among_own += ns
                elif ns > 0 and other.tenant not in (tenant, "") and other.pid != self._facts.own_pid:
                    taken[other] += ns
        if use is None or not use.cpu_ns or not cpus or not among_own or not taken:
            return {}
        waited = sum(
            row.split_ns.get("runqueue", 0) * self._facts.within(row)
            for row in self._facts.rows
            if row.key.tenant == tenant and (row.key.outermost or row.key.layer == HOST_LAYER)
        )
        anyway = max(use.cpu_ns + waited - cpus * self._facts.seconds * 1e9, 0.0)
        uses = map(self._facts.use, {who.tenant for who in taken})
        used = sum(one.cpu_ns for one in uses if one is not None)
        total = sum(taken.values())
        moved = min(among_own - anyway - processors.idle_ns(self._facts, tenant), used - total)
        return {who: ns / total * moved / among_own for who, ns in taken.items()} if moved > 0 else {}

    def _charge(self, late: Late, part: float, crowded_by: Mapping[Who, float]) -> None:
        """Charges ``part`` (0 to 1) of a wait for a CPU to the processes that had the CPU. If one of the
        tenant's own threads had it, a part is charged to the processes ``crowded_by`` instead (see
        `_crowded_by`)."""
        who = late.who
        for other, lost in late.by.items():
            if other.tenant == who.tenant and crowded_by and not late.wait.path:
                for crowding, share in crowded_by.items():
                    ns = lost * part * share
                    self._losses.add("cpu_contention", late.wait, "runqueue", ns, {crowding: ns})
                lost *= 1.0 - sum(crowded_by.values())
            if other.pid == self._facts.own_pid != 0:
                cause = "tracer"
            elif handles_interrupts(self._facts, other):
                cause = "interrupts"
            elif self._is_pinned(who.pid):
                cause = "cpu_pinning"
            elif other.tenant != who.tenant:
                cause = "cpu_contention"
            else:
                cause = "loader_cpu" if late.wait.path else "own_threads"
            self._losses.add(cause, late.wait, "runqueue", lost * part, {other: lost * part})

    def _is_pinned(self, pid: int) -> bool:
        """Returns whether the process waits for the CPUs that it may use, while other CPUs are idle."""
        pinned = self._pinned.get(pid)
        if pinned is None:
            pinned = self._pinned[pid] = bool(processors.idle_elsewhere(self._facts, pid))
        return pinned
