"""Tests that a process or a container that takes as many records as it can leaves enough for others, and that
it is named."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stalltop.probes.layout import (
    ACCOUNT,
    ACCOUNT_KEY,
    ACCOUNTS,
    ACTIVITIES,
    ALLOCATIONS,
    CHARGES,
    HEAPS,
    KERNELS,
    MEMBERS,
    Pool,
)
from stalltop.probes.maps.raw import RawQuota
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import BYTES_A_SLOT, MonitorOptions
from stalltop.probes.programs import loading
from stalltop.probes.programs.bpf_calls import get, look_at_all, put
from stalltop.probes.programs.pools import WITHOUT_QUEUE
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child, compile_library
from tests.kernel.harness import Workplace, probe
from tests.kernel.processes.watched import WatchedMonitor
from tests.kernel.traced_program import lost, wait_until

pytestmark = pytest.mark.beside

SLOTS = 512
THREADS = 256
DEVICES = 250

CUDART = """
#define CALL(name) int name(void) { __asm__ volatile(""); return 0; }
CALL(cudaSetDevice) CALL(cudaDeviceSynchronize) CALL(cudaStreamSynchronize) CALL(cudaEventRecord)
CALL(cudaLaunchKernel) CALL(cudaMemcpy) CALL(cudaMemset) CALL(cudaEventQuery) CALL(cudaMemcpyAsync)
CALL(cudaMemsetAsync) CALL(cudaEventSynchronize) CALL(cudaStreamWaitEvent) CALL(cudaStreamQuery)
int cudaMalloc(void **to, unsigned long bytes) { *to = (void *)bytes; return 0; }
"""
"""A library in place of the runtime, which accepts every device."""

NCCL = """
struct id { char bytes[128]; };
int ncclCommInitRank(void **to, int ranks, struct id id, int rank)
{
    static unsigned long last;
    *to = (void *)++last;
    return 0;
}
"""

HOGS = {
    Pool.SLOTS: f"""
for device in range({DEVICES}):
    cudart.cudaSetDevice(device)
    for name in ("DeviceSynchronize", "StreamSynchronize", "EventRecord", "EventQuery"):
        getattr(cudart, "cuda" + name)()
""",
    Pool.THREADS: f"""
def work():
    cudart.cudaDeviceSynchronize()
    began.release()
    threading.Event().wait()
began = threading.Semaphore(0)
for _ in range({THREADS}):
    threading.Thread(target=work, daemon=True).start()
for _ in range({THREADS}):
    began.acquire()
""",
    Pool.KERNELS: f"""
for kernel in range({KERNELS + 1}):
    cudart.cudaLaunchKernel(ctypes.c_void_p(4096 + kernel))
""",
    Pool.HEAPS: f"""
for _ in range({HEAPS + 1}):
    child = os.fork()
    if not child:
        cudart.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_ulong(4096))
        os._exit(0)
    os.waitpid(child, 0)
""",
    Pool.PIECES: f"""
