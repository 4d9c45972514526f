"""Block I/O with names: whose it is, which device, and how long a limit held it."""

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
"""No host has this device: its number is its name."""
S = 1_000_000_000
OWN_CGROUP = 77
A = 6_000_000
B = 5_000_000
"""Numbers of processes: above all that the kernel gives."""


class OfOne(Pressures):
    """Cgroups of one tenant, called ``a``."""

    block_is_unified = False

    def __init__(self) -> None:
        pass

    def tenant_of_block_cgroup(self, inode: int) -> str | None:
        return "a" if inode == OWN_CGROUP else None


class Named(Owners):
    """Processes are called by their numbers, which no process has; from ``A`` on they are of tenant ``a``."""

    def __init__(self) -> None:
        super().__init__(Tenants(Path("/nowhere")), ProcessNames())

    def _tenant(self, pid: int, cgroup_id: int) -> str:
        return "a" if pid >= A else "b"


@pytest.fixture
def names() -> BlockIoNames:
    owners = Named()
    owners.begin(())
    return BlockIoNames(owners, OfOne())


def raw(
    tgid: int, *, cgroup_id: int = 5, write: bool = False, idle_ns: int = 0, size: int = 4096
) -> RawBlockIo:
    return RawBlockIo(tgid, cgroup_id, DISK, write, 2, size, 10, 100, 60, idle_ns)


def test_each_process_has_a_record_for_each_way(names: BlockIoNames) -> None:
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


def test_what_is_written_back_for_nobody_is_the_host_s(names: BlockIoNames) -> None:
    (io,) = names.records([raw(0, cgroup_id=0, write=True)], {})
    assert (io.tenant, io.pid, io.process) == ("", 0, WRITEBACK)


def test_what_is_written_back_for_a_tenant_waits_for_no_limit(names: BlockIoNames) -> None:
    (io,) = names.records([raw(0, cgroup_id=OWN_CGROUP, write=True, idle_ns=S)], {"a": Pressed()})
    assert (io.tenant, io.pid, io.process, io.queued_ns) == ("a", 0, WRITEBACK, 10)


@pytest.mark.parametrize(
    ("idle_ns", "held_ns"),
    [(S, S), (9 * S, 2 * S)],
    ids=["all the time", "no longer than the limit takes for what was moved"],
)
def test_what_a_limit_held_is_the_only_user_s(names: BlockIoNames, idle_ns: int, held_ns: int) -> None:
    pressed = {"a": Pressed(io_limits={(DISK, False): IoLimit(4096, None, "/a")})}
    (io,) = names.records([raw(A), raw(0, cgroup_id=OWN_CGROUP, idle_ns=idle_ns)], pressed)
    assert (io.tenant, io.pid, io.requests, io.bytes) == ("a", A, 4, 8192)
    assert io.queued_ns == 20 + held_ns
    assert io.service_ns == 200
    assert io.max_ns == held_ns // 2


def test_what_a_limit_held_of_several_users_is_the_tenant_s(names: BlockIoNames) -> None:
    pressed = {"a": Pressed(io_limits={(DISK, False): IoLimit(4096, None, "/a")})}
    found = names.records([raw(A), raw(A + 1), raw(0, cgroup_id=OWN_CGROUP, idle_ns=S)], pressed)
    assert {io.pid: io.queued_ns for io in found} == {A: 10, A + 1: 10, 0: S + 10}
    assert {io.tenant for io in found} == {"a"}


def test_a_limit_for_writes_holds_no_reads(names: BlockIoNames) -> None:
    pressed = {"a": Pressed(io_limits={(DISK, True): IoLimit(4096, None, "/a")})}
    found = names.records([raw(0, cgroup_id=OWN_CGROUP, idle_ns=S)], pressed)
    assert [io.queued_ns for io in found] == [10]


def test_of_very_many_users_the_smallest_are_told_together(names: BlockIoNames) -> None:
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


def test_names_of_devices_do_not_pile_up(names: BlockIoNames) -> None:
    for minor in range(MOST_DEVICES + 5):
        names.records([raw(B)._replace(device=4095 << 20 | minor)], {})
    assert len(names._devices) <= MOST_DEVICES
