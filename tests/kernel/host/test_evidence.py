"""Tests that the evidence of a window matches real events on this host and names the processes involved."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.demo.latencies import Latency
from stalltop.model.evidence import Charge, Evidence, ProcessUse
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from tests.kernel.harness import Workplace, every_interrupt_counts
from tests.kernel.host.host_programs import HostProgram
from tests.kernel.processes.watched import WatchedMonitor

CALL = "cuStreamSynchronize"
SPIN_NS = 2_000_000


class SeenWindows(WatchedMonitor):
    """Reads a monitor and keeps every window."""

    def __init__(self, monitor: Monitor) -> None:
        self.windows: list[Window] = []
        super().__init__(monitor)

    def read(self) -> Window:
        window = super().read()
        self.windows.append(window)
        return window

    @property
    def evidence(self) -> list[Evidence]:
        return [window.evidence for window in self.windows]

    def tenant_of(self, cgroup: Path) -> str:
        """Return the id of the tenant in ``cgroup``; '' if no window so far contains the tenant."""
        found = {
            tenant.id
            for window in self.windows
            for tenant in window.tenants.values()
            if tenant.cgroup_path.endswith(cgroup.name)
        }
        return found.pop() if found else ""

    def uses(self, pid: int) -> list[ProcessUse]:
        return [use for evidence in self.evidence for use in evidence.processes if use.pid == pid]

    def charges(self, pid: int, culprit: int) -> list[Charge]:
        return [
            charge
            for evidence in self.evidence
            for charge in evidence.charges
            if (charge.pid, charge.culprit_pid) == (pid, culprit)
        ]


@pytest.fixture
def seen() -> Iterator[SeenWindows]:
    monitor = Monitor()
    try:
        yield SeenWindows(monitor)
    finally:
        monitor.close()


def test_culprits_have_names_tenants_and_figures(workplace: Workplace, seen: SeenWindows) -> None:
    own, others = workplace.cgroup("docker"), workplace.cgroup("podman")
    caller = workplace.caller(
        cgroup=own, latencies={CALL: Latency("spin", ns=SPIN_NS)}, load=CALL, name="train"
    )
    seen.until(lambda: seen.traces(workplace.built.cuda), "the library is probed")
    cpu = min(os.sched_getaffinity(0))
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        (others / "cgroup.procs").write_text(str(hog.pid))
        for pid in (hog.pid, caller.pid):
            os.sched_setaffinity(pid, {cpu})
        caller.start(CALL)
        seen.until(lambda: len(seen.charges(caller.pid, hog.pid)) >= 3, "the hog is charged")
        seen.until(lambda: sum(use.cpu_ns for use in seen.uses(hog.pid)), "its CPU time is reported")
    finally:
        hog.kill()
        hog.wait()
    for charge in seen.charges(caller.pid, hog.pid):
        assert (charge.tenant, charge.process) == (seen.tenant_of(own), "train")
        assert charge.culprit_tenant == seen.tenant_of(others)
        assert charge.culprit_process.startswith("python")
        assert charge.kind == "runqueue"
        assert charge.operation in (CALL, "host gap")
        assert charge.ns > 0
        assert charge.times > 0
    assert {use.link for use in seen.uses(hog.pid)} == {-1}
    assert {use.tenant for use in seen.uses(hog.pid)} == {seen.tenant_of(others)}
    last = seen.uses(caller.pid)[-1]
    assert (last.link, last.allowed, last.allowed_cpus, last.process) == (0, str(cpu), 1, "train")
    assert last.rss_bytes > 0
    assert last.threads == 2
    assert last.parent_pid == os.getpid()
    spent = [
        use.cpu_ns for evidence in seen.evidence for use in evidence.tenants if use.tenant == last.tenant
    ]
    assert sum(spent) > 0
    # Both processes run on the same CPU, so together they cannot use more time than the windows lasted.
    assert sum(spent) + sum(use.cpu_ns for use in seen.uses(hog.pid)) <= 1.1e9 * sum(
        window.seconds for window in seen.windows
    )


@every_interrupt_counts
def test_block_io_of_a_process_without_calls_is_reported_with_its_tenant(
    workplace: Workplace, seen: SeenWindows, disk_file: Path
) -> None:
    caller = workplace.caller(latencies={CALL: Latency("spin", ns=SPIN_NS)}, load=CALL)
    seen.until(lambda: seen.traces(workplace.built.cuda), "the library is probed")
    seen.until(lambda: not seen.last.evidence.unknown, "the host's events are told")
    caller.start(CALL)
    cgroup = workplace.cgroup("containerd")
    with HostProgram("read-direct", disk_file, 256 * 1024, 64, (cgroup,)) as program:
        program.begin()
        read = program.done()

        def told() -> bool:
            return seen_bytes() >= read

        def seen_bytes() -> int:
            return sum(
                io.bytes
                for evidence in seen.evidence
                for io in evidence.block_io
                if io.pid == program.pid and not io.write and io.tenant == seen.tenant_of(cgroup)
            )

        seen.until(told, "everything it read is reported")
    names = {io.process for evidence in seen.evidence for io in evidence.block_io if io.pid == program.pid}
    assert any(name.startswith("python") for name in names)
    assert seen.tenant_of(cgroup)


def test_the_last_second_of_a_process_is_counted(workplace: Workplace, seen: SeenWindows) -> None:
    cgroup = workplace.cgroup("docker")
    caller = workplace.caller(
        cgroup=cgroup, latencies={CALL: Latency("sleep", ns=1_000_000)}, load=CALL, name="short"
    )
    seen.until(lambda: seen.traces(workplace.built.cuda), "the library is probed")
    seen.until(lambda: not seen.last.evidence.unknown, "the host's events are told")
    caller.run(CALL, cycles=1)
    seen.until(lambda: seen.uses(caller.pid), "it is known")
    caller.run(CALL, cycles=50)
    caller.leave()
    window = seen.read()
    uses = [use for use in window.evidence.processes if use.pid == caller.pid]
    assert [(use.process, use.link, use.tenant) for use in uses] == [("short", 0, seen.tenant_of(cgroup))]
    seen.until(lambda: caller.pid not in {use.pid for use in seen.last.evidence.processes}, "it is forgotten")
    exits = sum(
        use.exits for evidence in seen.evidence for use in evidence.tenants if use.tenant == uses[0].tenant
    )
    assert exits == 1
