"""Tests that all calls are counted if only some are timed, also while the probes change, and that their times
are those that all calls have."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.window import UNCOUNTED
from stalltop.probes.budget.hot import TIMEABLE
from stalltop.probes.layout import Timing
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from stalltop.probes.programs.task_offsets import knows_sessions
from stalltop.probes.tracer.kernel_side import Attachment, KernelSide, Point
from tests.kernel.calls.window_totals import WindowTotals
from tests.kernel.harness import Workplace, wait_until

pytestmark = pytest.mark.skipif(not knows_sessions(), reason="the Linux kernel has no sessions")

CYCLES = 250_000
THREADS = 4
LOST = (*UNCOUNTED, "abandoned", "no_entry")


class SessionKernelSide(KernelSide):
    """Attaches sessions to all functions that may have them."""

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        timeable = {function.id for function in self.functions if function.symbol in TIMEABLE}
        some = super().attach(path, [point for point in points if point.cookie not in timeable])
        chosen = {point.offset: point for point in reversed(points) if point.cookie in timeable}
        return self.attach_sessions(path, [*chosen.values()]).joined(some) if chosen else some


@pytest.fixture
def told() -> Iterator[WindowTotals]:
    monitor = Monitor(MonitorOptions(kernel=SessionKernelSide, budget=None))
    try:
        assert monitor.cannot_trace is None, str(monitor.cannot_trace)
        yield WindowTotals(monitor)
    finally:
        monitor.close()


def traced(workplace: Workplace, told: WindowTotals, latency: Latency | None = None) -> Caller:
    """Start a caller and wait until it is traced, before its first call."""
    caller = workplace.caller(
        latencies=None if latency is None else {"cuLaunchKernel": latency}, load="cuLaunchKernel"
    )
    own = str(workplace.built.cuda)
    wait_until(
        lambda: any(row.path == own and row.processes for row in told.read().coverage.libraries),
        what="the caller traced",
    )
    return caller


def calls(told: WindowTotals, caller: Caller, operation: str = "cuLaunchKernel") -> int:
    return sum(
        count for key, count in told.calls.items() if key.pid == caller.pid and key.operation == operation
    )


def test_a_million_calls_of_which_some_are_timed_are_counted_exactly(
    told: WindowTotals, workplace: Workplace
) -> None:
    caller = traced(workplace, told, Latency("spin", "lognormal", 3_000, 0.5))
    caller.do("kernels _Z4foldPf _Z5scalePf")
    caller.tell(f"run {THREADS} {CYCLES // 4} cuLaunchKernel:3:0 cuLaunchKernel:1:1")
    launches = Counter[str]()

    def take() -> None:
        for one in told.read().kernels:
            if one.pid == caller.pid:
                # Early windows may have mangled names.
                launches["fold" if "fold" in one.kernel else one.kernel] += one.calls

    for _ in range(20):
        take()
    caller.answer()
    take()
    assert calls(told, caller) == THREADS * CYCLES
    named = {"fold": launches.pop("fold"), "scale": launches.total()}
    assert named == {"fold": 3 * THREADS * CYCLES // 4, "scale": THREADS * CYCLES // 4}
    parts = [
        part
        for key, found in told.histograms.items()
        if key.pid == caller.pid and key.operation == "cuLaunchKernel"
        for part in found
    ]
    percents = [50.0, 90.0]
    counted = (
        Histograms.concatenate(parts).grouped(np.zeros(len(parts), np.int64), 1).percentiles(percents)[0]
    )
    made = caller.report()["cuLaunchKernel"].histogram().percentiles(percents)[0]
    # The caller's clock includes the time of the probes.
    probe_ns = told.monitor.read().coverage.probe_ns
    assert (counted <= made * 1.03).all(), (counted, made)
    assert (counted >= made * 0.95 - 2 * probe_ns).all(), (counted, made, probe_ns)
    assert {name: told.loss[name] for name in LOST if told.loss[name]} == {}


def test_calls_are_counted_once_while_probes_of_both_kinds_are_in_place(workplace: Workplace) -> None:
    """A program makes calls while the probes of its function change many times."""
    kernel = KernelSide()
    try:
        path = str(workplace.built.cuda)
        function = next(one for one in kernel.functions if one.symbol == "cuLaunchKernel")
        with workplace.built.cuda.open("rb") as stream:
            elf = ELFFile(stream)
            dynsym: Any = elf.get_section_by_name(".dynsym")
            (symbol,) = dynsym.get_symbol_by_name("cuLaunchKernel")
            point = Point(next(iter(elf.address_offsets(symbol["st_value"]))), function.id)
        usual = kernel.attach(path, [point])
        caller = workplace.caller(load="cuLaunchKernel")
        caller.start("cuLaunchKernel", threads=THREADS)
        counted, lost = Counter[int](), Counter[str]()

        def take() -> None:
            counts = kernel.read()
            assert counts.calls.tolist() == counts.histograms.totals().tolist()
            for key, count in zip(counts.keys, counts.calls.tolist(), strict=True):
                counted[key.operation] += count
            lost.update(kernel.losses())

        for _ in range(8):
            kernel.tell_timing([function.id], Timing.BOTH)
            some = kernel.attach_sessions(path, [point])
            assert not some.failed
            usual.close()
            kernel.tell_timing([function.id], Timing.SOME)
            time.sleep(0.1)
            take()
            kernel.tell_timing([function.id], Timing.BOTH)
            usual = kernel.attach(path, [point])
            some.close()
            kernel.tell_timing([function.id], Timing.SOME)
            time.sleep(0.1)
            take()
        caller.do("finish")
        take()
        made = caller.report()["cuLaunchKernel"].calls
        assert counted[function.operation] == made
        assert {name: lost[name] for name in LOST if lost[name]} == {}
    finally:
        kernel.close()
