"""Tests that probes whose cost exceeds the budget are removed from real processes, that calls around them are
still counted exactly, and that everything is traced again later.

``STALLTOP_EXACT_CALLS=10000000`` makes ten million calls while probes are reduced.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import hierarchy
from stalltop.model.window import UNCOUNTED, Window
from stalltop.probes.budget import planner, reduced
from stalltop.probes.budget.limits import Budget
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from stalltop.probes.programs.task_offsets import knows_sessions
from tests.kernel.harness import Workplace, wait_until, workplace_in
from tests.kernel.processes.watched import WatchedMonitor

CYCLES = 500
CALLS = int(os.environ.get("STALLTOP_EXACT_CALLS", "200000"))
THREADS = 2
ALL_THE_HOST = 1e9

pytestmark = pytest.mark.timeout(120 + CALLS // 20_000)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "ENGAGE_SECONDS", 1.0)
    monkeypatch.setattr(planner, "NESTED_SECONDS", 2.0)
    monkeypatch.setattr(planner, "RELEASE_SECONDS", 2.0)


@pytest.fixture
def workplace(built: Built, tmp_path: Path) -> Iterator[Workplace]:
    """A workplace with libraries of its own: a step is taken only if it suits every process that uses the
    library, and other programs of this host may use those of ``built``."""
    own = tmp_path / "libraries"
    shutil.copytree(built.folder, own)
    with workplace_in(Built(own)) as place:
        yield place


def monitor_of(cgroup: Path, budget: Budget) -> Monitor:
    """Trace only the processes in ``cgroup``."""
    return Monitor(MonitorOptions(budget=budget, within=f"/{cgroup.relative_to(hierarchy())}"))


def told(window: Window) -> dict[str, str]:
    """What is said of each function that is not traced all of the time."""
    return {one.symbol: one.text for library in window.coverage.libraries for one in library.reduced}


def look_from_now_on(monitor: Monitor, patch: pytest.MonkeyPatch) -> None:
    """Looks at calls without probes now and every few seconds, instead of after ``LOOK_EVERY_SECONDS``."""
    assert monitor._budget is not None
    patch.setattr(reduced, "LOOK_EVERY_SECONDS", 2.0)
    patch.setattr(reduced, "CYCLE_SECONDS", 2.0)
    monitor._budget._planner.functions._look_at = time.monotonic()


def traced(watched: WatchedMonitor, caller: Caller) -> int:
    """Wait until the calls of ``caller`` are counted; return the number of those that were."""

    def counted() -> int:
        caller.run("cudaLaunchKernel", cycles=1)
        watched.read()
        return min(watched.calls(name, caller.pid) for name in ("cudaLaunchKernel", "cuLaunchKernel"))

    wait_until(counted, what="the caller traced")
    return watched.calls("cudaLaunchKernel", caller.pid)


def make_many(watched: WatchedMonitor, caller: Caller, function: str) -> int:
    """Make ``CALLS`` calls of ``function`` and read windows meanwhile; return their number."""

    def made() -> int:
        return caller.report()[function].calls

    cycles, before = CALLS // THREADS, made()
    caller.start(function, threads=THREADS, cycles=cycles)
    wait_until(
        lambda: watched.read() and made() - before == THREADS * cycles,
        what="all calls made",
        step=0.2,
        deadline=60.0 + CALLS / 20_000,
    )
    caller.do("finish")
    watched.read()
    return THREADS * cycles


def test_nested_calls_go_uncounted_while_the_calls_around_them_stay_exact(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroup = workplace.cgroup()
    monitor = monitor_of(cgroup, Budget(0.05, ALL_THE_HOST))
    try:
        watched = WatchedMonitor(monitor)
        caller = workplace.caller(cgroup=cgroup, load="cudaLaunchKernel cuLaunchKernel")
        first = traced(watched, caller)
        made = 0

        def busy() -> Window:
            nonlocal made
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                caller.run("cudaLaunchKernel", cycles=CYCLES)
                made += CYCLES
            watched.read()
            # No driver call was ever taken for a call that the program makes itself.
            own = [key for key in watched.last.rows.keys if key.pid == caller.pid]
            assert all(key.nested for key in own if key.operation == "cuLaunchKernel")
            return watched.last

        # The driver's function goes, and few calls of the other are timed. That does not suffice, which is
        # said.
        reduced = {"cuLaunchKernel": "off, budget"}
        if knows_sessions():
            reduced["cudaLaunchKernel"] = "timed 1 in 8"
        wait_until(lambda: told(busy()) == reduced, what="probes removed")
        wait_until(
            lambda: any(one.cost and str(caller.pid) in one.what for one in busy().coverage.missing),
            what="the process named",
        )
        before = made, watched.calls("cuLaunchKernel", caller.pid)
        made += make_many(watched, caller, "cudaLaunchKernel")
        assert told(watched.last) == reduced
        assert watched.calls("cuLaunchKernel", caller.pid) == before[1], "calls without probes were counted"
        assert watched.calls("cudaLaunchKernel", caller.pid) == first + made
        # It is looked at again, and stays off.
        look_from_now_on(monitor, monkeypatch)
        wait_until(
            lambda: told(busy()) and watched.calls("cuLaunchKernel", caller.pid) > before[1],
            what="a look at the nested calls",
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


def test_with_leave_to_sample_calls_are_counted_for_a_part_of_the_time(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduced, "CYCLE_SECONDS", 5.0)
    monkeypatch.setattr(reduced, "SAMPLED_SECONDS", 0.5)
    cgroup = workplace.cgroup()
    monitor = monitor_of(cgroup, Budget(0.2, ALL_THE_HOST, sample=True))
    try:
        watched = WatchedMonitor(monitor)
        caller = workplace.caller(cgroup=cgroup, load="cudaLaunchKernel cuLaunchKernel")
        traced(watched, caller)

        def busy(seconds: float) -> Window:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                caller.run("cudaLaunchKernel", cycles=20)
                time.sleep(0.005)
            return watched.read()

        wait_until(lambda: told(busy(0.5)).get("cudaLaunchKernel") == "sampled 10 %", what="calls sampled")
        counted = []
        for _ in range(24):
            before = watched.calls("cudaLaunchKernel", caller.pid)
            busy(0.25)
            counted.append(watched.calls("cudaLaunchKernel", caller.pid) - before)
        assert 1 <= sum(calls > 0 for calls in counted) <= 12, counted
        assert told(watched.last)["cudaLaunchKernel"] == "sampled 10 %"
    finally:
        monitor.close()


@pytest.mark.skipif(not knows_sessions(), reason="the Linux kernel has no sessions")
def test_direct_calls_stay_exact_while_some_are_timed(workplace: Workplace) -> None:
    cgroup = workplace.cgroup()
    monitor = monitor_of(cgroup, Budget(0.2, ALL_THE_HOST))
    try:
        watched = WatchedMonitor(monitor)
        caller = workplace.caller(cgroup=cgroup, load="cuLaunchKernel")

        def launched(seconds: float = 0.5) -> Window:
            caller.start("cuLaunchKernel", threads=2)
            time.sleep(seconds)
            caller.do("finish")
            return watched.read()

        wait_until(
            lambda: (
                caller.run("cuLaunchKernel")
                and watched.read()
                and watched.calls("cuLaunchKernel", caller.pid)
            ),
            what="traced",
        )
        before = caller.report()["cuLaunchKernel"].calls - watched.calls("cuLaunchKernel", caller.pid)
        wait_until(lambda: told(launched()) == {"cuLaunchKernel": "timed 1 in 8"}, what="some calls timed")
        make_many(watched, caller, "cuLaunchKernel")
        assert told(watched.last) == {"cuLaunchKernel": "timed 1 in 8"}
        # Then the process is quiet, and all of its calls are timed again, also those that it makes just then.
        wait_until(
            lambda: caller.run("cuLaunchKernel", cycles=20) and told(watched.read()) == {},
            what="all calls timed",
            # At most 100 calls a second: far below half of the budget, on slow machines too.
            step=0.2,
            deadline=60.0,
        )
        time.sleep(0.5)
        launched(0.1)
        made = caller.report()["cuLaunchKernel"].calls
        assert watched.calls("cuLaunchKernel", caller.pid) == made - before
        assert {name: watched.lost[name] for name in UNCOUNTED if watched.lost[name]} == {}
        assert not watched.lost["abandoned"]
        assert not watched.lost["no_entry"]
    finally:
        monitor.close()
