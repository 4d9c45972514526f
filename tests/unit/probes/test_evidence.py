"""Tests how raw figures of the BPF programs become evidence with names, owners, sums and unknowns."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from stalltop.model.devices import activity
from stalltop.model.devices.activity import overlap
from stalltop.model.evidence import HOST_GAP, Evidence
from stalltop.probes import layout
from stalltop.probes.evidence import KERNEL, SEVERAL, EvidenceReader
from stalltop.probes.host.events import NOTHING, HostEvents, RawHostEvents, RawRetransmits, RawUse, RawVictim
from stalltop.probes.maps.activity import TICK_NS
from stalltop.probes.maps.raw import (
    OTHERS,
    RawActivities,
    RawActivity,
    RawCharge,
    RawHeld,
    RawPlaced,
    RawRank,
    RawWait,
    RawWork,
)
from stalltop.probes.operations import FUNCTIONS
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import Tenants

OWN = os.getpid()
LAUNCH = next(function.operation for function in FUNCTIONS if function.symbol == "cuLaunchKernel")
RUNQUEUE, LOCK, SLEEP = 1, 4, 8
MS = 1_000_000


@dataclass
class FakePrograms:
    """Stands for the BPF programs: returns the records that a test sets. Charges are returned only once."""

    charged: list[RawCharge] = field(default_factory=list)
    waited: list[RawWait] = field(default_factory=list)
    linked: dict[int, int] = field(default_factory=dict)
    memory: list[RawHeld] = field(default_factory=list)
    places: list[RawRank] = field(default_factory=list)
    owners: set[int] = field(default_factory=set)
    older: set[int] = field(default_factory=set)
    active: RawActivities = field(default_factory=lambda: RawActivities(0, 0, []))

    def charges(self) -> list[RawCharge]:
        told, self.charged = self.charged, []
        return told

    def waits(self) -> list[RawWait]:
        return self.waited

    def works(self) -> list[RawWork]:
        return []

    def placed(self) -> list[RawPlaced]:
        return [RawPlaced(OWN, 3, 2)]

    def links(self) -> dict[int, int]:
        return self.linked

    def held(self) -> list[RawHeld]:
        return self.memory

    def ranks(self) -> list[RawRank]:
        return self.places

    def activities(self) -> RawActivities:
        return self.active

    def tgids(self) -> set[int]:
        return self.owners

    def unknown_communicators(self) -> set[int]:
        return self.older


class FakeEvents(HostEvents):
    """Returns the host events that a test sets, each only once."""

    def __init__(self) -> None:
        super().__init__(())
        self.next = NOTHING
        self.failing = False

    def read(self) -> RawHostEvents:
        if self.failing:
            raise OSError(5, "Input/output error")
        told, self.next = self.next, NOTHING
        return told


@dataclass
class EvidenceSetup:
    kernel: FakePrograms
    host: FakeEvents
    reader: EvidenceReader

    def read(self) -> Evidence:
        return self.reader.read(self.kernel, [(OWN, 1)], wall=1000.0, clock=50.0)


@pytest.fixture
def reading() -> Iterator[EvidenceSetup]:
    tenants, host = Tenants(), FakeEvents()
    host.begin()
    reader = EvidenceReader(tenants, ProcessNames(), host)
    yield EvidenceSetup(FakePrograms(linked={OWN: 0}), host, reader)
    reader.close()
    tenants.close()


@pytest.fixture
def other() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def test_activity_belongs_to_tenants_on_devices(other: int) -> None:
    labels = {(OWN, 1): "0", (OWN, 2): "1", (other, 1): "0"}
    tenants = Tenants()
    reader = EvidenceReader(tenants, ProcessNames(), FakeEvents(), label=lambda *key: labels.get(key, ""))
    kernel = FakePrograms()
    kernel.active = RawActivities(
        1000,
        1200,
        [
            RawActivity(OWN, 1, 1, 0b1111_0000),
            RawActivity(OWN, 1, 2, 0b1),
            RawActivity(other, 1, 1, 0b0011_1000),
            RawActivity(other, 1, 0, 0b1_0000),
        ],
        late_ns=300 * MS,
    )
    try:
        evidence = reader.read(kernel, [(OWN, 1)], wall=1000.0, clock=50.0)
        mine, theirs = (tenants.find(pid, 1).id for pid in (OWN, other))
    finally:
        reader.close()
        tenants.close()
    assert {(each.device, each.tenant): each.active_ns // TICK_NS for each in evidence.activity} == {
        ("0", mine): 4,
        ("1", mine): 1,
        ("0", theirs): 3,
        ("", theirs): 1,
    }
    assert evidence.overlaps == (overlap("0", mine, theirs, 2 * TICK_NS),)
    assert reader.without_overlaps == 0
    assert "activity on devices for 0.3 s: it was sampled too late" in evidence.unknown


def test_tenants_without_reported_overlaps_are_counted(other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "MOST_TENANTS", 1)
    tenants, kernel = Tenants(), FakePrograms()
    reader = EvidenceReader(tenants, ProcessNames(), FakeEvents(), label=lambda *_: "0")
    kernel.active = RawActivities(1000, 1200, [RawActivity(OWN, 1, 1, 0b111), RawActivity(other, 1, 1, 0b11)])
    try:
        evidence = reader.read(kernel, [(OWN, 1)], wall=1000.0, clock=50.0)
        assert (len(evidence.activity), evidence.overlaps, reader.without_overlaps) == (2, (), 1)
    finally:
        reader.close()
        tenants.close()


def test_charges_get_names(reading: EvidenceSetup, other: int) -> None:
    reading.kernel.charged = [
        RawCharge(OWN, 1, LAUNCH, RUNQUEUE, other, 1, 7 * MS, 3),
        RawCharge(OWN, 1, layout.HOST_GAP, LOCK, 0, 0, 5 * MS, 2),
        RawCharge(OWN, 1, LAUNCH, RUNQUEUE, OTHERS, 0, 2 * MS, 9),
    ]
    evidence = reading.read()
    (own,) = {(charge.tenant, charge.pid, charge.process) for charge in evidence.charges}
    assert own[1] == OWN
    assert own[0] in reading.reader.tenants
    told = {
        (charge.layer, charge.operation, charge.kind, charge.culprit_pid, charge.culprit_process, charge.ns)
        for charge in evidence.charges
    }
    assert told == {
        ("driver", "cuLaunchKernel", "runqueue", other, "sleep", 7 * MS),
        ("host", HOST_GAP, "lock", 0, KERNEL, 5 * MS),
        ("driver", "cuLaunchKernel", "runqueue", 0, SEVERAL, 2 * MS),
    }
    assert {charge.culprit_tenant for charge in evidence.charges if not charge.culprit_pid} == {""}


def test_charges_of_a_process_in_two_cgroups_add_up(reading: EvidenceSetup, other: int) -> None:
    reading.kernel.charged = [
        RawCharge(OWN, cgroup_id, LAUNCH, RUNQUEUE, other, 1, 7 * MS, 3) for cgroup_id in (0, 1)
    ]
    (charge,) = reading.read().charges
    assert (charge.ns, charge.times) == (14 * MS, 6)


def test_culprits_are_watched_for_a_while_and_named_once_more_after_their_end(reading: EvidenceSetup) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        reading.kernel.charged = [RawCharge(OWN, 1, LAUNCH, RUNQUEUE, process.pid, 1, MS, 1)]
        first = {use.pid: use for use in reading.read().processes}
        assert (first[OWN].link, first[process.pid].link) == (0, -1)
        assert first[process.pid].parent_pid == OWN
        assert process.pid in {use.pid for use in reading.read().processes}
        process.kill()
    reading.kernel.charged = [RawCharge(OWN, 1, LAUNCH, RUNQUEUE, process.pid, 1, MS, 1)]
    evidence = reading.read()
    assert [(use.process, use.threads) for use in evidence.processes if use.pid == process.pid] == [
        ("sleep", 0)
    ]
    assert [charge.culprit_process for charge in evidence.charges] == ["sleep"]
    assert {use.pid for use in reading.read().processes} == {OWN}


def test_a_culprit_without_new_charges_is_no_longer_watched(reading: EvidenceSetup, other: int) -> None:
    reading.kernel.charged = [RawCharge(OWN, 1, LAUNCH, RUNQUEUE, other, 1, MS, 1)]
    reading.read()
    for _ in range(10):
        last = reading.read()
    assert {use.pid for use in last.processes} == {OWN}


def test_children_of_a_process_that_sleeps_between_its_calls_are_listed(
    reading: EvidenceSetup, other: int
) -> None:
    slept = RawWait(OWN, OWN, 1, layout.HOST_GAP, SLEEP, layout.How.PLAIN, 0, 0, 0, 100 * MS, 10)
    reading.kernel.waited = [slept]
    assert {use.pid: use.parent_pid for use in reading.read().processes}[other] == OWN
    reading.kernel.waited = [slept._replace(ns=MS)]
    assert other not in {use.pid for use in reading.read().processes}
    reading.kernel.waited = [slept._replace(operation=LAUNCH)]
    assert other not in {use.pid for use in reading.read().processes}


def test_a_linked_process_is_listed_with_its_link(reading: EvidenceSetup, other: int) -> None:
    reading.kernel.linked[other] = 2
    reading.kernel.charged = [RawCharge(OWN, 1, LAUNCH, LOCK, other, 1, MS, 1)]
    assert {use.pid: use.link for use in reading.read().processes} == {OWN: 0, other: 2}


def test_a_process_keeps_its_link_after_its_threads_end(reading: EvidenceSetup, other: int) -> None:
    reading.kernel.linked[other] = 1
    reading.read()
    del reading.kernel.linked[other]
    reading.kernel.owners = {OWN, other}
    assert {use.pid: use.link for use in reading.read().processes} == {OWN: 0, other: 1}


def test_device_memory_of_a_process_in_two_cgroups_adds_up(reading: EvidenceSetup) -> None:
    reading.kernel.memory = [RawHeld(OWN, cgroup_id, 5, 3, 500, 300, 2, 200) for cgroup_id in (1, 2)]
    (use,) = reading.read().processes
    assert (use.allocations, use.frees, use.allocated_bytes, use.freed_bytes) == (10, 6, 1000, 600)
    assert (use.held, use.held_bytes) == (4, 400)
    reading.kernel.memory = []
    assert reading.read().processes[0].held_bytes is None


def test_ranks_get_names(reading: EvidenceSetup) -> None:
    reading.kernel.places = [RawRank(0xABC, OWN, 1, 3, 8, 2, 10, 9, 77, 4, 1, 55, 66, "65:7")]
    (rank,) = reading.read().ranks
    assert (rank.communicator, rank.pid, rank.rank, rank.ranks) == ("0000000000000abc", OWN, 3, 8)
    assert (rank.joined, rank.late_ns, rank.last, rank.behind, rank.since_entry_ns) == (9, 77, 4, 1, 55)
    assert (rank.entered, rank.entries) == (66, "65:7")
    assert rank.tenant in reading.reader.tenants


def test_an_oom_kill_becomes_an_event_with_its_time(reading: EvidenceSetup, other: int) -> None:
    victim = RawVictim(other, "a\x1b[2Jb", 1, int(48.5e9))
    reading.host.next = NOTHING._replace(victims=[victim])
    evidence = reading.read()
    (event,) = evidence.events
    assert (event.time, event.kind, event.pid) == (998.5, "oom_kill", other)
    assert event.text.endswith(f"({other}) was killed for lack of memory")
    assert [use.oom_kills for use in evidence.tenants if use.tenant == event.tenant] == [1]


def test_uses_add_up_for_the_tenant(reading: EvidenceSetup) -> None:
    reading.host.next = NOTHING._replace(
        uses=[RawUse(OWN, 1, 3, 900, 2, 0, 0), RawUse(OWN, 1, 0, 0, 1, 4, 5)],
    )
    evidence = reading.read()
    own = evidence.processes[0].tenant
    (use,) = (use for use in evidence.tenants if use.tenant == own)
    assert (use.reclaims, use.reclaim_ns, use.forks, use.execs, use.exits) == (3, 900, 3, 4, 5)


def test_unknown_short_lived_processes_are_not_looked_up(reading: EvidenceSetup) -> None:
    reading.host.next = NOTHING._replace(
        uses=[RawUse(5_000_000 + place, 1, 0, 0, 1, 1, 1) for place in range(99)]
    )
    evidence = reading.read()
    assert {use.tenant for use in evidence.tenants} == {evidence.processes[0].tenant}


def test_retransmits_belong_to_the_owner_of_the_socket(reading: EvidenceSetup) -> None:
    one, two = socket.socketpair()
    inode = os.fstat(one.fileno()).st_ino
    reading.host.next = NOTHING._replace(
        retransmits=[RawRetransmits(inode, 4, 3), RawRetransmits(inode, 6, 2), RawRetransmits(0, 4, 9)]
    )
    (use,) = reading.read().processes
    assert (use.retransmits_v4, use.retransmits_v6) == (3, 2)
    (use,) = reading.read().processes
    assert (use.retransmits_v4, use.retransmits_v6) == (0, 0)
    one.close()
    two.close()


def test_unknown_evidence_is_reported(reading: EvidenceSetup) -> None:
    assert reading.read().unknown == ()
    reading.kernel.older = {OWN}
    assert reading.read().unknown[0].startswith("collectives of 1 process: ")
    reading.kernel.older = set()
    reading.host.next = NOTHING._replace(dropped=4)
    assert reading.read().unknown[0].startswith("events of the host, such as block I/O and reclaim, 4")
    reading.host.next = NOTHING._replace(forgotten=3)
    assert reading.read().unknown[0].endswith("3 times: too many at once to remember when each began")
    reading.host.failing = True
    assert reading.read().unknown == (
        "events of the host, such as block I/O and OOM kills: Input/output error",
    )
