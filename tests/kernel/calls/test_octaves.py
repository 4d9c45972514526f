"""Tests that histograms take memory only for the durations that occur, that the memory of hundreds of
processes is within its limit, and that calls for which there is no memory are counted as lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stalltop.model.histograms.hdr import HALF
from stalltop.model.window import UNCOUNTED
from stalltop.probes.layout import BLOCK, Pool
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import BYTES_A_SLOT, MonitorOptions
from stalltop.probes.programs import compiled, loading
from stalltop.probes.programs.compiled import possible_cpus
from stalltop.probes.programs.loading import MEMORY
from stalltop.probes.programs.octave_blocks import AHEAD, BLOCK_BYTES
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child, compile_library
from tests.kernel.harness import probe
from tests.kernel.processes.watched import WatchedMonitor
from tests.kernel.traced_program import lost

pytestmark = pytest.mark.beside

PROCESSES = 500
DEVICES = 3
NAMES = [
    *("DeviceSynchronize", "StreamSynchronize", "MallocAsync", "LaunchKernel", "Memcpy", "Memset"),
    *("FreeAsync", "MemcpyAsync", "MemsetAsync", "EventSynchronize", "StreamWaitEvent", "MallocHost"),
    *("Malloc", "Free"),
]
"""14 functions: with the time between calls, each process has 15 rows a device."""

ROWS = PROCESSES * DEVICES * (len(NAMES) + 1)

LIBRARY = (
    "".join(f'int cuda{name}(void) {{ __asm__ volatile(""); return 0; }}\n' for name in NAMES)
    + """
int cudaSetDevice(int device) { __asm__ volatile(""); return 0; }
#include <time.h>
int cudaStreamEndCapture(long ns)
{
    struct timespec time = {.tv_sec = 0, .tv_nsec = ns};
    return nanosleep(&time, 0);
}
"""
)

CROWD = f"""
import ctypes, os, signal
cudart = ctypes.CDLL(path)
ready, told = os.pipe()
for _ in range({{count}}):
    if os.fork():
        continue
    for device in range({DEVICES}):
        cudart.cudaSetDevice(device)
        for name in {NAMES!r}:
            getattr(cudart, "cuda" + name)(None)
            getattr(cudart, "cuda" + name)(None)
    os.write(told, b".")
    signal.pause()
for _ in range({{count}}):
    os.read(ready, 1)
"""
"""Processes that call every function twice on each device, and stay until their group is killed."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(LIBRARY, tmp_path_factory.mktemp("library") / "libcudart.so.12")


@pytest.fixture
def kernel(request: pytest.FixtureRequest, library: Path) -> Iterator[KernelSide]:
    """Make a kernel side with as many slots as the parameter says."""
    kernel = KernelSide(slots=request.param, splits=False)
    probe(kernel, library, "runtime")
    yield kernel
    kernel.close()


def in_use(kernel: KernelSide) -> int:
    """Return how many octaves slots have."""
    programs = kernel._programs
    left = int(programs.left_in[Pool.OCTAVES])
    slots = np.flatnonzero(programs.owners["operation"])
    programs.slots.reach(int(slots.max(initial=0)) + 1)
    taken = int(np.count_nonzero(programs.slots.array["octaves"][slots]))
    assert taken == programs.pools.sizes[Pool.OCTAVES] - left
    return taken


@pytest.mark.parametrize("cpus", [possible_cpus(), 256])
def test_with_256_cpus_there_is_memory_for_six_octaves_a_row(
    monkeypatch: pytest.MonkeyPatch, cpus: int
) -> None:
    # Sizes of maps follow the number of CPUs; what Linux itself keeps for each CPU is not in them.
    for module in (loading, compiled):
        monkeypatch.setattr(module, "possible_cpus", lambda: cpus)
    kernel = MonitorOptions().begin()
    try:
        octaves = kernel._programs.octaves
        assert kernel._programs.fixed_bytes + octaves._most * BLOCK_BYTES <= MEMORY
        assert octaves._most * BLOCK >= 6 * ROWS
    finally:
        kernel.close()