for _ in range(5):
    child = os.fork()
    if not child:
        for address in range(4096, 4096 + {ALLOCATIONS // 4}):
            cudart.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_ulong(address))
        os._exit(0)
    os.waitpid(child, 0)
""",
    Pool.ACTIVITIES: f"""
for _ in range({ACTIVITIES // DEVICES + 1}):
    child = os.fork()
    if not child:
        for device in range({DEVICES}):
            cudart.cudaSetDevice(device)
            cudart.cudaDeviceSynchronize()
        os._exit(0)
    os.waitpid(child, 0)
""",
    Pool.MEMBERS: f"""
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
for number in range({MEMBERS + 1}):
    nccl.ncclCommInitRank(ctypes.byref(ctypes.c_void_p()), 2, Id(str(number).encode()), 0)
""",
}
"""Programs that take all records of a pool if they can."""

MODEST = """
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
for device in range(2):
    cudart.cudaSetDevice(device)
    cudart.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_ulong(4096))
    nccl.ncclCommInitRank(ctypes.byref(ctypes.c_void_p()), 2, Id(b"others"), device)
    for kernel in range(8):
        cudart.cudaLaunchKernel(ctypes.c_void_p(4096 + kernel))
    cudart.cudaDeviceSynchronize()
"""
"""A program that needs a few records of each pool with quotas."""

WOKEN = """
event = threading.Event()
threading.Timer(0.1, event.set).start()
event.wait()
cudart.cudaDeviceSynchronize()
"""
"""A program that waits for another thread between two calls, so that this time is charged."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("libraries")
    return (
        compile_library(CUDART, folder / "libcudart.so.12"),
        compile_library(NCCL, folder / "libnccl.so.2"),
    )


@pytest.fixture
def kernel(libraries: tuple[Path, Path]) -> Iterator[KernelSide]:
    kernel = KernelSide(slots=SLOTS, threads=THREADS, splits=False)
    probe(kernel, libraries[0], "runtime")
    probe(kernel, libraries[1], "nccl")
    yield kernel
    kernel.close()


def run(child: Child, libraries: tuple[Path, Path], text: str) -> None:
    cudart, nccl = libraries
    imports = "import ctypes, os, threading"
    child.do(
        "run", f"{imports}\ncudart, nccl = ctypes.CDLL({str(cudart)!r}), ctypes.CDLL({str(nccl)!r})\n{text}"
    )


def moved(child: Child, cgroup: Path) -> Child:
    (cgroup / "cgroup.procs").write_text(str(child.pid))
    return child


@pytest.mark.parametrize("pool", HOGS, ids=[pool.name.lower() for pool in HOGS])
def test_greedy_processes_leave_records_for_others(
    kernel: KernelSide, libraries: tuple[Path, Path], workplace: Workplace, pool: Pool
) -> None:
    cgroup = workplace.cgroup()
    with Child() as hog, Child() as other:
        run(moved(hog, cgroup), libraries, HOGS[pool])
        assert lost(kernel), "the program wants more than it gets"
        quotas = [quota for quota in kernel.over_quota() if quota.pool == pool]
        assert quotas
        assert {quota.cgroup_id for quota in quotas} <= {0, cgroup.stat().st_ino}
        assert all(0.4 * quota.size < quota.used < 0.9 * quota.size for quota in quotas)
        run(other, libraries, MODEST)
        assert lost(kernel) == {}
        assert kernel.over_quota() == []
        counts = kernel.read().take(lambda key: key.tgid == other.pid and not key.between_calls)
        assert int(counts.calls.sum()) == 2 * (2 + 8 + 1)
        (held,) = [row for row in kernel.evidence.held() if row.tgid == other.pid]
        assert (held.allocations, held.held, held.held_bytes) == (2, 1, 4096), "both have one address"
        tgids = kernel.evidence.tgids()
    for tgid in tgids:
        kernel.release(tgid)
    for _ in range(3):  # slots and heaps are freed by the next read
        kernel.read()
        kernel.evidence.held()
        kernel.over_quota()
    assert accounts(kernel) == 0
    with Child() as again:
        run(moved(again, cgroup), libraries, HOGS[pool])
        found = [quota for quota in kernel.over_quota() if quota.pool == pool]
        assert shares(found) == shares(quotas), "all records are free again"


QUEUED = [pool for pool in Pool if pool not in WITHOUT_QUEUE]


@pytest.mark.parametrize("pool", QUEUED, ids=[pool.name.lower() for pool in QUEUED])
def test_a_pool_without_free_records_is_not_asked_for_one(
    monkeypatch: pytest.MonkeyPatch, libraries: tuple[Path, Path], pool: Pool
) -> None:
    # The queues of Linux take a lock even if they are empty: then each call of each process would take it.
    queues: dict[str, int] = {}
    loaded = loading.load_prepared

    def load(*arguments: Any, **options: Any) -> loading.Loaded:
        result = loaded(*arguments, **options)
        queues.update({name: os.dup(fd) for name, fd in result.fds.items() if name.startswith("free_")})
        return result

    monkeypatch.setattr(loading, "load_prepared", load)
    kernel = KernelSide(slots=SLOTS, threads=THREADS, splits=True)
    try:
        probe(kernel, libraries[0], "runtime")
        probe(kernel, libraries[1], "nccl")
        left, queue = kernel._programs.left_in, queues[f"free_{pool.name.lower()}"]
        with Child() as child:
            # The queue still has its records, so that it changes if it is asked.
            left[pool], first = 0, next_record(queue)
            run(child, libraries, MODEST + WOKEN)
            assert lost(kernel)
            assert left[pool] == 0
            assert next_record(queue) == first
            left[pool] = SLOTS
            run(child, libraries, MODEST + WOKEN)
            assert next_record(queue) != first
    finally:
        kernel.close()
        for fd in queues.values():
            os.close(fd)


def next_record(queue: int) -> bytes:
    """Return the record that is taken next."""
    return get(queue, b"", 4)


def test_others_get_records_when_processes_have_all_accounts(
    kernel: KernelSide, libraries: tuple[Path, Path], workplace: Workplace
) -> None:
    account = np.zeros(1, ACCOUNT)
    account["refused"] = 1
    for tgid in range(ACCOUNTS):
        key = np.array([(0, (1 << 30) + tgid, 0)], ACCOUNT_KEY)
        with contextlib.suppress(OSError):  # E2BIG: other programs of this host have accounts, too.
            put(kernel._programs.accounts, key.tobytes(), account.tobytes())
    with Child() as child:
        run(moved(child, workplace.cgroup()), libraries, MODEST)
        counts = kernel.read().take(lambda key: key.tgid == child.pid and not key.between_calls)
        assert int(counts.calls.sum()) == 2 * (2 + 8 + 1)
        assert lost(kernel) == {}


ANY_PROCESS = (1 << 32) - 1
"""ANY_PROCESS of bpf/base/layout.h."""
WAKING = 307
"""A prime number of threads, so that a walk in steps of any length comes to all of them."""
WAKE_EACH_OTHER = f"""
ends = [os.pipe() for _ in range({WAKING})]
steps = iter([length for length in range(1, 60) for _ in ends])
done, ready = threading.Event(), threading.Semaphore(0)
def work(own):
    cudart.cudaDeviceSynchronize()
    ready.release()
    while os.read(ends[own][0], 1):
        length = next(steps, 0)
        if not length:
            return done.set()
        os.write(ends[(own + length) % {WAKING}][1], b"x")
for number in range({WAKING}):
    threading.Thread(target=work, args=(number,), daemon=True).start()
for _ in ends:
    ready.acquire()
os.write(ends[0][1], b"x")
done.wait()
"""
"""A program in which more pairs of threads wake each other than there are charges."""


def test_threads_that_wake_each_other_leave_charges_for_others(
    libraries: tuple[Path, Path], workplace: Workplace
) -> None:
    kernel = KernelSide(slots=SLOTS, threads=4 * WAKING, splits=True)
    programs = kernel._programs

    def charges_of(child: Child) -> NDArray[np.void]:
        assert programs.charges is not None
        used = programs.charges[programs.charges["times"] != 0]["key"]
        own: NDArray[np.void] = used[used["tgid"] == child.pid]
        return own

    def counted(child: Child) -> int:
        key = np.array([(0, child.pid, 0)], ACCOUNT_KEY).tobytes()
        return int(
            np.frombuffer(get(programs.accounts, key, ACCOUNT.itemsize), ACCOUNT)["used"][0][Pool.CHARGES]
        )

    try:
        probe(kernel, libraries[0], "runtime")
        probe(kernel, libraries[1], "nccl")
        with Child() as hog, Child() as other:
            run(moved(hog, workplace.cgroup()), libraries, WAKE_EACH_OTHER)
            kernel.losses()
            run(other, libraries, MODEST + WOKEN)
            assert kernel.losses()["no_charge"] == 0
            assert (charges_of(other)["culprit_tid"] != 0).any()
            assert CHARGES // 4 < len(charges_of(hog)) < CHARGES // 2
            assert counted(hog) == len(charges_of(hog))
            by_cgroup = charges_of(hog)["culprit_tgid"] == ANY_PROCESS
            assert not charges_of(hog)[by_cgroup]["tid"].any()
            assert by_cgroup.any()
            kernel.release(hog.pid)

            def freed() -> bool:
                kernel.evidence.charges()
                return counted(hog) == len(charges_of(hog)) == 0

            wait_until(freed, "its charges freed")
    finally:
        kernel.close()


def shares(quotas: list[RawQuota]) -> list[tuple[bool, int]]:
    return sorted((quota.cgroup_id != 0, quota.used) for quota in quotas)


def accounts(kernel: KernelSide) -> int:
    """Return the number of processes and cgroups that have records."""
    both = kernel._programs.accounts, kernel._programs.cgroup_accounts
    return sum(int(look_at_all(fd, ACCOUNT_KEY, ACCOUNT)[1]["used"].any(axis=1).sum()) for fd in both)


def test_the_coverage_names_who_is_over_quota(libraries: tuple[Path, Path], workplace: Workplace) -> None:
    monitor = Monitor(MonitorOptions(memory=4096 * BYTES_A_SLOT))
    try:
        watched = WatchedMonitor(monitor)
        hog = workplace.cgroup()
        caller = workplace.caller(cgroup=workplace.cgroup(), load="cudaLaunchKernel")
        with Child() as child:
            run(moved(child, hog), libraries, "")
            watched.until(lambda: watched.traces(libraries[0]), what="the library probed")
            calls = (
                "DeviceSynchronize StreamSynchronize EventRecord EventQuery EventSynchronize Memset Memcpy"
            )
            calls += " MemcpyAsync MemsetAsync StreamWaitEvent StreamQuery"
            text = f"for device in range({DEVICES}):\n cudart.cudaSetDevice(device)\n"
            run(child, libraries, text + "".join(f" cudart.cuda{name}()\n" for name in calls.split()))
            window = watched.read()
            (gap,) = [gap for gap in window.coverage.missing if gap.pid == child.pid]
            assert gap.reason.startswith("over quota: it has ")
            assert window.tenants[gap.tenant].cgroup_path.endswith(hog.name)
            watched.lost.clear()
            caller.run("cudaLaunchKernel:1:0", threads=4, cycles=50_000)
            watched.until(lambda: watched.calls("cudaLaunchKernel", caller.pid) == 200_000, what="all calls")
            assert watched.uncounted() == {}
    finally:
        monitor.close()
