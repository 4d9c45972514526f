"""Tests that the device memory counted for a process stays exact with several threads, failed calls, ended
processes and reused addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.latencies import Latency
from stalltop.probes import layout
from stalltop.probes.maps.allocations import PIECE_BYTES
from stalltop.probes.maps.raw import RawHeld
from stalltop.probes.operations import DRIVER, RUNTIME
from stalltop.probes.programs.bpf_calls import look_at_all
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child, compile_library
from tests.kernel.harness import Workplace, probe

pytestmark = pytest.mark.beside

MIB = 1 << 20


@pytest.fixture(scope="module")
def kernel(built: Built) -> Iterator[KernelSide]:
    side = KernelSide(slots=512, threads=256)
    probe(side, built.cudart, RUNTIME)
    probe(side, built.cuda, DRIVER)
    yield side
    side.close()


def of(kernel: KernelSide, pid: int) -> tuple[int, ...]:
    """Return the figures of device memory of the process ``pid``.

    They are allocations, frees, bytes allocated and bytes freed since the previous read, then the allocations
    and bytes that the process holds now; six zeros if nothing is known.
    """
    rows = [tuple(row[2:]) for row in kernel.evidence.held() if row.tgid == pid]
    assert len(rows) <= 1
    return rows[0] if rows else (0,) * 6


def pieces(kernel: KernelSide) -> int:
    """Return the number of allocations that the BPF programs track because they were not freed yet."""
    keys, _ = look_at_all(kernel._programs.pieces, layout.PIECE, PIECE_BYTES)
    return len(keys)


@pytest.mark.parametrize(
    ("allocate", "size", "bytes_each", "free"),
    [
        ("cudaMalloc", "1048576", MIB, "cudaFree"),
        ("cudaMallocAsync", "4096", 4096, "cudaFreeAsync"),
        ("cudaMallocAsync_ptsz", "4096", 4096, "cudaFreeAsync_ptsz"),
        ("cudaMallocFromPoolAsync", "512", 512, "cudaFreeAsync"),
        ("cudaMallocManaged", "77", 77, "cudaFree"),
        ("cudaMallocPitch", "640x480", 640 * 480, "cudaFree"),
        ("cuMemAlloc_v2", "5000000000", 5_000_000_000, "cuMemFree_v2"),
        ("cuMemAllocAsync_ptsz", "1", 1, "cuMemFreeAsync_ptsz"),
        ("cuMemAllocPitch_v2", "100x7", 700, "cuMemFree_v2"),
        ("cuMemCreate", "2097152", 2 * MIB, "cuMemRelease"),
        ("cuMemAlloc_v2", "64", 64, "cudaFree"),  # one layer may free what another allocated
    ],
)
def test_memory_is_held_from_its_allocation_until_it_is_freed(
    kernel: KernelSide, workplace: Workplace, allocate: str, size: str, bytes_each: int, free: str
) -> None:
    caller = workplace.caller()
    caller.run(f"{allocate}:5:{size}")
    assert of(kernel, caller.pid) == (5, 0, 5 * bytes_each, 0, 5, 5 * bytes_each)
    caller.run(f"{free}:3")
    assert of(kernel, caller.pid) == (0, 3, 0, 3 * bytes_each, 2, 2 * bytes_each)
    assert of(kernel, caller.pid) == (0, 0, 0, 0, 2, 2 * bytes_each)
    caller.run(f"{free}:2")
    assert of(kernel, caller.pid) == (0, 2, 0, 2 * bytes_each, 0, 0)
    assert of(kernel, caller.pid) == (0,) * 6
    assert not kernel.losses()["no_allocation"]


def test_memory_of_the_host_and_null_pointers_are_not_counted(
    kernel: KernelSide, workplace: Workplace
) -> None:
    caller = workplace.caller()
    caller.run("cudaMallocHost:3:4096 cudaHostAlloc:3:4096 cuMemHostAlloc:3:4096 cudaFree:9 cuMemMap:2:4096")
    assert of(kernel, caller.pid) == (0,) * 6


def test_failed_calls_change_no_allocations(kernel: KernelSide, workplace: Workplace) -> None:
    caller = workplace.caller(latencies={"cudaMalloc": Latency(error_share=1.0, error_code=2)})
    caller.run("cudaMalloc:10:1024")
    assert of(kernel, caller.pid) == (0,) * 6
    caller = workplace.caller(latencies={"cudaFree": Latency(error_share=1.0, error_code=700)})
    caller.run("cudaMalloc:10:1024 cudaFree:4")
    assert of(kernel, caller.pid) == (10, 0, 10_240, 0, 10, 10_240)
    caller.run("cuMemFree_v2:4")  # memory that cudaFree failed to free is still known
    assert of(kernel, caller.pid) == (0, 4, 0, 4096, 6, 6144)


def test_memory_may_be_freed_by_another_thread(kernel: KernelSide, workplace: Workplace) -> None:
    caller = workplace.caller()
    threads, cycles = 8, 1000
    caller.run(
        "cudaMalloc:3:1000 cudaFree cuMemAlloc_v2:1:24 cudaFree:2",
        threads=threads,
        cycles=cycles,
        timed=False,
    )
    n = threads * cycles
    allocations, frees, allocated, freed, held, held_bytes = of(kernel, caller.pid)
    assert (allocations, frees, held) == (4 * n, 3 * n, n)
    assert allocated == 3024 * n
    assert allocated - freed == held_bytes
    caller.run(f"cudaFree:{n}", timed=False)
    assert of(kernel, caller.pid) == (0, n, 0, held_bytes, 0, 0)


def test_processes_and_cgroups_are_counted_separately(kernel: KernelSide, workplace: Workplace) -> None:
    groups = [workplace.cgroup(), workplace.cgroup()]
    callers = [workplace.caller(cgroup=group) for group in groups]
    for caller, count in zip(callers, (2, 3), strict=True):
        caller.run(f"cudaMalloc:{count}:100")  # both processes get the same addresses
    found = {row.tgid: row for row in kernel.evidence.held()}
    for caller, group, count in zip(callers, groups, (2, 3), strict=True):
        expected = RawHeld(caller.pid, group.stat().st_ino, count, 0, 100 * count, 0, count, 100 * count)
        assert found[caller.pid] == expected


def test_freeing_memory_older_than_the_probes_counts_no_bytes(kernel: KernelSide, built: Built) -> None:
    with Child() as child:
        child.load(built.cudart)
        child.call(built.cudart, "cudaFree", 3, 0x1234000)
        assert of(kernel, child.pid) == (0, 3, 0, 0, 0, 0)
        assert child.pid in kernel.evidence.tgids()


def test_an_address_that_is_allocated_again_counts_as_freed_before(tmp_path: Path) -> None:
    # The memory was freed in a way that no probe sees, such as together with its context.
    source = "int cudaMalloc(void **to, unsigned long bytes) { *to = (void *)0x7000; return bytes == 0; }"
    library = compile_library(source, tmp_path / "libcudart.so.12")
    kernel = KernelSide(slots=64, threads=16)
    try:
        probe(kernel, library, RUNTIME)
        program = f"""
