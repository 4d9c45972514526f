"""Tests that run-queue time is charged to the process and cgroup that had the CPU, for as long as they had
it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from bench.measuring.cpu import cpu_ns
from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.probes.maps.charges import KEEP_SECONDS, Charges
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import compile_library
from tests.kernel.relays import Relay, RelayTotals, tracing
from tests.kernel.traced_program import wait_until

CPUS = sorted(os.sched_getaffinity(0))
SPIN_MS = 25
CALLS = 40
ROUNDS = 5


@pytest.fixture
def tenants() -> Iterator[tuple[Path, Path]]:
    """Make the cgroups of a victim and of a culprit."""
    with Cgroups() as cgroups:
        yield tuple(cgroups.make(container_path("docker", container_id())) for _ in range(2))  # type: ignore[misc]


def test_the_time_charged_is_the_cpu_time_of_the_culprit(
    kernel: KernelSide, relay: Path, tenants: tuple[Path, Path]
) -> None:
    mine, others = tenants
    ratios = []
    with (
        Relay(relay, "spin", SPIN_MS, CALLS, cgroup=mine, cpu=CPUS[0]) as victim,
        Relay(relay, "hog", cgroup=others, cpu=CPUS[0]) as hog,
    ):
        victim("")
        for _ in range(ROUNDS):
            kernel.read()
            kernel.evidence.charges()
            told = RelayTotals(kernel)
            before = cpu_ns(hog.pid)
            victim("")
            spent = cpu_ns(hog.pid) - before
            told.read()
            own = [charge for charge in told.charges if charge.tgid == victim.pid]
            assert {charge.cgroup_id for charge in own} == {mine.stat().st_ino}
            by_hog = [charge for charge in own if charge.culprit_tgid == hog.pid]
            assert {charge.culprit_cgroup_id for charge in by_hog} == {others.stat().st_ino}
            lost = told.rows[victim.pid, "spin"].parts["runqueue"]
            charged = sum(told.charged(victim.pid, "runqueue", "spin").values())
            assert lost >= 0.2 * told.rows[victim.pid, "spin"].total_ns
            assert charged <= lost
            ratios.append((charged / lost, told.charged(victim.pid, "runqueue")[hog.pid] / spent))
    # In a single round the hog's CPU time and the time charged to it may differ, for instance if the hog also
    # ran while the victim did not wait. So compare the median over the rounds.
    for sort in zip(*ratios, strict=True):
        assert 0.98 <= median(sort) <= 1.02, ratios


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU: no thread can move to another")
def test_a_wait_over_several_cpus_is_charged_to_the_culprits_on_each(
    kernel: KernelSide, relay: Path, tenants: tuple[Path, Path]
) -> None:
    mine, others = tenants
    pair = (CPUS[0], CPUS[-1])
    with (
        Relay(relay, "spin", 4 * SPIN_MS, 20, cgroup=mine) as victim,
        Relay(relay, "hog", cgroup=others, cpu=pair[0]) as one,
        Relay(relay, "hog", cgroup=others, cpu=pair[1]) as other,
    ):
        told = RelayTotals(kernel)
        victim.send("")
        turn = 0
        while told.read().rows[victim.pid, "spin"].calls < 20:
            turn += 1
            os.sched_setaffinity(victim.pid, {pair[turn % 2]})
            time.sleep(0.003)
        victim._answer()
        told.read()
    lost = told.rows[victim.pid, "spin"].parts["runqueue"]
    charged = told.charged(victim.pid, "runqueue", "spin")
    # The BPF programs remember only the last switches of a CPU. If there were more during a wait, its
    # beginning is charged to no process: the charge may be too small, never too large.
    assert 0.3 * lost <= sum(charged.values()) <= lost, (charged, lost)
    assert charged[one.pid] > 0, (charged, lost)
    assert charged[other.pid] > 0, (charged, lost)


@pytest.mark.skipif(len(CPUS) < 2, reason="one CPU: no thread can move to another")
def test_a_move_charges_no_more_than_the_wait(relay: Path) -> None:
    """The test suppresses the sched_switch event with which the moved thread gets its new CPU, because such
    an event can be missing."""

    def moved() -> bool:
        kernel = tracing(relay)
        told = RelayTotals(kernel)
        programs = kernel._programs
        try:
            with (
                Relay(relay, "spin", 20, 1, cpu=CPUS[0]) as victim,
                Relay(relay, "hog", cpu=CPUS[0]),
                Relay(relay, "hog", cpu=CPUS[-1]),
            ):
                os.sched_setscheduler(victim.pid, os.SCHED_IDLE, os.sched_param(0))
                victim.send("")
                wait_until(lambda: bool((programs.threads["tgid"] == victim.pid).any()), "its record")
                records = programs.threads
                (place,) = (records["tgid"] == victim.pid).nonzero()[0]
                wait_until(lambda: bool(records["waiting_ns"][place]), "a wait for the CPU")
                time.sleep(0.005)
                os.sched_setaffinity(victim.pid, {CPUS[-1]})
                waits = int(records["waiting_ns"][place])
                os.close(kernel._probing._tracepoints.pop())  # closes the link to sched_switch
                unseen = waits != 0 and int(records["waiting_ns"][place]) == waits
                os.sched_setscheduler(victim.pid, os.SCHED_OTHER, os.sched_param(0))
                victim._answer()
                told.read()
            charged = sum(told.charged(victim.pid, "runqueue", "spin").values())
            lost = told.rows[victim.pid, "spin"].parts["runqueue"]
            assert charged <= lost
            assert charged > 0 or not unseen
            return unseen
        finally:
            kernel.close()

    wait_until(moved, "a thread that was moved while it waited")


PING_PONG = """
import os
one, other = os.pipe(), os.pipe()
to, fro = (one[1], other[0]) if os.fork() else (other[1], one[0])
os.write(to, b"-")
while os.read(fro, 1):
    os.write(to, b"-")
