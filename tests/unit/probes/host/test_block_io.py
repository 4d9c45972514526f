"""Tests that block I/O gets owners, device names, and the time for which an I/O limit held it back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stalltop.probes.host.block_io import MOST_DEVICES, MOST_PROCESSES, WRITEBACK, BlockIoNames
from stalltop.probes.host.cgroup_files import IoLimit
from stalltop.probes.host.cgroup_pressure import Pressed, Pressures
from stalltop.probes.host.events import RawBlockIo
from stalltop.probes.tenants.owners import Owners
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import Tenants

DISK = 4095 << 20 | 5
"""Device 4095:5, which no host has, so that stalltop shows the number instead of a name."""
S = 1_000_000_000
OWN_CGROUP = 77
A = 6_000_000
B = 5_000_000
"""``A`` and ``B`` are above any PID that the Linux kernel assigns."""


class OneTenantPressures(Pressures):
    """Stands for the cgroup reader of a host with one cgroup, ``OWN_CGROUP``, which belongs to tenant
    ``a``."""

    block_is_unified = False

    def __init__(self) -> None:
        pass

    def tenant_of_block_cgroup(self, inode: int) -> str | None:
        return "a" if inode == OWN_CGROUP else None


class TwoTenantOwners(Owners):
    """Finds owners by PID: PIDs from ``A`` on belong to tenant ``a``, smaller ones to ``b``."""

    def __init__(self) -> None:
        super().__init__(Tenants(Path("/nowhere")), ProcessNames())

    def _tenant(self, pid: int, cgroup_id: int) -> str:
        return "a" if pid >= A else "b"


@pytest.fixture
def names() -> BlockIoNames:
    owners = TwoTenantOwners()
    owners.begin(())
    return BlockIoNames(owners, OneTenantPressures())


def raw(
    tgid: int, *, cgroup_id: int = 5, write: bool = False, idle_ns: int = 0, size: int = 4096
) -> RawBlockIo:
    return RawBlockIo(tgid, cgroup_id, DISK, write, 2, size, 10, 100, 60, idle_ns)


def test_a_process_has_separate_records_for_reads_and_writes(names: BlockIoNames) -> None:
    found = names.records([raw(B), raw(B, write=True), raw(B + 1)], {})
    assert {(io.pid, io.write, io.device, io.tenant) for io in found} == {
        (B, False, "4095:5", "b"),
        (B, True, "4095:5", "b"),
        (B + 1, False, "4095:5", "b"),
    }
    assert {io.process for io in found} == {"pid 5000000", "pid 5000001"}


def test_records_of_a_process_in_several_cgroups_add_up(names: BlockIoNames) -> None:
    (io,) = names.records([raw(A, cgroup_id=1), raw(A, cgroup_id=2)], {})
    assert (io.requests, io.bytes, io.queued_ns, io.service_ns, io.max_ns) == (4, 8192, 20, 200, 60)


def test_writeback_without_an_owner_belongs_to_the_host(names: BlockIoNames) -> None:
    (io,) = names.records([raw(0, cgroup_id=0, write=True)], {})
    assert (io.tenant, io.pid, io.process) == ("", 0, WRITEBACK)


def test_writeback_of_a_tenant_is_not_held_by_its_read_limit(names: BlockIoNames) -> None:
    (io,) = names.records([raw(0, cgroup_id=OWN_CGROUP, write=True, idle_ns=S)], {"a": Pressed()})
    assert (io.tenant, io.pid, io.process, io.queued_ns) == ("a", 0, WRITEBACK, 10)


@pytest.mark.parametrize(
    ("idle_ns", "held_ns"),
    [(S, S), (9 * S, 2 * S)],
    ids=["all the time", "at most the time that the limit needs for these bytes"],
)
def test_time_held_by_a_limit_goes_to_the_only_process(
    names: BlockIoNames, idle_ns: int, held_ns: int
) -> None:
    pressed = {"a": Pressed(io_limits={(DISK, False): IoLimit(4096, None, "/a")})}
    (io,) = names.records([raw(A), raw(0, cgroup_id=OWN_CGROUP, idle_ns=idle_ns)], pressed)
    assert (io.tenant, io.pid, io.requests, io.bytes) == ("a", A, 4, 8192)
    assert io.queued_ns == 20 + held_ns
    assert io.service_ns == 200
    assert io.max_ns == held_ns // 2


def test_time_held_by_a_limit_goes_to_the_tenant_if_it_has_several_processes(names: BlockIoNames) -> None:
    pressed = {"a": Pressed(io_limits={(DISK, False): IoLimit(4096, None, "/a")})}
    found = names.records([raw(A), raw(A + 1), raw(0, cgroup_id=OWN_CGROUP, idle_ns=S)], pressed)
    assert {io.pid: io.queued_ns for io in found} == {A: 10, A + 1: 10, 0: S + 10}
    assert {io.tenant for io in found} == {"a"}


def test_a_write_limit_holds_no_reads(names: BlockIoNames) -> None:
    pressed = {"a": Pressed(io_limits={(DISK, True): IoLimit(4096, None, "/a")})}
    found = names.records([raw(0, cgroup_id=OWN_CGROUP, idle_ns=S)], pressed)
    assert [io.queued_ns for io in found] == [10]


def test_the_smallest_of_very_many_processes_are_grouped(names: BlockIoNames) -> None:
    many = [raw(B + place) for place in range(MOST_PROCESSES + 3)]
    found = names.records(many, {})
    assert len(found) == MOST_PROCESSES + 1
    (rest,) = (io for io in found if not io.pid)
    assert (rest.tenant, rest.requests) == ("", 6)
    assert sum(io.requests for io in found) == 2 * len(many)


def test_a_real_disk_has_its_name(names: BlockIoNames) -> None:
    for entry in os.scandir("/sys/dev/block"):
        major, minor = map(int, entry.name.split(":"))
        (io,) = names.records([raw(A)._replace(device=major << 20 | minor)], {})
        assert Path(f"/sys/class/block/{io.device}").exists()


def test_the_cache_of_device_names_is_bounded(names: BlockIoNames) -> None:
    for minor in range(MOST_DEVICES + 5):
        names.records([raw(B)._replace(device=4095 << 20 | minor)], {})
    assert len(names._devices) <= MOST_DEVICES
