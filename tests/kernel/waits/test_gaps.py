"""Tests that host gaps contain all time between calls by the caller's clock, even if the thread is moved,
stopped or signalled in between."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from stalltop.model.evidence import HOST_GAP
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.relays import Relay, RelayTotals
from tests.kernel.traced_program import lost, wait_until

OUTER_CALLS = 200_000
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
HELD_SECONDS = 0.05


@pytest.mark.parametrize(("calls", "us"), [(20_000, 0), (500, 200)])
def test_gaps_match_the_callers_clock(kernel: KernelSide, relay: Path, calls: int, us: int) -> None:
    with Relay(relay, "gaps", calls, us) as program:
        in_calls, between, wall = program("")
        told = RelayTotals(kernel).read()
    gap, inner = told.rows[program.pid, HOST_GAP], told.rows[program.pid, "inner"]
    assert (gap.calls, inner.calls) == (calls - 1, calls)
    # The caller's clock counts the time of the probes as part of its calls. Our rows count this time in the
    # gap after the call, or not at all.
    assert between <= gap.total_ns <= between + in_calls - inner.total_ns
    assert gap.total_ns + inner.total_ns <= wall
    assert gap.parts["running"] + gap.parts["runqueue"] >= 0.99 * gap.total_ns
    assert not lost(kernel)


class Disturbed(threading.Thread):
    """Moves, stops and signals a process until ``ending`` is set."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="disturber")
        self.pid = pid
        self.ending = threading.Event()

    def run(self) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        turn = 0
        while not self.ending.wait(0.001):
            turn += 1
            os.sched_setaffinity(self.pid, {cpus[turn % len(cpus)]})
            os.kill(self.pid, signal.SIGUSR1)
            if turn % 16 == 0:
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(0.002)
                os.kill(self.pid, signal.SIGCONT)


def test_calls_and_gaps_add_up_to_the_whole_time(kernel: KernelSide, relay: Path) -> None:
    with Relay(relay, "many", OUTER_CALLS) as program:
        told = RelayTotals(kernel)
        disturber = Disturbed(program.pid)
        disturber.start()
        try:
            program.send("")
            while told.read().rows[program.pid, "outer"].calls < OUTER_CALLS:
                assert program.process.poll() is None
                assert disturber.is_alive()
                time.sleep(0.05)
        finally:
            disturber.ending.set()
            disturber.join()
            os.kill(program.pid, signal.SIGCONT)
        (wall,) = program._answer()
        told.read()
    rows = [told.rows[program.pid, name] for name in ("outer", "inner", HOST_GAP)]
    calls = sum(row.calls for row in rows[:2])
    assert rows[0].calls == OUTER_CALLS
    assert rows[2].calls == calls - 1
    counted = sum(row.total_ns for row in rows)
    # ``read`` has checked that the parts of each row add up to its time. This line checks that the times of
    # all rows add up to the elapsed time.
    assert wall - 1000 * calls <= counted <= wall
    assert not lost(kernel)


def test_a_stop_by_a_debugger_is_in_the_part_other(kernel: KernelSide, relay: Path) -> None:
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with Relay(relay, "spin", 400, 1) as program:
        program.send("")
        wait_until(lambda: bool(kernel.open_calls()), "the call begun")
        assert ptrace(PTRACE_SEIZE, program.pid, None, None) == 0
        assert ptrace(PTRACE_INTERRUPT, program.pid, None, None) == 0
        wait_until(lambda: os.waitpid(program.pid, os.WNOHANG)[0] == program.pid, "the process stopped")
        time.sleep(HELD_SECONDS)
        assert ptrace(PTRACE_DETACH, program.pid, None, None) == 0
        program._answer()
        row = RelayTotals(kernel).read().rows[program.pid, "spin"]
    assert row.calls == 1
    assert row.parts["other"] >= HELD_SECONDS * 1e9


def test_sums_stay_exact_when_a_process_is_killed_in_a_call(kernel: KernelSide, relay: Path) -> None:
    told = RelayTotals(kernel)
    for _ in range(5):
        with Relay(relay, "spin", 20, 1000) as program:
            program.send("")
            wait_until(lambda: told.read().rows[program.pid, "spin"].calls > 2, "calls counted")
        told.read()  # ``read`` checks the sums
        assert told.rows[program.pid, HOST_GAP].calls >= told.rows[program.pid, "spin"].calls - 1
        kernel.release(program.pid)
    assert set(lost(kernel)) <= {"abandoned"}
