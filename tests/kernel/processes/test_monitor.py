"""Tests the monitor: when windows begin, which processes it forgets, and for which tenants coverage is
missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stalltop.demo.latencies import Latency
from stalltop.model.window import Missing
from stalltop.probes import monitor as monitor_module
from stalltop.probes.libraries import discovery
from stalltop.probes.libraries.discovery import Libraries
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from stalltop.probes.tracer.attach import Point
from stalltop.probes.tracer.attach_perf import PerfAttacher
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.harness import Workplace
from tests.kernel.processes.watched import WatchedMonitor

pytestmark = pytest.mark.beside

SPIN_NS = 200_000


def test_the_first_window_begins_with_the_first_probe(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    latencies = {"cuStreamSynchronize": Latency("spin", ns=SPIN_NS)}
    caller = workplace.caller(latencies=latencies, load="cuStreamSynchronize")

    class CalledMeanwhile(Libraries):
        def start(self) -> None:
            super().start()
            assert caller.pid in self.traced_pids()
            caller.run("cuStreamSynchronize", cycles=500)

    monkeypatch.setattr(monitor_module, "Libraries", CalledMeanwhile)
    monkeypatch.setattr(discovery, "START_SECONDS", 60.0)  # enough to find the caller on a busy machine
    monitor = Monitor(MonitorOptions(search_seconds=60.0))
    try:
        window = monitor.read()
    finally:
        monitor.close()
    own = np.array([key.pid == caller.pid and key.outermost for key in window.rows.keys])
    assert int(window.rows.calls[own].sum()) == 500
    # One thread made the calls in sequence, so they cannot take longer than the window.
    assert SPIN_NS * 500 <= int(window.rows.total_ns[own].sum()) <= window.seconds * 1e9


def test_a_process_that_ends_in_its_first_call_is_forgotten(workplace: Workplace) -> None:
    hold = workplace.folder / "hold"
    hold.touch()
    monitor = Monitor()
    try:
        watched = WatchedMonitor(monitor)
        cgroup = workplace.cgroup()
        caller = workplace.caller(
            cgroup=cgroup,
            latencies={"cuCtxSynchronize": Latency("hold", path=hold)},
            load="cuCtxSynchronize",
        )
        watched.until(lambda: watched.traces(workplace.built.cuda), "the library is probed")
        caller.start("cuCtxSynchronize")
        watched.until(lambda: watched.open_calls(caller.pid) == ["cuCtxSynchronize"], "it hangs")
        assert watched.remembers(cgroup)
        caller.kill()
        watched.until(lambda: not watched.remembers(cgroup), "it is forgotten")
        assert caller.pid not in monitor._names
        assert not watched.pids(cgroup)
    finally:
        monitor.close()


def test_missing_coverage_names_the_tenant_of_its_process(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroup = workplace.cgroup()
    caller = workplace.caller(cgroup=cgroup)
    gaps = (Missing("/a", "is odd", pid=caller.pid), Missing("/b", "is odd"))
    monkeypatch.setattr(Libraries, "missing", lambda _: gaps)
    monitor = Monitor()
    try:
        window = monitor.read()
    finally:
        monitor.close()
    of_caller, of_nobody = window.coverage.missing
    assert window.tenants[of_caller.tenant].cgroup_path.endswith(cgroup.name)
    assert of_nobody.tenant == ""


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_an_interrupted_start_closes_the_kernel_side(
    monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    def fail(_: Libraries) -> None:
        raise failure

    closed: list[str] = []
    real: Callable[[KernelSide], None] = KernelSide.close

    def close(kernel: KernelSide) -> None:
        real(kernel)
        closed.append(kernel.way)

    monkeypatch.setattr(Libraries, "start", fail)
    monkeypatch.setattr(KernelSide, "close", close)
    with pytest.raises(failure):
        Monitor()
    assert len(closed) == 1


def test_interrupted_attaching_by_perf_closes_its_probes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    numbers = iter((11, 12, 13))
    closed: list[int] = []

    def link(_: PerfAttacher, *_of: object) -> int:
        try:
            return next(numbers)
        except StopIteration:
            raise KeyboardInterrupt from None

    attacher = PerfAttacher(0, 0)
    monkeypatch.setattr(PerfAttacher, "_link", link)
    monkeypatch.setattr(attacher._closer, "close", closed.extend)
    with pytest.raises(KeyboardInterrupt):
        attacher.attach(str(tmp_path), [Point(offset, 1) for offset in range(3)])
    assert closed == [11, 12, 13]
