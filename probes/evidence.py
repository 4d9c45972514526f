"""Reads all measurements besides calls, adds names and owners to the raw figures, and returns them as model
types."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Final, Protocol

from stalltop.model.devices.activity import MOST_TENANTS, ReportedActivity, reported_activity
from stalltop.model.devices.labels import UNKNOWN
from stalltop.model.evidence import Charge, Event, Evidence, ProcessUse, Rank, TenantUse
from stalltop.model.tenant import Tenant
from stalltop.model.text.words import numbered
from stalltop.model.thread_evidence import Placed
from stalltop.model.window import SPLITS
from stalltop.probes import operations
from stalltop.probes.confined.link import Answerer
from stalltop.probes.host.block_io import BlockIoNames
from stalltop.probes.host.cgroup_pressure import Pressed, Pressures
from stalltop.probes.host.events import NOTHING, HostEvents, RawHostEvents, RawRetransmits, RawUse, RawVictim
from stalltop.probes.host.interrupts import InterruptReader
from stalltop.probes.host.process_use import Children, ProcessUses, SwapReader, Use
from stalltop.probes.host.socket_owners import SocketOwners
from stalltop.probes.layout import DEVICE_SHIFT, HOST_GAP, HOST_WORK, NESTED
from stalltop.probes.maps.activity import TICK_NS
from stalltop.probes.maps.raw import (
    OTHERS,
    RawActivities,
    RawCharge,
    RawHeld,
    RawPlaced,
    RawRank,
    RawWait,
    RawWork,
)
from stalltop.probes.tenants.owners import Owner, Owners
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import Tenants
from stalltop.probes.thread_reader import ThreadReader

MOST_CULPRITS: Final = 64
"""Maximum number of culprits (processes that are charged with others' off-CPU time) that are sampled; the
culprits that are charged with most are chosen."""
CULPRIT_LOOKS: Final = 10
"""Number of samples of a culprit from the last window on in which it was among the `MOST_CULPRITS`, that
window included."""
MOST_SLEEPERS: Final = 16
"""Maximum number of processes whose children are sampled because the process sleeps between its calls; the
processes that sleep longest are chosen."""
LEAST_SLEPT_NS: Final = 20_000_000
"""The children of a process are sampled only if it sleeps at least this long between its calls in a window,
ns."""
_SLEEP: Final = SPLITS.index("sleep")
KERNEL: Final = "kernel"
"""Name under which time that the Linux kernel itself took (such as an interrupt) is charged."""
SEVERAL: Final = "others"
"""Name under which culprits are summed up if each of them took too little time to be listed."""
NOT_FOLLOWED: Final = -1
"""``ProcessUse.link`` of a process that makes no traced calls and wakes, directly or through others, no
process that does."""


PRESSED: Final = tuple(
    {field.name for field in fields(Pressed)}
    & {field.name for field in fields(TenantUse)} - {"cpu_ns", "oom_kills"}
)
"""Fields of TenantUse that only a tenant's cgroups provide."""


Label = Callable[[int, int], str]
"""Returns the label of a device of a process, as `ProcessDevices.label` does."""


def _nowhere(pid: int, device: int) -> str:
    return UNKNOWN


class KernelSource(Protocol):
    """The reports of the kernel side (BPF programs and maps). Counts and times are since the previous call of
    the same method."""

    def charges(self) -> list[RawCharge]:
        """Returns off-CPU time, and the process that caused it, which may be the same process."""

    def waits(self) -> list[RawWait]:
        """Returns which thread waited, and which thread ended the wait, for the charges that `charges`
        returned last."""

    def works(self) -> list[RawWork]:
        """Returns the split of the time of each thread that makes calls or is followed."""

    def placed(self) -> list[RawPlaced]:
        """Returns on which CPUs the threads of each process ran or waited to run."""

    def links(self) -> dict[int, int]:
        """Returns the distance of each process in the chain of wake-ups (``ProcessUse.link``): 0 if it makes
        calls, n if it wakes a process of distance n - 1."""

    def held(self) -> list[RawHeld]:
        """Returns the device memory that each process allocated, freed and holds."""

    def ranks(self) -> list[RawRank]:
        """Returns the ranks in NCCL communicators."""

    def activities(self) -> RawActivities:
        """Returns when processes were active on devices."""

    def unknown_communicators(self) -> set[int]:
        """Returns the processes with communicators that were made before the probes were attached."""

    def tgids(self) -> set[int]:
        """Returns the processes for which the kernel side has counts."""


class EvidenceReader:
    """Reads all evidence of one host, once per window. Used from one thread, except for `begin`."""

    def __init__(
        self,
        tenants: Tenants,
        names: ProcessNames,
        host: HostEvents | None = None,
        *,
        label: Label = _nowhere,
        asks: Answerer | None = None,
    ) -> None:
        """``asks`` reads what other processes control; by default, that is done in this process."""
        self._label = label
        self._names = names
        self._owners = Owners(tenants, names)
        self._host = host or HostEvents()
        self._pressures = Pressures()
        self._uses = ProcessUses()
        self._children = Children()
        self.without_overlaps = 0
        """Number of tenants whose overlaps with other tenants were left out in the last read, summed over all
        devices."""
        self._swap = SwapReader()
        self._interrupts = InterruptReader()
        self._sockets = SocketOwners()
        self._block_io = BlockIoNames(self._owners, self._pressures)
        self._threads = ThreadReader(self._owners, asks=asks)
        self._links: dict[int, int] = {}
        """Link of every process at the last read, as in ``ProcessUse.link``."""
        self._culprits: dict[int, int] = {}
        """By culprit: the number of samples for which it is still sampled, the latest one included."""
        self._unowned: list[RawRetransmits] = []
        """Retransmits on sockets for which no process has been found yet."""

    @property
    def tenants(self) -> Mapping[str, Tenant]:
        """Returns every tenant named in the last evidence, by id."""
        return self._owners.found

    def begin(self) -> None:
        """Starts to load, in the background, the programs that observe the host. Called when the first
        process is traced; further calls do nothing."""
        self._host.begin()

    def read(
        self, kernel: KernelSource, callers: Iterable[tuple[int, int]], *, wall: float, clock: float
    ) -> Evidence:
        """Returns the evidence since the previous read. ``clock`` (CLOCK_MONOTONIC) and ``wall`` (Unix time)
        are the same moment, the end of the window, in seconds.

        ``callers`` has the PID and the id of the v2 cgroup of every process that was seen to make calls and
        has not been forgotten.
        """
        charges, held, ranks = kernel.charges(), kernel.held(), kernel.ranks()
        links = self._links = self._every_link(kernel)
        self._owners.begin(links.keys())
        for pid, cgroup_id in callers:
            self._owners.saw(pid, cgroup_id)
        raw, unknown = self._read_host()
        if older := kernel.unknown_communicators():
            unknown += (
                f"collectives of {numbered(len(older), 'process', 'processes')}: their "
                "communicators are older than the probes",
            )
        activities = kernel.activities()
        told = self._activity(activities)
        unknown += _unknown_activity(activities, told)
        self.without_overlaps = sum(told.left_out.values())
        culprits = self._followed_culprits(charges, links)
        waits = kernel.waits()
        helpers = self._children.look(_sleepers(waits), {use.tgid for use in raw.uses if use.forks})
        uses = self._uses.look(links.keys() | culprits | helpers)
        # A culprit that has ended is still reported in the window in which it was charged.
        charged = {charge.culprit_tgid for charge in charges}
        watched = links.keys() | {pid for pid in culprits | helpers if pid in uses or pid in charged}
        owners = {pid: self._owners.of(pid) for pid in sorted(watched)}
        events = tuple(self._event(victim, wall, clock) for victim in raw.victims)
        pressed = self._pressed(owners.values())
        swapped = self._swap.look()
        return Evidence(
            charges=self._charges(charges),
            block_io=self._block_io.records(raw.block_io, pressed),
            tenants=self._tenant_uses(raw.uses, pressed, owners, uses, events),
            processes=_process_uses(owners, links, uses, held, self._retransmits(raw.retransmits, watched)),
            ranks=tuple(self._rank(rank) for rank in ranks),
            events=events,
            swap_in_bytes=swapped.in_bytes,
            swap_out_bytes=swapped.out_bytes,
            unknown=unknown,
            activity=told.activity,
            overlaps=told.overlaps,
            threads=replace(
                self._threads.read(waits, kernel.works(), raw.stops),
                placed=tuple(Placed(*placed) for placed in kernel.placed()),
                interrupts=self._interrupts.look(),
            ),
        )

    def made_cgroups(self) -> dict[int, str]:
        """Returns the paths of new cgroups, as `HostEvents.made_cgroups` does; none if it cannot."""
        try:
            return self._host.made_cgroups()
        except OSError:
            return {}

    def forget(self, pid: int) -> None:
        """Forgets a traced process that has ended and whose last counts were read."""
        self._owners.forget(pid)

    def close(self) -> None:
        """Stops and releases everything. May be called twice."""
        self._host.close()
        self._pressures.close()
        self._uses.close()
        self._threads.close()

    def _read_host(self) -> tuple[RawHostEvents, tuple[str, ...]]:
        unknown = self._host.unknown
        try:
            raw = self._host.read()
        except OSError as error:
            return NOTHING, (
                *unknown,
                f"events of the host, such as block I/O and OOM kills: {error.strerror}",
            )
        if raw.dropped:
            unknown += (
                f"events of the host, such as block I/O and reclaim, {raw.dropped} times: "
                "no room to count them",
            )
        if raw.forgotten:
            unknown += (
                f"events of the host, such as block I/O and reclaim, {raw.forgotten} times: "
                "too many at once to remember when each began",
            )
        return raw, unknown

    def _every_link(self, kernel: KernelSource) -> dict[int, int]:
        """Returns the link of each process, including ended processes whose last counts may not have been
        read yet."""
        links, ended = kernel.links(), kernel.tgids()
        return {tgid: self._links.get(tgid, 0) for tgid in ended} | links

    def _followed_culprits(self, charges: Iterable[RawCharge], links: Collection[int]) -> set[int]:
        taken = Counter[int]()
        for charge in charges:
            if charge.culprit_tgid > 0 and charge.culprit_tgid not in links:
                taken[charge.culprit_tgid] += charge.ns
        earlier = {pid: looks - 1 for pid, looks in self._culprits.items() if looks > 1 and pid not in links}
        now = {pid: CULPRIT_LOOKS for pid, _ in taken.most_common(MOST_CULPRITS)}
        kept = sorted((earlier | now).items(), key=lambda item: -item[1])[:MOST_CULPRITS]
        self._culprits = dict(kept)
        return set(self._culprits)

    def _charges(self, charges: Iterable[RawCharge]) -> tuple[Charge, ...]:
        found: dict[tuple[Owner, int, int, Owner, str], tuple[int, int]] = {}
        owners: dict[tuple[int, int], Owner] = {(0, 0): Owner("", 0, KERNEL)}

        def owner(pid: int, cgroup_id: int) -> Owner:
            if pid == 0:
                cgroup_id = 0
            known = owners.get((pid, cgroup_id))
            if known is None:
                known = self._owners.of(pid, cgroup_id)
                owners[pid, cgroup_id] = known = known._replace(process=SEVERAL) if pid == OTHERS else known
            return known

        for raw in charges:
            operation = raw.operation & (NESTED - 1)
            key = (
                owner(raw.tgid, raw.cgroup_id),
                operation,
                raw.part,
                owner(raw.culprit_tgid, raw.culprit_cgroup_id),
                UNKNOWN if operation == HOST_WORK else self._label(raw.tgid, raw.operation >> DEVICE_SHIFT),
            )
            ns, times = found.get(key, (0, 0))
            found[key] = ns + raw.ns, times + raw.times
        named = {number: operations.operation(number) for number in {key[1] for key in found}}
        return tuple(
            Charge(
                *victim, named[number].layer, named[number].name, SPLITS[part], *culprit, ns, times, device
            )
            for (victim, number, part, culprit, device), (ns, times) in found.items()
        )

    def _activity(self, raw: RawActivities) -> ReportedActivity:
        active: defaultdict[tuple[str, str], int] = defaultdict(int)
        for each in raw.active:
            tenant = self._owners.of(each.tgid, each.cgroup_id).tenant
            active[self._label(each.tgid, each.device), tenant] |= each.ticks
        return reported_activity(active, TICK_NS)

    def _pressed(self, owners: Iterable[Owner]) -> dict[str, Pressed]:
        pids: defaultdict[str, list[int]] = defaultdict(list)
        for owner in owners:
            if owner.tenant:
                pids[owner.tenant].append(owner.pid)
        found = self._owners.found
        return self._pressures.look(
            {tenant: (found[tenant].cgroup_path, members) for tenant, members in pids.items()}
        )

    def _tenant_uses(
        self,
        raw: Iterable[RawUse],
        pressed: Mapping[str, Pressed],
        owners: Mapping[int, Owner],
        uses: Mapping[int, Use],
        events: Iterable[Event],
    ) -> tuple[TenantUse, ...]:
        cpu_ns = Counter[str]()
        for pid, use in uses.items():
            cpu_ns[owners[pid].tenant] += use.cpu_ns
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for done in raw:
            # Reclaims are reported for every process. Processes begin and end in large numbers, so forks,
            # execs and exits are reported only for processes that are known already.
            find = self._owners.of if done.reclaims else self._owners.known
            counted = counts[find(done.tgid, done.cgroup_id).tenant]
            for name in ("reclaims", "reclaim_ns", "forks", "execs", "exits"):
                counted[name] += getattr(done, name)
        kills = Counter(event.tenant for event in events)
        found = []
        for tenant in sorted((pressed.keys() | counts.keys() | kills.keys()) - {""}):
            of = pressed.get(tenant, Pressed())
            figures: dict[str, Any] = {name: getattr(of, name) for name in PRESSED} | counts[tenant]
            figures["cpu_ns"] = of.cpu_ns if of.cpu_ns is not None else cpu_ns[tenant]
            figures["oom_kills"] = max(of.oom_kills, kills[tenant])
            found.append(TenantUse(tenant, **figures))
        return tuple(found)

    def _retransmits(
        self, raw: Collection[RawRetransmits], watched: Collection[int]
    ) -> Mapping[int, Mapping[int, int]]:
        """Returns retransmitted segments by process and address family."""
        found: defaultdict[int, Counter[int]] = defaultdict(Counter)
        pending = [*self._unowned, *raw]
        owners = self._sockets.look({retransmits.inode for retransmits in pending}, watched)
        for retransmits in pending:
            if retransmits.inode in owners:
                found[owners[retransmits.inode]][retransmits.family] += retransmits.segments
        wanted = self._sockets.wanted
        self._unowned = [retransmits for retransmits in pending if retransmits.inode in wanted]
        return found

    def _event(self, victim: RawVictim, wall: float, clock: float) -> Event:
        name = victim.name or self._names.known(victim.pid)
        owner = self._owners.of(victim.pid, victim.cgroup_id)
        process = name or owner.process
        return Event(
            time=wall - max(clock - victim.time_ns / 1e9, 0.0),
            kind="oom_kill",
            tenant=owner.tenant,
            pid=victim.pid,
            process=process,
            text=f"{process} ({victim.pid}) was killed for lack of memory",
        )

    def _rank(self, rank: RawRank) -> Rank:
        owner = self._owners.of(rank.tgid, rank.cgroup_id)
        figures = rank._asdict()
        del figures["tgid"], figures["cgroup_id"]
        return Rank(
            **figures | {"communicator": f"{rank.communicator:016x}"},
            tenant=owner.tenant,
            pid=owner.pid,
            process=owner.process,
        )


def _sleepers(waits: Iterable[RawWait]) -> list[int]:
    """Returns the processes that slept longest between their calls. Such a process may sleep until a child
    has finished a task."""
    slept = Counter[int]()
    for wait in waits:
        if wait.part == _SLEEP and wait.operation & (NESTED - 1) == HOST_GAP:
            slept[wait.tgid] += wait.ns
    return [pid for pid, ns in slept.most_common(MOST_SLEEPERS) if ns >= LEAST_SLEPT_NS]


def _unknown_activity(raw: RawActivities, told: ReportedActivity) -> tuple[str, ...]:
    lines = [
        f"overlaps of {tenants} tenants of GPU {device}: only the {MOST_TENANTS} most active are listed"
        for device, tenants in told.left_out.items()
    ]
    if raw.late_ns:
        lines.append(f"activity on devices for {raw.late_ns / 1e9:.1f} s: it was sampled too late")
    return tuple(lines)


def _process_uses(
    owners: Mapping[int, Owner],
    links: Mapping[int, int],
    uses: Mapping[int, Use],
    held: Iterable[RawHeld],
    retransmits: Mapping[int, Mapping[int, int]],
) -> tuple[ProcessUse, ...]:
    memory = _held_by_process(held)
    nothing = Counter[int]()
    found = []
    for pid, owner in owners.items():
        figures: dict[str, Any] = dict(memory[pid]) | (uses[pid]._asdict() if pid in uses else {})
        figures["retransmits_v4"] = retransmits.get(pid, nothing)[4]
        figures["retransmits_v6"] = retransmits.get(pid, nothing)[6]
        figures["link"] = links.get(pid, NOT_FOLLOWED)
        found.append(ProcessUse(tenant=owner.tenant, pid=pid, process=owner.process, **figures))
    return tuple(found)


def _held_by_process(held: Iterable[RawHeld]) -> defaultdict[int, Counter[str]]:
    """Returns, for each process, the sums of the fields of ProcessUse that ``held`` provides. A process that
    executed another program since the previous read has several records in ``held``."""
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for raw in held:
        figures = raw._asdict()
        del figures["tgid"], figures["cgroup_id"]
        found[raw.tgid].update(figures)
    return found
