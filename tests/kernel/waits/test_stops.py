"""Tests what stalltop measures of a program that another process stops by a signal, a debugger or a
freezer."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.model.window import SPLITS
from stalltop.probes.host.events import HostEvents, RawStop
from stalltop.probes.host.parts import PARTS
from stalltop.probes.layout import How
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.harness import wait_until
from tests.kernel.relays import Relay

STOPPED_SECONDS = 0.5
TIMES = 200
"""Rounds of the relay. Each takes at least 7 ms, so that the relay still runs when it is stopped and
continued."""
FREEZER = Path("/sys/fs/cgroup/freezer")
ATTACH = """
import ctypes, os, sys, time
libc, pid, wall = ctypes.CDLL(None, use_errno=True), int(sys.argv[1]), 0x40000000
assert not libc.ptrace(16, pid, None, None)
os.waitpid(pid, wall)
time.sleep(float(sys.argv[2]))
assert not libc.ptrace(17, pid, None, None)
"""
"""A program that stops a process as a debugger does: PTRACE_ATTACH (16), later PTRACE_DETACH (17), as in
linux/ptrace.h."""


@dataclass(frozen=True)
class StoppedCgroups:
    """The cgroups of the program that is stopped."""

    unified: Path
    frozen: Path | None
    """The cgroup in the freezer hierarchy of cgroup v1; None if this host has no such hierarchy."""


@pytest.fixture
def cell() -> Iterator[StoppedCgroups]:
    path = container_path("docker", container_id())
    with contextlib.ExitStack() as stack:
        unified = stack.enter_context(Cgroups()).make(path)
        legacy = stack.enter_context(Cgroups(FREEZER)).make(path) if FREEZER.is_dir() else None
        yield StoppedCgroups(unified, legacy)


@pytest.fixture(scope="module")
def host() -> Iterator[HostEvents]:
    host = HostEvents(tuple(part for part in PARTS if part.flag == "WITH_STOPS"))
    host.begin()
    wait_until(lambda: host.loaded, what="the programs to be loaded")
    assert host.unknown == ()
    yield host
    host.close()


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def commands(how: str, pid: int, cell: StoppedCgroups) -> list[str]:
    """Return a command that stops ``pid`` in the way ``how`` for `STOPPED_SECONDS` and then continues it."""
    match how:
        case "signal":
            return shell(f"kill -STOP {pid}; sleep {STOPPED_SECONDS}; kill -CONT {pid}")
        case "debugger":
            return [sys.executable, "-c", ATTACH, str(pid), str(STOPPED_SECONDS)]
        case "freezer v2":
            switch = cell.unified / "cgroup.freeze"
            return shell(f"echo 1 >{switch}; sleep {STOPPED_SECONDS}; echo 0 >{switch}")
        case _:
            assert cell.frozen is not None
            switch = cell.frozen / "freezer.state"
            return shell(f"echo FROZEN >{switch}; sleep {STOPPED_SECONDS}; echo THAWED >{switch}")


def join(pid: int, place: Path) -> None:
    (place / "cgroup.procs").write_text(str(pid))


@pytest.mark.parametrize(
    ("how", "told", "signals"),
    [
        ("signal", How.STOPPED, [signal.SIGSTOP]),
        ("debugger", How.TRACED, [signal.SIGSTOP]),
        ("freezer v2", How.FROZEN, [0]),
        ("freezer v1", How.FROZEN, []),
    ],
)
def test_a_stop_is_measured_with_who_did_it(
    kernel: KernelSide,
    relay: Path,
    host: HostEvents,
    cell: StoppedCgroups,
    how: str,
    told: How,
    signals: list[int],
) -> None:
    if how == "freezer v1" and cell.frozen is None:
        pytest.skip("this host has no freezer of cgroup v1")
    with Relay(relay, "relay", TIMES, cgroup=cell.unified) as program:
        source, worker = program.said
        if cell.frozen is not None:
            for pid in (program.pid, source, worker):
                join(pid, cell.frozen)
        host.read()
        program.send("")
        time.sleep(0.3)
        stopper = subprocess.Popen(commands(how, program.pid, cell))
        assert stopper.wait(60) == 0
        program._answer()
        kernel.evidence.charges()
        waits = kernel.evidence.waits()
        stops = host.read().stops
    ns = Counter[tuple[str, int, int]]()
    for wait in waits:
        if wait.tgid == program.pid:
            ns[SPLITS[wait.part], wait.how, wait.waker_tgid] += wait.ns
    assert ns["other", told, stopper.pid] >= 0.9 * STOPPED_SECONDS * 1e9, ns
    target = cell.unified.stat().st_ino if how == "freezer v2" else 0
    about = [stop for stop in stops if (stop.cgroup_id, stop.tgid) in ((target, 0), (0, program.pid))]
    assert [(stop.by_tgid, stop.signal) for stop in about] == [(stopper.pid, number) for number in signals]


def test_a_child_that_goes_on_has_kept_its_parent_waiting(
    kernel: KernelSide, relay: Path, cell: StoppedCgroups
) -> None:
    """When the stopped child continues, SIGCHLD ends the parent's wait before the child has sent any data."""
    with Relay(relay, "relay", TIMES) as program:
        _, worker = program.said
        program.send("")
        time.sleep(0.3)
        stopper = subprocess.Popen(commands("signal", worker, cell))
        assert stopper.wait(60) == 0
        program._answer()
        kernel.evidence.charges()
        waits = kernel.evidence.waits()
    ns = Counter[int]()
    for wait in waits:
        if (wait.tgid, SPLITS[wait.part]) == (program.pid, "process"):
            ns[wait.waker_tgid] += wait.ns
    assert ns[worker] >= 0.9 * STOPPED_SECONDS * 1e9
    assert ns[0] <= 0.1 * STOPPED_SECONDS * 1e9, ns


@pytest.mark.parametrize(("how", "told"), [("signal", How.STOPPED), ("freezer v2", How.FROZEN)])
def test_a_stop_is_told_while_it_lasts(
    kernel: KernelSide, relay: Path, cell: StoppedCgroups, how: str, told: How
) -> None:
    with Relay(relay, "relay", TIMES, cgroup=cell.unified) as program:
        program.send("")
        time.sleep(0.3)
        stopper = subprocess.Popen(commands(how, program.pid, cell))

        def held() -> dict[int, int]:
            works = kernel.evidence.works()
            return {work.held: work.held_ns for work in works if work.tid == program.pid and work.held}

        wait_until(lambda: told in held(), what="a thread that is held")
        time.sleep(STOPPED_SECONDS / 5)
        assert held()[told] >= 0.9 * STOPPED_SECONDS / 5 * 1e9
        assert stopper.wait(60) == 0
        program._answer()
        assert told not in held()


def test_the_signal_of_a_terminal_has_no_sender(host: HostEvents) -> None:
    """On Ctrl-Z the Linux kernel itself sends the signal, so the sender is PID 0 and not the user's
    program."""
    script = (
        "import os, pty, time; pid, fd = pty.fork()\n"
        "if not pid: os.execv('/bin/sleep', ['sleep', '60'])\n"
        "time.sleep(0.5); os.write(fd, b'\\x1a'); time.sleep(0.5)\n"
        "os.kill(pid, 9); print(pid)"
    )
    typed = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=60)
    pid = int(typed.stdout)
    found: list[RawStop] = [stop for stop in host.read().stops if stop.tgid == pid]
    assert [(stop.by_tgid, stop.signal) for stop in found] == [(0, signal.SIGTSTP)]
