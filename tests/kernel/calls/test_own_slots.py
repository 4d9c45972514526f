"""Tests that the calls of busy threads of one process are counted exactly, whether the threads have slots of
their own or share slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from stalltop.demo.caller import Caller
from stalltop.probes.operations import operation
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.harness import Workplace, probe, wait_until
from tests.kernel.traced_program import lost

pytestmark = pytest.mark.beside

THREADS = 8
CYCLES = 25_000
MOST_OWN = 64
ITEMS = "cudaLaunchKernel:1:0 cudaLaunchKernel:1:1 cudaMemcpyAsync:1:4096:1"
A_CYCLE = {"cudaLaunchKernel": 2, "cudaMemcpyAsync HtoD": 1}


class SlotTotals:
    """Sums of what the kernel side read of the process of ``caller``."""

    def __init__(self, kernel: KernelSide, caller: Caller) -> None:
        self.kernel = kernel
        self.tgid = caller.pid
        self.calls = Counter[str]()
        self.gaps = 0
        self.launches = Counter[int]()
        """Launches by the function that stands for a CUDA kernel."""

    def read(self) -> None:
        counts = self.kernel.read()
        assert counts.calls.tolist() == counts.histograms.totals().tolist()
        if counts.split_ns is not None:
            assert counts.split_ns.sum(axis=1).tolist() == counts.total_ns.tolist()
        for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
            if key.tgid == self.tgid and key.between_calls:
                self.gaps += calls
            elif key.tgid == self.tgid:
                self.calls[operation(key.operation).name] += calls
        for raw in self.kernel.cuda.launches():
            if raw.key.tgid == self.tgid:
                self.launches[raw.function] += raw.calls
        assert self.launches.total() <= self.calls["cudaLaunchKernel"]

    def has_counted(self, bursts: int) -> None:
        """Check that all calls of ``bursts`` bursts are counted."""
        cycles = bursts * THREADS * CYCLES
        assert self.calls == {name: cycles * calls for name, calls in A_CYCLE.items()}
        assert sorted(self.launches.values()) == [cycles, cycles]
        assert self.gaps == cycles * sum(A_CYCLE.values()) - bursts * THREADS
        assert lost(self.kernel) == {}


def own_slots(kernel: KernelSide) -> NDArray[np.intp]:
    owners = kernel._programs.owners
    return np.flatnonzero((owners["writer"] != 0) & (owners["operation"] != 0))


@pytest.fixture
def kernel(workplace: Workplace) -> Iterator[KernelSide]:
    kernel = KernelSide(slots=8 * MOST_OWN)  # an eighth of all slots may be own slots
    try:
        probe(kernel, workplace.built.cudart, "runtime")
        kernel.losses()
        yield kernel
    finally:
        kernel.close()


def test_busy_threads_get_slots_of_their_own(kernel: KernelSide, workplace: Workplace) -> None:
    caller = workplace.caller(load="cudaLaunchKernel")
    totals = SlotTotals(kernel, caller)
    caller.tell(f"burst {THREADS} {CYCLES} {ITEMS}")
    wait_until(lambda: len(own_slots(kernel)) >= THREADS, what="slots of the threads' own")
    for _ in range(20):
        totals.read()
    caller.answer(120.0)
    totals.read()
    totals.has_counted(1)


def test_slots_of_ended_threads_are_used_again(kernel: KernelSide, workplace: Workplace) -> None:
    caller = workplace.caller(load="cudaLaunchKernel")
    totals = SlotTotals(kernel, caller)
    bursts = used = 0
    while used <= MOST_OWN:
        caller.run(ITEMS, threads=THREADS, cycles=CYCLES, timed=False)
        bursts += 1
        used += len(own_slots(kernel))
        totals.read()  # releases the slots
        totals.read()  # frees them
        assert not len(own_slots(kernel))
    totals.has_counted(bursts)


def test_without_slots_of_their_own_threads_share(kernel: KernelSide, workplace: Workplace) -> None:
    caller = workplace.caller(load="cudaLaunchKernel")
    totals = SlotTotals(kernel, caller)
    limits = kernel._programs.keeping
    limits["own_slots"] = limits["own_kernels"] = 0
    caller.run(ITEMS, threads=THREADS, cycles=CYCLES, timed=False)
    assert not len(own_slots(kernel))
    limits["own_slots"] = THREADS
    caller.run(ITEMS, threads=THREADS, cycles=CYCLES, timed=False)
    assert len(own_slots(kernel)) == THREADS
    assert len(np.flatnonzero(kernel._programs.launched["slot"])) == 2
    totals.read()
    totals.has_counted(2)