"""
"""A program of two processes that wake each other in turn, so that their CPU switches very often."""


def test_waits_longer_than_the_kept_slices_are_counted_as_losses(kernel: KernelSide, relay: Path) -> None:
    with Relay(relay, "spin", 5, 1, cpu=CPUS[0]) as victim:
        victim("")
        os.sched_setscheduler(victim.pid, os.SCHED_IDLE, os.sched_param(0))
        pair = subprocess.Popen(
            [sys.executable, "-c", PING_PONG],
            preexec_fn=lambda: os.sched_setaffinity(0, {CPUS[0]}),
            start_new_session=True,
        )
        try:

            def lost() -> bool:
                kernel.read()
                kernel.evidence.charges()
                kernel.losses()
                told = RelayTotals(kernel)
                victim("")
                told.read()
                losses = kernel.losses()
                uncharged = losses["uncharged_ns"]
                ns = told.rows[victim.pid, "spin"].parts["runqueue"]
                charged = sum(told.charged(victim.pid, "runqueue", "spin").values())
                assert charged <= ns
                assert charged + uncharged >= 0.95 * ns, (ns, charged, losses)
                return losses["no_slice"] > 0 and uncharged > 0

            wait_until(lost, "a wait of more switches than are remembered")
        finally:
            os.killpg(pair.pid, signal.SIGKILL)
            pair.wait()


def test_a_thread_that_ends_no_longer_waits_for_a_cpu(relay: Path) -> None:
    """The test suppresses the sched_switch event with which the thread got a CPU for the last time, because
    such an event can be missing."""

    def one_ends() -> bool:
        kernel = tracing(relay)
        programs = kernel._programs
        try:
            with Relay(relay, "spin", 1, 100_000, cpu=CPUS[0]) as victim, Relay(relay, "hog", cpu=CPUS[0]):
                os.sched_setscheduler(victim.pid, os.SCHED_IDLE, os.sched_param(0))
                victim.send("")
                wait_until(lambda: bool((programs.threads["tgid"] == victim.pid).any()), "its record")
                records = programs.threads
                (place,) = (records["tgid"] == victim.pid).nonzero()[0]
                wait_until(lambda: bool(records["waiting_ns"][place]), "a wait for the CPU")
                os.close(kernel._probing._tracepoints.pop())  # closes the link to sched_switch
                waited = bool(records["waiting_ns"][place])
                victim.process.kill()
                wait_until(lambda: not records["tid"][place], "the end of its record")
                wait_until(lambda: not records["waiting_ns"][place], "the end of its wait")
                return waited
        finally:
            kernel.close()

    wait_until(one_ends, "a thread that waited when switches were no longer reported")


def test_threads_of_a_process_are_their_own_culprits(kernel: KernelSide, relay: Path) -> None:
    with Relay(relay, "crowd", 200, 4, cpu=CPUS[0]) as program:
        program("")
        told = RelayTotals(kernel).read()
    charged = told.charged(program.pid, "runqueue")
    assert charged[program.pid] > 0, charged
    assert told.rows[program.pid, "spin"].calls == 4


def test_charges_of_ended_processes_are_freed(kernel: KernelSide, relay: Path) -> None:
    charges = kernel.evidence._charges
    assert isinstance(charges, Charges)
    told = RelayTotals(kernel)

    def hindered() -> bool:
        victim("")
        return hog.pid in told.read().charged(victim.pid, "runqueue")

    with Relay(relay, "spin", 5, 4, cpu=CPUS[0]) as victim, Relay(relay, "hog", cpu=CPUS[0]) as hog:
        wait_until(hindered, "time charged to the hog")
    array = charges._charges

    def kept(pid: int) -> bool:
        return bool(((array["key"]["culprit_tgid"] == pid) & (array["times"] != 0)).any())

    assert kept(hog.pid)
    kernel.release(hog.pid)

    def given_back() -> bool:
        kernel.evidence.charges()
        return not kept(hog.pid)

    wait_until(given_back, "the charges of an ended process freed")
    # Charges that have not grown for KEEP_SECONDS are freed, though the victim is not released.
    clock = charges._clock
    charges._clock = lambda: clock() + KEEP_SECONDS
    kernel.evidence.charges()
    charges._clock = lambda: clock() + 2 * KEEP_SECONDS

    def forgotten() -> bool:
        kernel.evidence.charges()
        return not ((array["key"]["tgid"] == victim.pid) & (array["times"] != 0)).any()

    wait_until(forgotten, "old charges freed")


# The last test: its victim uses up so many records of charges that its new culprits are charged by cgroup.
SHORT_LIVED = """
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

