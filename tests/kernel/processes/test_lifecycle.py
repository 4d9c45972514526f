"""Tests that no call is lost and no state is kept when processes fork, exec, change cgroups and end."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.demo.build import Built, compiler
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import container_id
from stalltop.demo.latencies import Latency
from stalltop.probes.host.parts import MADE_CGROUPS, PARTS
from stalltop.probes.monitor import ENDED_CALL_NS, Monitor
from stalltop.probes.options import MonitorOptions
from tests.kernel.harness import Workplace, wait_until
from tests.kernel.processes.watched import WatchedMonitor

pytestmark = pytest.mark.beside

MEMORY = 8 << 20
"""Room for 1,024 slots and 256 records of threads."""
(CGROUPS_PART,) = [part.what for part in PARTS if MADE_CGROUPS in part.maps]
LAUNCH, INNER = "cudaLaunchKernel", "cuLaunchKernel"
"""A function of the runtime, and the driver's function that it calls."""


@pytest.fixture(scope="module")
def monitor(built: Built) -> Iterator[Monitor]:
    monitor = Monitor(MonitorOptions(memory=MEMORY))
    try:
        assert monitor.cannot_trace is None, str(monitor.cannot_trace)
        # While the process ``keeper`` lives, the libraries stay probed. So later processes are traced from
        # their first call on.
        with Caller(built, name="keeper") as keeper:
            keeper.do(f"load {LAUNCH} {INNER}")
            watched = WatchedMonitor(monitor)
            watched.until(lambda: watched.traces(built.cudart, built.cuda), "both libraries are probed")
            yield monitor
    finally:
        monitor.close()


@pytest.fixture
def watched(monitor: Monitor) -> WatchedMonitor:
    return WatchedMonitor(monitor)


def held(workplace: Workplace) -> dict[str, Latency]:
    """Return latencies that make a synchronization hang for ever."""
    hold = workplace.folder / "hold"
    hold.touch()
    return {"cuCtxSynchronize": Latency("hold", path=hold)}


def watches_of_the_dead() -> int:
    """Return how many of the pidfds that this process holds belong to processes that have ended."""
    count = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            count += "\nPid:\t-1\n" in info.read_text()
    return count


def test_calls_inside_which_a_process_is_killed_are_reported_once(
    workplace: Workplace, watched: WatchedMonitor
) -> None:
    caller = workplace.caller(latencies=held(workplace))
    caller.run(f"{LAUNCH}:100", threads=3, cycles=10)
    caller.start("cudaDeviceSynchronize", threads=2)
    both = ["cudaDeviceSynchronize", "cuCtxSynchronize"] * 2
    watched.until(lambda: watched.open_calls(caller.pid) == both, "both threads hang")
    watched.until(
        lambda: min(call.age_ns for call in watched.hung(caller.pid)) > ENDED_CALL_NS,
        "long enough to be reported",
    )
    hung = {(call.tid, call.operation): call for call in watched.hung(caller.pid)}
    caller.kill()
    watched.until(lambda: not watched.open_calls(caller.pid), "the calls are gone")
    for _ in range(2):
        watched.read()
    ended = [call for call in watched.ended if call.pid == caller.pid]
    assert sorted(call.operation for call in ended) == sorted(both), "each call is reported once"
    for call in ended:
        before = hung.pop((call.tid, call.operation))
        assert call == replace(before, age_ns=call.age_ns, ended=True)
        assert call.age_ns >= before.age_ns
    assert watched.calls(LAUNCH, caller.pid) == watched.calls(INNER, caller.pid) == 3000
    assert watched.calls("cudaDeviceSynchronize", caller.pid) == 0
    assert watched.lost["abandoned"] >= 4
    assert not watched.uncounted()


