"""Tests that probes whose cost exceeds the budget are removed from real processes, that calls around them are
still counted exactly, and that everything is traced again later."""

from __future__ import annotations

import time

import pytest

from stalltop.demo.caller import Caller
from stalltop.model.window import UNCOUNTED, Window
from stalltop.probes.budget import planner
from stalltop.probes.budget.limits import Budget
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from tests.kernel.harness import Workplace, wait_until
from tests.kernel.processes.watched import WatchedMonitor

CYCLES = 500
ALL_THE_HOST = 1e9


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "ENGAGE_SECONDS", 1.0)
    monkeypatch.setattr(planner, "NESTED_SECONDS", 2.0)
    monkeypatch.setattr(planner, "RELEASE_SECONDS", 2.0)
    monkeypatch.setattr(planner, "LOOK_EVERY_SECONDS", 8.0)


def told(window: Window) -> dict[str, str]:
    """What is said of each function that is not traced all of the time."""
    return {one.symbol: one.text for library in window.coverage.libraries for one in library.reduced}


def traced(watched: WatchedMonitor, caller: Caller) -> int:
    """Wait until the calls of ``caller`` are counted; return the number of those that were."""

    def counted() -> int:
        caller.run("cudaLaunchKernel", cycles=1)
        watched.read()
        return min(watched.calls(name, caller.pid) for name in ("cudaLaunchKernel", "cuLaunchKernel"))

    wait_until(counted, what="the caller traced")
    return watched.calls("cudaLaunchKernel", caller.pid)


def test_nested_calls_go_uncounted_while_the_calls_around_them_stay_exact(workplace: Workplace) -> None:
    monitor = Monitor(MonitorOptions(budget=Budget(0.05, ALL_THE_HOST)))
    try:
        watched = WatchedMonitor(monitor)
        caller = workplace.caller(cgroup=workplace.cgroup(), load="cudaLaunchKernel cuLaunchKernel")
        first = traced(watched, caller)
        made = 0

        def busy() -> Window:
            nonlocal made
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                caller.run("cudaLaunchKernel", cycles=CYCLES)
                made += CYCLES
            return watched.read()

        # The driver's function goes. That does not suffice, which is said.
        wait_until(lambda: told(busy()) == {"cuLaunchKernel": "off, budget"}, what="probes removed")
        wait_until(
            lambda: any(one.cost and str(caller.pid) in one.what for one in busy().coverage.missing),
            what="the process named",
        )
        before = made, watched.calls("cuLaunchKernel", caller.pid)
        busy()
        assert watched.calls("cuLaunchKernel", caller.pid) == before[1], "calls without probes were counted"
        assert made > before[0]
        assert watched.calls("cudaLaunchKernel", caller.pid) == first + made
        # It is looked at again, and stays off.
        wait_until(
            lambda: told(busy()) and watched.calls("cuLaunchKernel", caller.pid) > before[1],
            what="a look at the nested calls",
            deadline=40.0,
        )
        # Once the process is quiet, all of its calls are counted again.
        wait_until(lambda: told(watched.read()) == {}, what="probes in place again", deadline=60.0)
        time.sleep(0.5)
        before = made, watched.calls("cuLaunchKernel", caller.pid)
        caller.run("cudaLaunchKernel", cycles=CYCLES)
        watched.read()
        assert watched.calls("cuLaunchKernel", caller.pid) == before[1] + CYCLES
        assert watched.calls("cudaLaunchKernel", caller.pid) == first + before[0] + CYCLES
        assert {name: watched.lost[name] for name in UNCOUNTED if watched.lost[name]} == {}
    finally:
        monitor.close()


def test_with_leave_to_sample_calls_are_counted_for_a_part_of_the_time(workplace: Workplace) -> None:
    monitor = Monitor(MonitorOptions(budget=Budget(0.2, ALL_THE_HOST, sample=True)))
    try:
        watched = WatchedMonitor(monitor)
        caller = workplace.caller(cgroup=workplace.cgroup(), load="cudaLaunchKernel cuLaunchKernel")
        traced(watched, caller)

        def busy(seconds: float = 0.5) -> Window:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                caller.run("cudaLaunchKernel", cycles=20)
                time.sleep(0.005)
            return watched.read()

        wait_until(lambda: told(busy()).get("cudaLaunchKernel") == "sampled 10 %", what="calls sampled")
        counted = []
        for _ in range(24):
            before = watched.calls("cudaLaunchKernel", caller.pid)
            busy()
            counted.append(watched.calls("cudaLaunchKernel", caller.pid) - before)
        assert 1 <= sum(calls > 0 for calls in counted) <= 8, counted
        assert told(watched.last)["cudaLaunchKernel"] == "sampled 10 %"
    finally:
        monitor.close()