@pytest.mark.parametrize("kernel", [MEMORY // BYTES_A_SLOT], indirect=True)
def test_the_rows_of_five_hundred_processes_fit(kernel: KernelSide, library: Path) -> None:
    rows = calls = 0
    with Child() as child:
        child.do("run", "import os; os.setpgid(0, 0)")
        for _ in range(PROCESSES // 50):
            child.do("run", f"path = {str(library)!r}\n{CROWD.format(count=50)}")
            counts = kernel.read().take(lambda key: not key.between_calls)
            rows, calls = rows + len(counts.keys), calls + int(counts.calls.sum())
        assert rows == PROCESSES * DEVICES * len(NAMES)
        assert calls == 2 * rows
        assert not lost(kernel).keys() & {*UNCOUNTED}
        assert len(np.flatnonzero(kernel._programs.owners["operation"])) == ROWS
        assert kernel.memory.bytes <= kernel.memory.most == MEMORY
        child.do("run", "import os, signal; signal.signal(15, signal.SIG_IGN); os.killpg(0, 15)")
        child.do("run", f"import os\nfor _ in range({PROCESSES}): os.wait()")
        for tgid in kernel.evidence.tgids():
            kernel.release(tgid)
        kernel.read()
    assert in_use(kernel) == 0


@pytest.mark.parametrize("kernel", [4096], indirect=True)
def test_a_slot_takes_an_octave_for_each_range_of_durations(kernel: KernelSide, library: Path) -> None:
    durations = [10_000, 100_000, 1_000_000, 10_000_000]
    with Child() as child:
        child.do("load", str(library))
        for ns in durations:
            child.do("call", str(library), "cudaStreamEndCapture", 3, ns)
            counts = kernel.read().take(lambda key: not key.between_calls)
            assert counts.calls.tolist() == [3]
            assert counts.histograms.totals().tolist() == [3]
            assert int(counts.max_ns[0]) > ns
        slots = np.flatnonzero(kernel._programs.owners["operation"])
        taken = (kernel._programs.slots.array["octaves"][slots] != 0).sum(axis=1)
        assert taken.max() >= len(durations)
        child.do("call", str(library), "cudaStreamEndCapture", 3, durations[0])
        octaves = np.unique(kernel.read().histograms.index // HALF)
        assert len(octaves) < 8
        pid = child.pid
    kernel.release(pid)
    kernel.read()
    assert in_use(kernel) == 0


@pytest.mark.parametrize("kernel", [MEMORY // BYTES_A_SLOT], indirect=True)
def test_blocks_are_added_while_few_octaves_are_free(kernel: KernelSide, library: Path) -> None:
    programs = kernel._programs
    before = kernel.memory.bytes
    with Child() as child:
        child.do("load", str(library))
        child.do("call", str(library), "cudaMemset", 3)
        while programs.pools.sizes[Pool.OCTAVES] < AHEAD + 4 * BLOCK:
            programs.left_in[Pool.OCTAVES] -= BLOCK  # as if calls had taken them
            kernel.read()
        assert kernel.memory.bytes > before
        # The next octaves are of a block that was added, the earlier ones of the first block.
        child.do("call", str(library), "cudaMemset", 3)
        child.do("call", str(library), "cudaStreamEndCapture", 4, 1_000_000)
        counts = kernel.read().take(lambda key: not key.between_calls)
        assert sorted(counts.calls.tolist()) == [3, 4]
        slots = np.flatnonzero(programs.owners["operation"])
        numbers = programs.slots.array["octaves"][slots]
        assert int(numbers.max()) > AHEAD > int(numbers[numbers > 0].min())
    assert lost(kernel) == {}


def test_calls_for_which_there_is_no_memory_are_lost_and_told(library: Path) -> None:
    monitor = Monitor(MonitorOptions(memory=8 << 20))
    try:
        watched = WatchedMonitor(monitor)
        kernel = monitor._kernel
        assert kernel is not None
        with Child() as child:
            child.do("load", str(library))
            watched.until(lambda: watched.traces(library), "the library probed")
            child.do("call", str(library), "cudaStreamEndCapture", 2, 1_000_000)
            watched.read()
            watched.lost.clear()
            left = kernel._programs.left_in
            free, left[Pool.OCTAVES] = int(left[Pool.OCTAVES]), 0
            child.do("call", str(library), "cudaMemset", 5)
            child.do("call", str(library), "cudaStreamEndCapture", 3, 90_000_000)
            window = watched.read()
            lost = window.loss["no_slot"]
            assert lost >= 8, "other programs of this host may lose calls, too"
            (told,) = [gap.reason for gap in window.coverage.missing if gap.what == "some calls"]
            assert f"all 8 MiB in the Linux kernel are in use: {lost:,} calls are not" in told
            left[Pool.OCTAVES] = free
            watched.until(
                lambda: all(gap.what != "some calls" for gap in watched.last.coverage.missing),
                "no call lost for lack of memory",
            )
            child.do("call", str(library), "cudaMemset", 5)
            watched.read()
            assert watched.calls("cudaMemset", child.pid) == 5
    finally:
        monitor.close()