def test_a_process_killed_while_it_calls_keeps_its_counts(
    workplace: Workplace, watched: WatchedMonitor
) -> None:
    caller = workplace.caller()
    caller.run(LAUNCH, cycles=1000)
    caller.start(LAUNCH, threads=4)
    watched.until(lambda: watched.calls(LAUNCH, caller.pid) > 3000, "it calls")
    caller.kill()
    watched.read()
    total = watched.calls(LAUNCH, caller.pid)
    # Each of the four killed threads may have returned from its driver call but not yet from its runtime
    # call.
    assert 0 <= watched.calls(INNER, caller.pid) - total <= 4
    for _ in range(2):
        watched.read()
    assert watched.calls(LAUNCH, caller.pid) == total
    assert not watched.open_calls(caller.pid)
    assert not watched.uncounted()


@pytest.mark.parametrize("command", ["exec", "exec-thread"])
def test_exec_ends_open_calls_and_loses_none(
    workplace: Workplace, watched: WatchedMonitor, command: str
) -> None:
    caller = workplace.caller(latencies=held(workplace))
    caller.run(f"{LAUNCH}:7", threads=2, cycles=10)
    caller.start("cudaDeviceSynchronize")
    watched.until(lambda: len(watched.open_calls(caller.pid)) == 2, "a thread hangs")
    assert caller.do(command) == [str(caller.pid)], "the PID changed with the exec"
    watched.read()
    assert not watched.open_calls(caller.pid)
    caller.run(f"{LAUNCH}:9", threads=2, cycles=10)
    watched.read()
    assert watched.calls(LAUNCH, caller.pid) == watched.calls(INNER, caller.pid) == 140 + 180
    assert watched.lost["abandoned"] >= 2
    assert not watched.uncounted()


def test_calls_of_forked_children_are_counted(workplace: Workplace, watched: WatchedMonitor) -> None:
    cgroup = workplace.cgroup()
    caller = workplace.caller(cgroup=cgroup)
    caller.run(f"{LAUNCH}:5")
    caller.do(f"children 20 3 {LAUNCH}:2")
    caller.run(f"{LAUNCH}:5")
    watched.read()
    assert watched.calls(LAUNCH, caller.pid) == 10
    assert watched.calls(LAUNCH, cgroup) == watched.calls(INNER, cgroup) == 10 + 20 * 6
    assert len(watched.pids(cgroup)) == 21
    assert not watched.uncounted()


def test_two_thousand_processes_reuse_slots_and_are_forgotten(
    workplace: Workplace, watched: WatchedMonitor
) -> None:
    cgroup = workplace.cgroup()
    caller = workplace.caller(cgroup=cgroup)
    # Each of the 2000 processes takes two slots: in total four times as many as exist.
    for _ in range(20):
        caller.do(f"children 100 1 {LAUNCH}:3")
        watched.read()
        watched.read()
    assert not watched.uncounted()
    assert watched.calls(LAUNCH, cgroup) == watched.calls(INNER, cgroup) == 6000
    assert len(watched.pids(cgroup)) > 1900, "few PIDs were reused"
    caller.leave()  # the parent makes no calls, but stalltop follows it because it wakes its children
    watched.until(lambda: not watched.remembers(cgroup), "no tenant in the cgroup")
    watched.until(lambda: watches_of_the_dead() == 0, "no pidfd of an ended process")


def test_calls_of_short_programs_are_counted(workplace: Workplace, watched: WatchedMonitor) -> None:
    commands = workplace.folder / "commands"
    commands.write_text(f"burst 1 5 {LAUNCH}\nburst 2 1 {LAUNCH}\n")
    loop = """
        echo $$ >"$3/cgroup.procs"
        n=0
        while [ $n -lt 300 ]; do "$0" "$1" <"$2" >/dev/null || exit 1; n=$((n + 1)); done
    """
    built, cgroup = workplace.built, workplace.cgroup("containerd")
    arguments = (built.caller, built.folder, commands, cgroup)
    with subprocess.Popen(["/bin/sh", "-c", loop, *arguments]) as shell:
        watched.until(lambda: shell.poll() is not None, "all programs have run")
        assert shell.returncode == 0
    watched.read()
    assert watched.calls(LAUNCH, cgroup) == watched.calls(INNER, cgroup) == 300 * 7
    assert not watched.uncounted()


