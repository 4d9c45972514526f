"""Tests reports of stopped processes: which process stopped them, even if it did so long ago or has ended."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from stalltop.model.evidence import HOST_GAP
from stalltop.model.thread_evidence import FROZEN, NOBODY, STOPPED, TIMER, TRACED, Stop
from stalltop.model.window import SPLITS
from stalltop.probes.host.events import RawStop
from stalltop.probes.layout import How
from stalltop.probes.maps.raw import RawWait, RawWork
from stalltop.probes.operations import BETWEEN_CALLS
from stalltop.probes.tenants.owners import Owners
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import Tenants
from stalltop.probes.thread_reader import MOST_STOPPERS, ThreadReader

OWN = os.getpid()
CGROUP = 77_000_000
GAP = next(info.id for info in BETWEEN_CALLS if info.name == HOST_GAP)
OTHER = SPLITS.index("other")
GONE = 4_000_000
"""A PID above any that the Linux kernel assigns on a host of a few CPUs."""


@pytest.fixture
def reader() -> Iterator[ThreadReader]:
    tenants = Tenants()
    owners = Owners(tenants, ProcessNames())
    owners.begin(set())
    yield ThreadReader(owners)
    tenants.close()


def wait(how: How, pid: int = OWN, waker: int = 0) -> RawWait:
    return RawWait(pid, pid, CGROUP, GAP, OTHER, how, waker, waker, 1, 300_000_000, 1)


def test_a_wait_for_data_that_reached_its_limit_was_ended_by_a_timer(reader: ThreadReader) -> None:
    timed = wait(How.TIMED)._replace(part=SPLITS.index("network"))
    (made,) = reader.read([timed], [], []).waits
    assert (made.part, made.kind, made.waker) == ("network", TIMER, NOBODY)


def held(how: How, ns: int, pid: int = OWN, tid: int = OWN) -> RawWork:
    return RawWork(pid, tid, CGROUP, 0, (0,) * len(SPLITS), 0, how, ns)


def test_who_sent_the_signal_is_remembered(reader: ThreadReader) -> None:
    sent = RawStop(OWN, 0, 5, 1, GONE, 19, "supervisor")
    assert reader.read([], [], [sent]).stops == ()
    (stop,) = reader.read([wait(How.STOPPED)], [], []).stops
    assert (stop.pid, stop.kind, stop.signal, stop.still_ns) == (OWN, STOPPED, "SIGSTOP", 0)
    assert (stop.by.pid, stop.by.process) == (GONE, "supervisor")


def test_the_freezer_of_a_cgroup_is_another_stop_than_a_signal(reader: ThreadReader) -> None:
    frozen = RawStop(0, CGROUP, 5, 1, GONE, 0, "runc")
    found = reader.read([wait(How.STOPPED)], [held(How.FROZEN, 9)], [frozen]).stops
    assert found[0] == Stop(OWN, STOPPED)
    assert (found[1].kind, found[1].by.process, found[1].signal, found[1].still_ns) == (FROZEN, "runc", "", 9)


def test_the_longest_stop_of_the_threads_of_a_process_counts(reader: ThreadReader) -> None:
    works = [held(How.STOPPED, 5), held(How.STOPPED, 8, tid=OWN + 1), held(How.STOPPED, 3, tid=OWN + 2)]
    (stop,) = reader.read([], works, []).stops
    assert stop.still_ns == 8


def test_the_signal_of_a_terminal_has_no_sender(reader: ThreadReader) -> None:
    typed = RawStop(OWN, 0, 5, 0, 0, 20, "")
    (stop,) = reader.read([wait(How.STOPPED)], [], [typed]).stops
    assert (stop.by, stop.signal) == (NOBODY, "SIGTSTP")


def test_the_debugger_of_a_process_is_named() -> None:
    script = "import sys; print(flush=True); sys.stdin.read()"
    libc = ctypes.CDLL(None)
    tenants = Tenants()
    owners = Owners(tenants, ProcessNames())
    owners.begin(set())
    reader = ThreadReader(owners)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as traced:
        assert traced.stdout is not None
        traced.stdout.readline()
        assert libc.ptrace(16, traced.pid, None, None) == 0  # PTRACE_ATTACH
        os.waitpid(traced.pid, os.WUNTRACED)
        (stop,) = reader.read([], [held(How.TRACED, 7, traced.pid, traced.pid)], []).stops
        assert (stop.kind, stop.by.pid, stop.still_ns) == (TRACED, OWN, 7)
        assert libc.ptrace(17, traced.pid, None, None) == 0  # PTRACE_DETACH
        (stop,) = reader.read([wait(How.TRACED, traced.pid, waker=OWN)], [], []).stops
        assert stop.by.pid == OWN, "the process that let the traced one continue"
    tenants.close()


def test_only_the_last_stoppers_are_remembered(reader: ThreadReader) -> None:
    first = RawStop(OWN, 0, 5, 1, GONE, 19, "first")
    later = [RawStop(GONE + number, 0, 6, 1, GONE, 19, "later") for number in range(MOST_STOPPERS)]
    (stop,) = reader.read([wait(How.STOPPED)], [], [first, *later]).stops
    assert stop.by == NOBODY
