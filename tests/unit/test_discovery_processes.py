"""Which processes are looked at, and what is read out of their maps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from typing import cast

import pytest

from stalltop.probes import process_maps
from stalltop.probes.libraries import processes
from stalltop.probes.libraries.mmap_watch import Changes, Mapped, MmapWatch, online_cpus
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.process_maps import LAYERS_OF_EXECUTABLE, libraries_of, library_layers, program_of


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
def test_names_of_libraries(name: str, layers: tuple[str, ...]) -> None:
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
    monkeypatch.setattr(process_maps, "_read", lambda thread: MAPS)


@pytest.mark.usefixtures("maps")
def test_executable_parts_of_libraries() -> None:
    found = libraries_of(1)
    assert [(mapping.path, mapping.layers, mapping.deleted, mapping.offset) for mapping in found] == [
        ("/usr/lib/libcudart.so.12.4.127", ("runtime",), False, 0x100000),
        ("/opt/with blank/libcuda.so.1", ("driver",), True, 0x20000),
        ("/a\\012b/libnccl.so.2", ("nccl",), False, 0x3000),
    ]
    runtime = found[0]
    assert (runtime.start, runtime.end) == (0x7F0000100000, 0x7F0000200000)
    assert runtime.library
    assert runtime.address(0x100010) == 0x7F0000100010
    assert runtime.address(0xFFFFF) is None
    assert runtime.address(0x200000) is None


@pytest.mark.usefixtures("maps")
@pytest.mark.parametrize("link", ["/app/train", "/app/train (deleted)"])
def test_executable_parts_of_the_program(monkeypatch: pytest.MonkeyPatch, link: str) -> None:
    monkeypatch.setattr(os, "readlink", lambda path: link)
    (mapping,) = program_of(1)
    assert (mapping.path, mapping.offset, mapping.layers) == ("/app/train", 0x1000, LAYERS_OF_EXECUTABLE)
    assert not mapping.library


def test_a_process_without_cuda_has_a_program_and_no_libraries() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b".")
        assert process.stdout.read(1) == b"."  # it runs: before, parts of it may not be mapped yet
        assert libraries_of(process.pid) == []
        program = os.path.realpath(f"/proc/{process.pid}/exe")
        assert {os.path.realpath(mapping.path) for mapping in program_of(process.pid)} == {program}
        process.stdin.close()


def test_a_process_that_is_gone() -> None:
    with pytest.raises(OSError, match="No such file"):
        libraries_of(2**22 + 1)
    with pytest.raises(OSError, match="No such file"):
        program_of(2**22 + 1)


class Told:
    """A watch that tells what the test says."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.closed = 0

    def map(self, *mapped: tuple[int, str]) -> None:
        self.changes = Changes(tuple(Mapped(pid, name.encode()) for pid, name in mapped))

    def read(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes

    def close(self) -> None:
        self.closed += 1


class Host:
    """Processes as a test says, listed at every look or at none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, watched: bool = True) -> None:
        self.pids: set[int] = set()
        self.patch = monkeypatch
        monkeypatch.setattr(processes, "pids", lambda: set(self.pids))
        self.watch = Told()
        make = cast("type[MmapWatch]", lambda: self.watch) if watched else None
        self.processes = Processes(make)
        self.list_always(True)

    def list_always(self, always: bool) -> None:
        self.patch.setattr(processes, "LIST_SECONDS", 0.0 if always else 1e9)

    def looks(self, present: Iterable[int]) -> tuple[set[int], set[int], set[int]]:
        self.pids = set(present)
        looks = self.processes.looks()
        return looks.libraries, looks.programs, looks.gone


def test_all_at_first_then_those_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    assert host.looks([1, 2]) == ({1, 2}, {1, 2}, set())
    assert host.looks([1, 2]) == (set(), set(), set())
    assert host.looks([2, 3]) == ({3}, {3}, {1})


def test_those_that_mapped_something_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.looks([1, 2, 3])
    host.list_always(False)
    host.watch.map(
        (1, "/usr/lib/libcudart.so.12"), (2, "/bin/train"), (3, "/lib/libc.so.6"), (3, "/lib/x.so"), (1, "")
    )
    assert host.looks([1, 2, 3]) == ({1}, {2}, set())
    assert host.looks([1, 2, 3]) == (set(), set(), set())


def test_one_that_ended_before_it_was_listed_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.looks([1])
    host.list_always(False)
    host.watch.map((7, "/usr/lib/libcudart.so.12"), (8, "/bin/true"))
    assert host.looks([1]) == ({7}, {8}, set())
    host.list_always(True)
    assert host.looks([1]) == (set(), set(), {7, 8})
    assert host.looks([1]) == (set(), set(), set())


def test_all_again_where_the_kernel_lost_something(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.looks([1, 2])
    host.list_always(False)
    host.watch.changes = Changes(lost=True)
    # Not more often than processes are listed: a host that loses much should not pay for it at every look.
    assert host.looks([1, 2]) == (set(), set(), set())
    host.list_always(True)
    assert host.looks([1, 2]) == ({1, 2}, {1, 2}, set())
    assert host.looks([1, 2]) == (set(), set(), set())


def test_all_each_time_where_the_kernel_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, watched=False)
    assert not host.processes.watching
    assert host.looks([1, 2]) == ({1, 2}, {1, 2}, set())
    assert host.looks([1, 2]) == ({1, 2}, {1, 2}, set())


def test_a_kernel_that_does_not_allow_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> MmapWatch:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(processes, "pids", lambda: {5})
    refused = Processes(refuse)
    assert not refused.watching
    assert refused.looks().libraries == {5}
    refused.close()


def test_the_watch_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    host.processes.close()
    host.processes.close()
    assert host.watch.closed == 1


def test_cpus_that_are_online() -> None:
    assert set(os.sched_getaffinity(0)) <= set(online_cpus())