def test_calls_count_for_a_cgroup_that_was_removed(workplace: Workplace, watched: WatchedMonitor) -> None:
    first, later = workplace.cgroup(), workplace.cgroup("podman")
    caller = workplace.caller(cgroup=first)
    caller.run(f"{LAUNCH}:100")
    watched.read()
    (later / "cgroup.procs").write_text(str(caller.pid))
    first.rmdir()
    caller.run(f"{LAUNCH}:30", threads=2)
    watched.read()
    assert watched.calls(LAUNCH, first) == 100
    assert watched.calls(LAUNCH, later) == 60
    assert watched.calls(INNER, caller.pid) == 160
    assert not watched.uncounted()


def test_a_container_that_has_come_and_gone_between_two_windows_has_its_calls_and_its_id(
    workplace: Workplace, watched: WatchedMonitor
) -> None:
    watched.until(
        lambda: not any(CGROUPS_PART in line for line in watched.last.evidence.unknown), "the programs loaded"
    )
    full = container_id()
    folder = workplace.cgroup(identity=full)
    caller = workplace.caller(cgroup=folder)
    caller.run(f"{LAUNCH}:50")
    caller.kill()
    wait_until(lambda: "populated 0" in (folder / "cgroup.events").read_text(), what="an empty cgroup")
    folder.rmdir()
    watched.read()
    assert watched.calls(LAUNCH, caller.pid) == watched.calls(LAUNCH, folder) == 50
    assert f"docker:{full}" in watched.tenants
    assert not watched.uncounted()


def test_a_reused_pid_is_counted_and_forgotten(workplace: Workplace, watched: WatchedMonitor) -> None:
    last_number = Path("/proc/sys/kernel/ns_last_pid")
    cgroup = workplace.cgroup()
    early = workplace.caller(cgroup=cgroup, name="early")
    early.run(f"{LAUNCH}:100")
    early.kill()
    later = None
    for _ in range(1000):  # another program may take the PID first, so try again
        last_number.write_text(str(early.pid - 1))
        later = Caller(workplace.built, cgroup=cgroup, name="later")
        if later.pid == early.pid:
            break
        later.close()
    assert later is not None
    with later:
        assert later.pid == early.pid
        later.run(f"{LAUNCH}:10")
        watched.read()
        assert watched.calls(LAUNCH, early.pid) == 110, (
            "calls of both processes count in one row: until the first read they cannot be told apart"
        )
        later.run(f"{LAUNCH}:1")
        watched.read()
        assert watched.calls(LAUNCH, later.pid) == 111
    watched.until(lambda: not watched.remembers(cgroup), "no tenant in the cgroup of both processes")
    assert not watched.uncounted()


def test_a_process_whose_first_thread_has_ended_is_traced(
    workplace: Workplace, watched: WatchedMonitor
) -> None:
    """A process whose first thread has ended has an empty /proc/PID/maps and looks like a zombie."""
    program = workplace.folder / "leaderless"
    source = Path(__file__).resolve().parents[1] / "native" / "leaderless.c"
    subprocess.run([*compiler(), "-o", program, source, "-lpthread", "-ldl"], check=True, timeout=60)
    with subprocess.Popen(
        [program, workplace.built.cudart, LAUNCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: ") Z " in stat.read_text(), what="the end of the first thread")
        for made in range(1, 4):
            process.stdin.write(b"x" * 100)
            assert process.stdout.read(1) == b"."
            watched.read()
            assert watched.calls(LAUNCH, process.pid) == 100 * made
        assert {key.process for key in watched.last.rows.keys if key.pid == process.pid} == {"leaderless"}
    assert not watched.uncounted()