import ctypes
malloc = ctypes.CDLL({str(library)!r}).cudaMalloc
for size in (100, 250, 7):
    malloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size))
"""
        with Child() as child:
            child.do("run", program)
            assert of(kernel, child.pid) == (3, 0, 357, 350, 1, 7)
    finally:
        kernel.close()


def test_memory_of_an_ended_process_is_forgotten(kernel: KernelSide, workplace: Workplace) -> None:
    known = pieces(kernel)
    caller = workplace.caller()
    caller.run("cudaMalloc:500:4096")
    assert pieces(kernel) == known + 500
    assert caller.pid in kernel.evidence.tgids()
    caller.kill()
    kernel.release(caller.pid)
    assert of(kernel, caller.pid) == (500, 0, 500 * 4096, 0, 0, 0)  # the counts until the process ended
    assert of(kernel, caller.pid) == (0,) * 6
    assert pieces(kernel) == known
    assert caller.pid not in kernel.evidence.tgids()


@pytest.mark.parametrize("command", ["exec", "exec-thread"])
def test_after_exec_a_process_holds_nothing_of_its_earlier_program(
    kernel: KernelSide, workplace: Workplace, command: str
) -> None:
    caller = workplace.caller()
    known = pieces(kernel)
    caller.run("cudaMalloc:20:4096")
    caller.do(command)
    caller.run("cudaMalloc:3:10")
    rows = sorted(tuple(row[2:]) for row in kernel.evidence.held() if row.tgid == caller.pid)
    assert rows == [(3, 0, 30, 0, 3, 30), (20, 0, 81_920, 0, 0, 0)]
    assert of(kernel, caller.pid) == (0, 0, 0, 0, 3, 30)
    assert pieces(kernel) == known + 3


def test_pieces_beyond_the_limit_are_counted_as_lost(kernel: KernelSide, workplace: Workplace) -> None:
    kernel.losses()
    caller = workplace.caller()
    asked = layout.ALLOCATIONS // 2 + 1000  # a process gets half of them
    caller.run(f"cuMemAlloc_v2:{asked}:8", timed=False)
    allocations, _, allocated, _, held, held_bytes = of(kernel, caller.pid)
    lost = kernel.losses()["no_allocation"]
    assert lost >= 1000
    assert (allocations, allocated) == (asked, 8 * asked)
    assert (held, held_bytes) == (asked - lost, 8 * (asked - lost))
    caller.run(f"cuMemFree_v2:{asked}", timed=False)
    assert of(kernel, caller.pid) == (0, asked, 0, held_bytes, 0, 0)
