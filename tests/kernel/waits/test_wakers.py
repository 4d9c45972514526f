"""Tests that waits are charged to the thread that ended them, and how such threads are followed and split."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from stalltop.model.evidence import HOST_GAP, HOST_WORK
from stalltop.model.window import SPLITS
from stalltop.probes.layout import LIKELY_THREADS, How
from stalltop.probes.programs import loading
from stalltop.probes.programs.bpf_calls import get, put
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.relays import Relay, RelayTotals
from tests.kernel.traced_program import FUNCTIONS, TracedProgram, lost, points, wait_until

WAIT = ("off_since_ns", "woken_ns", "waiting_ns")
"""Members of the record of a thread that say since when it waits."""
TIMES = 60
REST_NS, WORK_NS = 4_000_000, 3_000_000
"""REST_MS and WORK_MS of native/relay.c in ns."""


def test_a_chain_of_processes_is_followed_to_its_root(kernel: KernelSide, relay: Path) -> None:
    with Relay(relay, "relay", TIMES) as caller:
        source, worker = caller.said
        caller("")
        told = RelayTotals(kernel).read()
        links = kernel.evidence.links()
    assert (links[caller.pid], links[worker], links[source]) == (0, 1, 2)
    # Each gap of the caller lasts until the worker wakes it.
    gap = told.rows[caller.pid, HOST_GAP]
    assert gap.calls == TIMES
    assert gap.total_ns >= TIMES * (REST_NS + WORK_NS)
    assert gap.parts["process"] >= 0.9 * (gap.total_ns - gap.parts["runqueue"])
    assert told.charged(caller.pid, "process", HOST_GAP)[worker] >= 0.99 * gap.parts["process"]
    # The worker computes after the source wakes it. Its record begins when the worker first wakes another
    # thread, so the first round is missing.
    work = told.rows[worker, HOST_WORK]
    assert work.calls == TIMES - 1
    assert work.parts["running"] >= work.calls * WORK_NS * 0.98
    assert work.parts["process"] >= work.calls * REST_NS * 0.9
    assert told.charged(worker, "process", HOST_WORK)[source] >= 0.95 * work.parts["process"]
    # The source sleeps, for which no process is charged, and then waits until the caller begins a new round.
    rest = told.rows[source, HOST_WORK]
    assert TIMES - 3 <= rest.calls <= TIMES - 1
    # The clock has ticks of a few µs, so one tick may be missing at each end of a piece of host work.
    assert rest.parts["sleep"] >= rest.calls * REST_NS * 0.98
    assert told.charged(source, "sleep") == {}
    (slept,) = [
        wait for wait in kernel.evidence.waits() if wait.tgid == source and SPLITS[wait.part] == "sleep"
    ]
    assert slept.waker_tgid == 0
    assert rest.calls - 1 <= slept.times <= TIMES
    assert slept.ns >= slept.times * REST_NS
    assert told.charged(source, "process", HOST_WORK)[caller.pid] >= 0.95 * rest.parts["process"]
    assert not lost(kernel)


def test_threads_that_wait_for_each_other_with_locks_are_followed(kernel: KernelSide, relay: Path) -> None:
    with Relay(relay, "locks", TIMES) as program:
        program("")
        told = RelayTotals(kernel).read()
        assert kernel.evidence.links()[program.pid] == 0
    gap, work = told.rows[program.pid, HOST_GAP], told.rows[program.pid, HOST_WORK]
    assert gap.calls == TIMES
    assert gap.parts["lock"] >= 0.9 * (gap.total_ns - gap.parts["runqueue"])
    assert told.charged(program.pid, "lock", HOST_GAP)[program.pid] >= 0.99 * gap.parts["lock"]
    # Of the two threads that do host work, one sleeps and the other computes.
    assert work.calls >= 2 * TIMES - 5
    assert work.parts["sleep"] >= (TIMES - 3) * REST_NS
    assert work.parts["running"] >= (TIMES - 3) * WORK_NS * 0.98


def test_a_wait_for_data_that_reached_its_limit_was_ended_by_a_timer(kernel: KernelSide, relay: Path) -> None:
    """The caller waits twice without data until a timer ends the wait, and once for its child, which answers
    before the limit."""
    with Relay(relay, "limits", TIMES) as caller:
        (child,) = caller.said
        caller("")
        RelayTotals(kernel).read()
        waits = [wait for wait in kernel.evidence.waits() if SPLITS[wait.part] == "network"]
    timed = [wait for wait in waits if wait.tgid == caller.pid and wait.how == How.TIMED]
    (answered,) = (wait for wait in waits if wait.tgid == caller.pid and wait.waker_tgid == child)
    assert {wait.waker_tgid for wait in timed} == {0}
    # On a busy host, a thread may be late to leave its CPU: then its wait seems shorter than the limit.
    assert 1.8 * TIMES <= sum(wait.times for wait in timed) <= 2 * TIMES
    assert sum(wait.ns for wait in timed) >= 1.8 * TIMES * REST_NS * 0.95
    assert (answered.how, answered.times) == (How.PLAIN, TIMES)
    assert not lost(kernel)


def test_a_read_write_lock_is_known_as_held(kernel: KernelSide, relay: Path) -> None:
    with Relay(relay, "shared", TIMES) as program:
        program("")
        RelayTotals(kernel).read()
        waits = [wait for wait in kernel.evidence.waits() if SPLITS[wait.part] == "lock"]
    (held,) = (wait for wait in waits if wait.tid == wait.tgid == program.pid)
    assert (held.how, held.waker_tgid, held.times) == (How.HELD, program.pid, TIMES)
    assert held.ns >= 0.9 * TIMES * REST_NS


def test_a_followed_process_that_starts_to_call_becomes_a_caller(kernel: KernelSide, relay: Path) -> None:
    with Relay(relay, "caller", TIMES) as parent:
        (child,) = parent.said
        parent("")
        told = RelayTotals(kernel).read()
        assert kernel.evidence.links()[child] == 0
    # The child wakes its parent before it makes its first call, so it has host work as well as calls.
    assert told.rows[child, HOST_WORK].calls > 0
    assert told.rows[child, "inner"].calls == TIMES
    assert told.rows[child, HOST_GAP].calls == TIMES - 1


def test_a_caller_that_calls_no_more_is_followed_until_it_calls_again(
    kernel: KernelSide, relay: Path
) -> None:
    with Relay(relay, "server", TIMES) as server:
        (child,) = server.said
        totals = RelayTotals(kernel).read()
        assert totals.rows[server.pid, "inner"].calls == 1
        let_gap_begin_at_boot(kernel, server.pid)
        server("")
        totals.read()
        links = kernel.evidence.links()
        assert (links[child], links[server.pid]) == (0, 1)
        # The server's first wake-up makes it followed. Then each piece of host work is a rest and a wait for
        # the child's answer.
        work = totals.rows[server.pid, HOST_WORK]
        assert work.calls == TIMES - 1
        assert work.parts["sleep"] >= work.calls * REST_NS * 0.98
        assert totals.charged(server.pid, "process", HOST_WORK)[child] >= work.calls * REST_NS * 0.9
        assert totals.charged(child, "process", HOST_GAP)[server.pid] >= (TIMES - 2) * REST_NS * 0.9
        assert (server.pid, HOST_GAP) not in totals.rows
        let_gap_begin_at_boot(kernel, server.pid)  # it has been idle for so long that it is not followed
        server("")
        totals.read()
        assert kernel.evidence.links()[server.pid] == 0
        assert totals.rows[server.pid, "inner"].calls == 3
        assert totals.rows[server.pid, HOST_GAP].calls == 1
        assert totals.rows[server.pid, HOST_WORK].calls == TIMES - 1
    assert not lost(kernel)


def let_gap_begin_at_boot(kernel: KernelSide, pid: int) -> None:
    """Let the host gap or host work of the process ``pid`` begin when the machine started: too long ago."""
    threads = kernel._programs.threads
    (place,) = np.flatnonzero(threads["tgid"] == pid)
    threads["gap_ns"][place] = 1


def test_a_thread_that_took_over_a_record_does_not_wake_with_its_former_thread(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test brings about what a program on another CPU may see: it has found the record of a thread that
    has just ended, and another thread has got the record."""
    maps: dict[str, int] = {}
    load = loading.load_prepared

    def loaded(*arguments: Any, **options: Any) -> loading.Loaded:
        found = load(*arguments, **options)
        maps.update({name: os.dup(found.fds[name]) for name in ("thread_of", "likely_thread_of")})
        return found

    monkeypatch.setattr(loading, "load_prepared", loaded)
    kernel = KernelSide(slots=64, threads=64, functions=FUNCTIONS)
    library = driver.with_name("libtraced.so")

    def place(program: TracedProgram) -> int:
        return int(np.flatnonzero(kernel._programs.threads["tid"] == program.pid)[0])

    def record(program: TracedProgram) -> np.void:
        return cast(np.void, kernel._programs.threads[place(program)].copy())

    def put_record(tid: int, index: int) -> None:
        put(maps["thread_of"], np.uint32(tid).tobytes(), np.uint32(index).tobytes())
        likely = np.uint32(tid & LIKELY_THREADS - 1).tobytes()
        (_, count) = np.frombuffer(get(maps["likely_thread_of"], likely, 8), np.uint32)
        put(maps["likely_thread_of"], likely, np.array([index, count], np.uint32).tobytes())

    try:
        assert not kernel.attach(str(library), points(library)).failed
        with TracedProgram(driver) as asleep, TracedProgram(driver) as woken:
            for program in (asleep, woken):
                program("call plain 1")
            wait_until(lambda: bool(record(asleep)["off_since_ns"]), "a thread asleep")
            own, before = place(woken), record(asleep)
            put_record(woken.pid, place(asleep))
            woken("tid")
            after = record(asleep)
            assert [after[name] for name in WAIT] == [before[name] for name in WAIT]
            put_record(woken.pid, own)
    finally:
        kernel.close()
        for fd in maps.values():
            os.close(fd)
