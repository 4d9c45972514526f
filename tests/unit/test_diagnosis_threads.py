"""Tests how waits are followed from thread to thread: hand-overs, locks, servers, sleeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.attribution import Attribution
from stalltop.diagnosis.host.losses import Loss
from stalltop.diagnosis.host.waits import waits
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, HOST_WORK, ProcessUse, TenantUse
from stalltop.model.thread_evidence import (
    ENDED,
    FROZEN,
    HAND_OVER,
    HELD_BACK,
    NOBODY,
    STOPPED,
    TIMEOUT,
    TRACED,
    Asks,
    Server,
    Servers,
    Stop,
    ThreadEvidence,
    ThreadId,
    ThreadWait,
    ThreadWork,
    added,
)
from stalltop.model.window import SPLITS, Window
from tests.unit.evidence_windows import BATCH, TRAIN, row, window

MS = 1_000_000
PARTS = {HAND_OVER: "lock", TIMEOUT: "lock", ENDED: "network"} | dict.fromkeys(HELD_BACK, "other")
"""Parts of the split by the kinds of waits that have another name."""
CALLER = ThreadId(TRAIN, 100, "train.py", 100)
PIN = ThreadId(TRAIN, 100, "train.py", 107)
FEEDER = ThreadId(TRAIN, 101, "pt_data_worker", 111)
WORKER = ThreadId(TRAIN, 101, "pt_data_worker", 101)
SERVER = ThreadId(BATCH, 300, "features", 300)


def wait(thread: ThreadId, kind: str, waker: ThreadId, ms: float, times: int = 20) -> ThreadWait:
    operation = HOST_GAP if thread in (CALLER,) else HOST_WORK
    return ThreadWait(
        thread, HOST_LAYER, operation, PARTS.get(kind, kind), kind, waker, round(ms * MS), times
    )


def did(thread: ThreadId, *, startup_ms: float = 0, name: str = "", **split_ms: float) -> ThreadWork:
    parts = tuple(round(split_ms.get(part, 0) * MS) for part in SPLITS)
    return ThreadWork(thread, name or thread.process, 1, parts, round(startup_ms * MS))


def seen(
    *waited: ThreadWait,
    works: tuple[ThreadWork, ...] = (),
    asks: tuple[Asks, ...] = (),
    servers: tuple[Servers, ...] = (),
    python: tuple[int, ...] = (),
    stops: tuple[Stop, ...] = (),
    exits: int = 0,
    **gap_ms: float,
) -> Window:
    """Returns one second of a caller whose host gap has these parts."""
    evidence = ThreadEvidence(waited, works, asks, servers, python, stops)
    made = window(
        [row("cudaLaunchKernel", 1000, running=10), row(HOST_GAP, 40, gap_ms)],
        tenants=[TenantUse(TRAIN, exits=exits)],
    )
    return replace(made, evidence=replace(made.evidence, threads=evidence))


def lost(of: Window) -> dict[str, Loss]:
    return {loss.cause: loss for loss in Attribution(Facts(of)).losses()}


def culprits(loss: Loss) -> set[int]:
    return {who.pid for who in loss.culprits}


def test_a_condition_in_a_feeder_thread_is_not_a_lock() -> None:
    found = lost(
        seen(
            wait(CALLER, "network", FEEDER, 800),
            wait(FEEDER, HAND_OVER, WORKER, 990),
            works=(did(FEEDER, running=5, lock=990), did(WORKER, running=960, network=30)),
            network=800,
        )
    )
    assert set(found) == {"loader_cpu"}
    assert culprits(found["loader_cpu"]) == {101}
    assert found["loader_cpu"].ns == pytest.approx(800 * MS, rel=0.02)


def test_workers_that_sleep_have_no_culprit() -> None:
    found = lost(
        seen(
            wait(CALLER, HAND_OVER, PIN, 900),
            wait(PIN, "network", FEEDER, 900),
            wait(FEEDER, HAND_OVER, WORKER, 950),
            works=(
                did(PIN, network=990),
                did(FEEDER, lock=990),
                did(WORKER, running=20, sleep=950),
            ),
            lock=900,
        )
    )
    assert max(found, key=lambda cause: found[cause].ns) == "loader_sleep"
    assert not found["loader_sleep"].culprits


@pytest.mark.parametrize("part", ["running", "sleep", "runqueue", "disk"])
def test_a_server_of_another_tenant_is_named_whatever_it_does(part: str) -> None:
    found = lost(
        seen(
            wait(CALLER, "network", FEEDER, 800),
            wait(FEEDER, HAND_OVER, WORKER, 990),
            wait(WORKER, "network", SERVER, 950),
            works=(
                did(FEEDER, lock=990),
                did(WORKER, running=20, network=960),
                ThreadWork(SERVER, "features", 1, tuple(980 * MS * (name == part) for name in SPLITS)),
            ),
            asks=(Asks(101, 300),),
            network=800,
        )
    )
    assert max(found, key=lambda cause: found[cause].ns) == "remote_service"
    assert culprits(found["remote_service"]) == {300}


def test_a_client_of_another_tenant_is_not_to_blame() -> None:
    idle = seen(
        wait(CALLER, "network", SERVER, 900),
        works=(did(SERVER, sleep=990),),
        asks=(Asks(300, 100),),
        network=900,
    )
    assert not lost(idle)
    unknown = replace(
        idle,
        evidence=replace(idle.evidence, threads=replace(idle.evidence.threads, asks=())),
    )
    assert not lost(unknown)


def test_a_server_that_is_not_followed_is_named() -> None:
    found = lost(seen(wait(CALLER, "network", SERVER, 500), asks=(Asks(100, 300),), network=500))
    assert culprits(found["remote_service"]) == {300}


def test_servers_of_other_hosts_are_named_by_address() -> None:
    made = seen(
        wait(CALLER, "network", NOBODY, 700),
        servers=(Servers(100, (Server("10.1.2.3:9000", 2048, 3 << 20, 400_000),)),),
        network=700,
    )
    assert lost(made)["remote_service"].ns == pytest.approx(700 * MS)
    told = next(each for each in waits(Facts(made)) if each.cause == "remote_service")
    assert "10.1.2.3:9000" in told.summary
    (link,) = [link for link in told.links if link.role == "factor"]
    assert link.text.endswith("10.1.2.3:9000, 3 MiB/s received, 2 KiB/s sent, round trip 400 us")
    assert link.ns_per_s == pytest.approx(700 * MS)


def test_the_bytes_of_a_server_add_up_over_windows() -> None:
    first = ThreadEvidence(servers=(Servers(1, (Server("a:1", 1, 10, 5), Server("b:1", 2, 1))),))
    second = ThreadEvidence(servers=(Servers(1, (Server("a:1", 3, 30, 7),)), Servers(2, (Server("c:1"),))))
    assert added([first, second]).servers == (
        Servers(1, (Server("a:1", 4, 40, 7), Server("b:1", 2, 1))),
        Servers(2, (Server("c:1"),)),
    )


def test_timed_waits_of_the_switch_interval_are_for_the_interpreter_lock() -> None:
    other = ThreadId(TRAIN, 100, "train.py", 109)
    timed = wait(CALLER, TIMEOUT, NOBODY, 860, 170)
    handed = wait(CALLER, HAND_OVER, other, 20, 150)
    made = seen(timed, handed, works=(did(other, running=980, name="metrics"),), python=(100,), lock=900)
    found = lost(made)
    assert found["gil"].ns == pytest.approx(860 * MS)
    told = next(each for each in waits(Facts(made)) if each.cause == "gil")
    assert any("thread 109 (metrics)" in link.text for link in told.links)
    without_python = replace(
        made, evidence=replace(made.evidence, threads=replace(made.evidence.threads, python=()))
    )
    assert "gil" not in lost(without_python)
    slow = seen(wait(CALLER, TIMEOUT, NOBODY, 860, 9), python=(100,), lock=900)
    assert "gil" not in lost(slow)


def test_a_held_lock_is_told_with_its_holder() -> None:
    found = lost(seen(wait(CALLER, "lock", PIN, 700), works=(did(PIN, sleep=900),), lock=700))
    assert set(found) == {"lock_contention"}
    assert culprits(found["lock_contention"]) == {100}


OPERATOR = ThreadId(BATCH, 400, "operator", 400)
SENDER = ThreadId(BATCH, 401, "sender", 0)


def chain(of: Window) -> Suspicion:
    (told,) = [each for each in waits(Facts(of)) if each.cause == "stopped"]
    return told


def test_a_stopped_thread_waits_for_who_let_it_go_on() -> None:
    made = seen(wait(CALLER, STOPPED, OPERATOR, 300, 1), other=300)
    found = lost(made)
    assert set(found) == {"stopped"}
    assert culprits(found["stopped"]) == {400}
    assert chain(made).summary.endswith("is stopped, and operator (pid 400) of batch-job lets it go on")
    assert any("only who let it go on" in line for line in chain(made).unknown)


@pytest.mark.parametrize(
    ("kind", "sent", "words", "remedy"),
    [
        (STOPPED, "SIGSTOP", "is stopped by sender (pid 401)", "kill -CONT 100"),
        (TRACED, "", "is stopped by a debugger, sender (pid 401)", "kill 401"),
        (FROZEN, "", "is frozen by sender (pid 401)", "docker unpause abababababab"),
    ],
)
def test_who_stops_a_program_is_to_blame_rather_than_who_lets_it_go_on(
    kind: str, sent: str, words: str, remedy: str
) -> None:
    made = seen(wait(CALLER, kind, OPERATOR, 300, 1), stops=(Stop(100, kind, SENDER, sent),), other=300)
    assert culprits(lost(made)["stopped"]) == {401}
    told = chain(made)
    assert words in told.summary
    assert [link.tenant for link in told.links if link.role == "culprit"] == [BATCH]
    assert remedy in {fix.command for fix in told.fixes}
    assert not any("who stopped" in line for line in told.unknown)


def test_the_key_of_a_terminal_stops_a_program() -> None:
    made = seen(
        wait(CALLER, STOPPED, NOBODY, 300, 1), stops=(Stop(100, STOPPED, signal="SIGTSTP"),), other=300
    )
    told = chain(made)
    assert told.summary.endswith("is stopped by SIGTSTP of its terminal")
    assert any("nohup" in fix.text for fix in told.fixes)


@pytest.mark.parametrize("kind", HELD_BACK)
def test_a_worker_that_is_stopped_delays_its_caller(kind: str) -> None:
    made = seen(
        wait(CALLER, "network", FEEDER, 600),
        wait(FEEDER, HAND_OVER, WORKER, 700),
        wait(WORKER, kind, OPERATOR, 700, 2),
        works=(did(FEEDER, running=20, lock=960), did(WORKER, running=200, other=760)),
        stops=(Stop(101, kind, SENDER),),
        network=600,
    )
    found = lost(made)
    assert max(found, key=lambda cause: found[cause].ns) == "stopped"
    assert culprits(found["stopped"]) == {401}
    assert found["stopped"].ns == pytest.approx(600 * MS, rel=0.05)
    assert "waits for pt_data_worker (pid 101)" in chain(made).summary


def test_other_waits_of_a_worker_are_not_stops() -> None:
    made = seen(
        wait(CALLER, "network", FEEDER, 600),
        wait(FEEDER, "other", OPERATOR, 900),
        works=(did(FEEDER, running=20, other=960),),
        network=600,
    )
    assert "stopped" not in lost(made)


def silent(stop: Stop, *processes: ProcessUse) -> Window:
    """Returns a second in which nothing is counted."""
    made = window([], processes=processes)
    evidence = ThreadEvidence(stops=(stop,))
    return replace(made, evidence=replace(made.evidence, threads=evidence))


def test_a_program_that_is_still_stopped_is_told() -> None:
    caller = ProcessUse(TRAIN, 100, "train.py", link=0)
    worker = ProcessUse(TRAIN, 101, "pt_data_worker", link=1, parent_pid=100)
    made = silent(Stop(100, FROZEN, SENDER, still_ns=900 * MS), caller)
    assert lost(made)["stopped"].ns == pytest.approx(900 * MS)
    assert culprits(lost(made)["stopped"]) == {401}
    assert chain(made).share == pytest.approx(0.9)
    through = silent(Stop(101, STOPPED, SENDER, "SIGSTOP", 900 * MS), caller, worker)
    (loss,) = lost(through).values()
    assert (loss.victim.pid, [who.pid for who in loss.path]) == (100, [101])
    alone = silent(Stop(101, STOPPED, SENDER, "SIGSTOP", 900 * MS), worker)
    assert not lost(alone)


def test_a_stop_that_has_not_ended_counts_once() -> None:
    made = seen(
        wait(CALLER, STOPPED, OPERATOR, 300, 1),
        stops=(Stop(100, STOPPED, SENDER, "SIGSTOP", still_ns=200 * MS),),
        other=300,
    )
    caller = ProcessUse(TRAIN, 100, "train.py", link=0)
    made = replace(made, evidence=replace(made.evidence, processes=(caller,)))
    assert lost(made)["stopped"].ns == pytest.approx(300 * MS)


def test_the_start_of_workers_counts_where_processes_come_and_go() -> None:
    waited = (wait(CALLER, "network", FEEDER, 400), wait(CALLER, ENDED, WORKER, 50))
    works = (did(FEEDER, lock=400, startup_ms=180), did(WORKER, running=400))
    found = lost(seen(*waited, works=works, exits=4, network=450))
    assert found["workers_restarted"].ns == pytest.approx((180 + 50) * MS)
    assert "workers_restarted" not in lost(seen(*waited, works=works, network=450))


def test_a_worker_that_waits_for_its_caller_is_not_the_reason() -> None:
    found = lost(
        seen(
            wait(CALLER, "process", WORKER, 500),
            wait(WORKER, "process", CALLER, 900),
            works=(did(WORKER, running=20, process=950),),
            process=500,
        )
    )
    assert not found


def test_waits_and_works_of_several_windows_add_up() -> None:
    one = ThreadEvidence(
        (wait(CALLER, HAND_OVER, PIN, 100, 2),),
        (did(PIN, sleep=100, startup_ms=5),),
        (Asks(1, 2),),
        stops=(Stop(100, STOPPED, still_ns=7), Stop(100, FROZEN)),
    )
    other = ThreadEvidence(
        (wait(CALLER, HAND_OVER, PIN, 50, 1), wait(CALLER, "lock", PIN, 7, 1)),
        (did(PIN, sleep=30, running=1),),
        (Asks(1, 2), Asks(3, 4)),
        python=(100,),
        stops=(Stop(100, STOPPED, SENDER, "SIGSTOP", 5),),
    )
    both = added([one, other])
    assert {(each.kind, each.ns, each.times) for each in both.waits} == {
        (HAND_OVER, 150 * MS, 3),
        ("lock", 7 * MS, 1),
    }
    assert both.works == (did(PIN, sleep=130, running=1, startup_ms=5),)
    assert both.stops == (Stop(100, STOPPED, SENDER, "SIGSTOP", 12), Stop(100, FROZEN))
    assert (both.asks, both.python) == ((Asks(1, 2), Asks(3, 4)), (100,))


def test_many_threads_that_wake_each_other_are_followed_in_bounded_time() -> None:
    """Without a bound, 24 threads have 24 * 23 * 22 * 21 * 20 * 19 paths."""
    threads = [ThreadId(TRAIN, 101, "pt_data_worker", tid) for tid in range(200, 224)]
    between = [wait(a, HAND_OVER, b, 40) for a in threads for b in threads if a is not b]
    works = tuple(did(thread, running=60, lock=930) for thread in threads)
    first = [wait(CALLER, "network", thread, 30) for thread in threads]
    found = lost(seen(*first, *between, works=works, network=720))
    assert set(found) == {"loader_cpu"}