int main(void)
{
    for (;;) {
        if (!fork()) {
            for (long end = now() + 50000; now() < end;)
                ;
            _exit(0);
        }
        wait(NULL);
    }
}
"""
"""A program that starts a new process as soon as the last one has run for 50 µs."""


def test_waits_for_short_lived_processes_are_charged_to_their_cgroup(
    kernel: KernelSide, relay: Path, tenants: tuple[Path, Path], tmp_path: Path
) -> None:
    short_lived = compile_library(SHORT_LIVED, tmp_path / "short_lived", "-no-shared")
    mine, others = tenants
    rounds = []
    with Relay(relay, "spin", SPIN_MS, CALLS, cgroup=mine, cpu=CPUS[0]) as victim:
        victim("")

        def move() -> None:
            (others / "cgroup.procs").write_text(str(os.getpid()))
            os.sched_setaffinity(0, {CPUS[0]})

        programs = [
            subprocess.Popen([short_lived], preexec_fn=move, start_new_session=True) for _ in range(3)
        ]
        try:
            for _ in range(ROUNDS):
                kernel.read()
                kernel.evidence.charges()
                kernel.losses()
                told = RelayTotals(kernel)
                victim("")
                told.read()
                uncharged = kernel.losses()["uncharged_ns"]
                lost = told.rows[victim.pid, "spin"].parts["runqueue"]
                charged = sum(told.charged(victim.pid, "runqueue", "spin").values())
                assert charged <= lost
                assert charged + uncharged >= 0.95 * lost
                by_others = [
                    charge.ns for charge in told.charges if charge.culprit_cgroup_id == others.stat().st_ino
                ]
                rounds.append((charged / lost, sum(by_others) / charged))
        finally:
            for program in programs:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
    # Other programs on the machine take some of the time, too, and those of many cgroups in turn leave waits
    # uncharged. So compare the median over the rounds.
    charged_share, by_others_share = map(median, zip(*rounds, strict=True))
    assert charged_share >= 0.9, rounds
    assert by_others_share >= 0.7, rounds
