"""Tests which processes are scanned for libraries, and how their memory maps are read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from stalltop.probes import process_maps
from stalltop.probes.libraries import processes
from stalltop.probes.libraries.mmap_watch import Changes, Mapped, MmapWatch
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.process_maps import LINKED_LAYERS, Kind, libraries_of, library_layers, program_of
from stalltop.probes.programs.online_cpus import online_cpus
from stalltop.probes.tenants.cgroups import Membership


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("libcuda.so", ("driver",)),
        ("libcuda.so.1", ("driver",)),
        ("libcuda.so.535.309.01", ("driver",)),
        ("libcuda.so.1.1", ("driver",)),
        ("libcudart.so.11.0", ("runtime",)),
        ("libcudart.so.12.4.127", ("runtime",)),
        ("libcudart-d0da41ae.so.11.0", ("runtime",)),
        ("libnccl.so.2", ("nccl",)),
        ("libnccl-9f1b2c3d.so.2.21.5", ("nccl",)),
        ("libtorch_cuda.so", ("nccl", "runtime")),
        ("libtorch_cuda_cu.so", ("nccl", "runtime")),
        ("libcudadebugger.so.1", ()),
        ("libcudart_static.a", ()),
        ("libcuda.so.1.bak", ()),
        ("libnccl-net.so", ()),
        ("libnccl-tuner.so", ()),
        ("libtorch_cpu.so", ()),
        ("xlibcuda.so", ()),
        ("libcudnn.so.9", ()),
        ("", ()),
    ],
)
def test_the_name_of_a_library_gives_its_layers(name: str, layers: tuple[str, ...]) -> None:
    assert library_layers(name.encode()) == layers


MAPS = b"""\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 7 /app/train
55d0c0001000-55d0c0009000 r-xp 00001000 08:01 7 /app/train
7f0000000000-7f0000100000 r--p 00000000 00:2f 4242 /usr/lib/libcudart.so.12.4.127
7f0000100000-7f0000200000 r-xp 00100000 00:2f 4242                 /usr/lib/libcudart.so.12.4.127
7f0001000000-7f0001200000 r-xp 00020000 fd:00 99   /opt/with blank/libcuda.so.1 (deleted)
7f0002000000-7f0002100000 r-xp 00000000 08:01 5 /lib/libcudart.so.12/libother.so
7f0003000000-7f0003100000 r--p 00000000 08:01 6 /lib/libnccl.so.2
7f0004000000-7f0004100000 rwxs 00003000 08:01 8 /a\\012b/libnccl.so.2
7f0005000000-7f0005100000 r-xp 00000000 00:01 9 /memfd:libcudart.so.12 (deleted)
7f0006000000-7f0006100000 rwxp 00000000 00:00 0
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                    [vdso]
"""


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_maps, "_read", lambda thread: iter([MAPS]))


@pytest.mark.usefixtures("maps")
def test_executable_mappings_of_libraries_are_found() -> None:
    found = libraries_of(1)
    assert [(mapping.path, mapping.layers, mapping.deleted, mapping.offset) for mapping in found] == [
        ("/usr/lib/libcudart.so.12.4.127", ("runtime",), False, 0x100000),
        ("/opt/with blank/libcuda.so.1", ("driver",), True, 0x20000),
        ("/a\\012b/libnccl.so.2", ("nccl",), False, 0x3000),
    ]
    runtime = found[0]
    assert (runtime.start, runtime.end) == (0x7F0000100000, 0x7F0000200000)
    assert runtime.kind is Kind.LIBRARY
    assert (runtime.device, runtime.inode) == (os.makedev(0, 0x2F), 4242)
    assert runtime.address(0x100010) == 0x7F0000100010
    assert runtime.address(0xFFFFF) is None
    assert runtime.address(0x200000) is None


@pytest.mark.usefixtures("maps")
@pytest.mark.parametrize("link", ["/app/train", "/app/train (deleted)"])
def test_executable_mappings_of_the_program_are_found(monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    monkeypatch.setattr(os, "readlink", lambda path: link)
    mapping = program_of(1)
    assert mapping is not None
    assert (mapping.path, mapping.offset, mapping.layers) == ("/app/train", 0x1000, LINKED_LAYERS)
    assert mapping.kind is Kind.PROGRAM


def test_a_process_without_cuda_has_a_program_and_no_libraries() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b".")
        assert process.stdout.read(1) == b"."  # cat runs, so all its parts are mapped
        assert libraries_of(process.pid) == []
        program = os.path.realpath(f"/proc/{process.pid}/exe")
        mapping = program_of(process.pid)
        assert mapping is not None
        assert os.path.realpath(mapping.path) == program
        process.stdin.close()


def test_an_ended_process_raises_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        libraries_of(2**22 + 1)
    with pytest.raises(OSError, match="No such file"):
        program_of(2**22 + 1)


class FakeWatch:
    """Stands for an MmapWatch and reports the changes set by the test."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.closed = 0

    def map(self, *mapped: tuple[int, str]) -> None:
        self.changes = Changes(tuple(Mapped(pid, name.encode()) for pid, name in mapped))

    @property
    def changed(self) -> bool:
        return self.changes != Changes()

    def read(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes

    def close(self) -> None:
        self.closed += 1


class ScannedHost:
    """Stands for a host whose processes the test sets. Either every scan lists the processes again, or none
    does."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        watched: bool = True,
        within: str = "",
        cgroups: Mapping[int, str] | None = None,
    ) -> None:
        """``cgroups``: by process."""
        paths = {pid: Membership(path, ()) for pid, path in (cgroups or {}).items()}
        monkeypatch.setattr(processes, "membership", paths.get)
        self.pids: set[int] = set()
        self.patch = monkeypatch
        monkeypatch.setattr(processes, "pids", lambda: set(self.pids))
        self.watch = FakeWatch()
        make = cast("type[MmapWatch]", lambda: self.watch) if watched else None
        self.processes = Processes(make, within)
        self.list_always(True)

    def list_always(self, always: bool) -> None:
        self.patch.setattr(processes, "LIST_SECONDS", 0.0 if always else 1e9)

    def to_read(self, present: Iterable[int]) -> tuple[set[int], set[int], set[int]]:
        self.pids = set(present)
        to_read = self.processes.to_read()
        return to_read.libraries, to_read.programs, to_read.gone


def test_all_processes_are_scanned_once_then_only_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScannedHost(monkeypatch)
    assert host.to_read([1, 2]) == ({1, 2}, {1, 2}, set())
    assert host.to_read([1, 2]) == (set(), set(), set())
    assert host.to_read([2, 3]) == ({3}, {3}, {1})


def test_processes_with_new_mappings_are_scanned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScannedHost(monkeypatch)
    host.to_read([1, 2, 3])
    host.list_always(False)
    host.watch.map(
        (1, "/usr/lib/libcudart.so.12"), (2, "/bin/train"), (3, "/lib/libc.so.6"), (3, "/lib/x.so"), (1, "")
    )
    assert host.to_read([1, 2, 3]) == ({1}, {2}, set())
    assert host.to_read([1, 2, 3]) == (set(), set(), set())


def test_processes_that_mapped_any_code_are_remapped(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScannedHost(monkeypatch)
    host.watch.map((1, "/usr/lib/libcudart.so.12"), (3, "/lib/libc.so.6"), (4, ""))
    assert host.processes.to_read().remapped == {1, 3, 4}
    assert host.processes.to_read().remapped == set()
    host.watch.changes = Changes(lost=True)
    assert host.processes.to_read().remapped is None
    assert ScannedHost(monkeypatch, watched=False).processes.to_read().remapped is None


def test_processes_outside_of_the_cgroup_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = {1: "/host-1", 2: "/host-1/system.slice/docker-7.scope"}
    outside = {3: "/host-10/docker-8.scope", 4: "/", 5: "/x/host-1"}
    host = ScannedHost(monkeypatch, within="/host-1", cgroups=inside | outside)
    assert host.to_read(range(1, 7)) == ({1, 2}, {1, 2}, set())
    host.watch.map(*((pid, "/usr/lib/libcudart.so.12") for pid in range(1, 7)))
    to_read = host.processes.to_read()
    assert to_read.libraries == {1, 2}
    assert {mapped.pid for mapped in to_read.mapped} == {1, 2}
    assert host.to_read([2]) == (set(), set(), {1, 3, 4, 5, 6})


def test_a_process_that_moves_into_the_cgroup_is_read_when_it_maps_a_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = ScannedHost(monkeypatch, within="/host-1")
    assert host.to_read([1]) == (set(), set(), set())
    monkeypatch.setattr(processes, "membership", lambda pid: Membership("/host-1/a", ()))
    host.watch.map((1, "/usr/lib/libcudart.so.12"))
    assert host.to_read([1]) == ({1}, set(), set())


def test_a_scan_is_due_at_once_after_a_new_mapping_and_otherwise_when_processes_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = ScannedHost(monkeypatch)
    assert host.processes.due
    host.to_read([1])
    assert host.processes.due
    host.list_always(False)
    assert not host.processes.due
    host.watch.map((1, "/usr/lib/libcudart.so.12"))
    assert host.processes.due
    host.to_read([1])
    assert not host.processes.due


def test_a_process_that_ends_before_it_is_listed_is_reported_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScannedHost(monkeypatch)
    host.to_read([1])
    host.list_always(False)
    host.watch.map((7, "/usr/lib/libcudart.so.12"), (8, "/bin/true"))
    assert host.to_read([1]) == ({7}, {8}, set())
    host.list_always(True)
    assert host.to_read([1]) == (set(), set(), {7, 8})
    assert host.to_read([1]) == (set(), set(), set())


def test_all_processes_are_scanned_again_after_lost_events(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScannedHost(monkeypatch)
    host.to_read([1, 2])
    host.list_always(False)
    host.watch.changes = Changes(lost=True)
    # Processes are scanned only when they are listed again. Otherwise, on a host that loses events all the
    # time, each update would scan every process.
    assert host.to_read([1, 2]) == (set(), set(), set())
    host.list_always(True)
    assert host.to_read([1, 2]) == ({1, 2}, {1, 2}, set())
    assert host.to_read([1, 2]) == (set(), set(), set())


def test_all_processes_are_scanned_each_time_without_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScannedHost(monkeypatch, watched=False)
    assert not host.processes.watching
    assert host.to_read([1, 2]) == ({1, 2}, {1, 2}, set())
    assert host.to_read([1, 2]) == ({1, 2}, {1, 2}, set())


def test_all_processes_are_scanned_if_a_watch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> MmapWatch:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(processes, "pids", lambda: {5})
    refused = Processes(refuse)
    assert not refused.watching
    assert refused.to_read().libraries == {5}
    refused.close()


def test_the_watch_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScannedHost(monkeypatch)
    host.processes.close()
    host.processes.close()
    assert host.watch.closed == 1


def test_online_cpus_include_those_of_this_process() -> None:
    assert set(os.sched_getaffinity(0)) <= set(online_cpus())
