"""Tests how waits are followed from thread to thread: hand-overs, locks, servers, sleeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stalltop.diagnosis.attribution.attribution import Attribution
from stalltop.diagnosis.attribution.following import WaitFollower
from stalltop.diagnosis.attribution.losses import Losses, Wait
from stalltop.diagnosis.attribution.rank_waits import RankWaits
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.waits import waits
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, ProcessUse
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import (
    ENDED,
    FROZEN,
    FSYNC,
    HAND_OVER,
    HELD_BACK,
    NOBODY,
    STOPPED,
    TIMEOUT,
    TRACED,
    Asks,
    Command,
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
from tests.unit.diagnosis.attribution.thread_windows import (
    CALLER,
    FEEDER,
    MS,
    PIN,
    WORKER,
    culprits,
    did,
    lost,
    seen,
    wait,
)
from tests.windows.evidence import BATCH, TRAIN, row, window


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


def test_waits_in_fsync_are_told_from_reads() -> None:
    found = lost(seen(wait(CALLER, FSYNC, NOBODY, 450), disk=600))
    assert found["fsync"].ns == pytest.approx(450 * MS)
    assert found["slow_disk"].ns == pytest.approx(150 * MS)
    assert set(lost(seen(disk=600))) == {"slow_disk"}


def test_a_thread_that_saves_is_followed_to_its_fsync() -> None:
    made = seen(
        wait(CALLER, HAND_OVER, PIN, 700),
        wait(PIN, FSYNC, NOBODY, 900),
        works=(did(PIN, disk=900, running=50),),
        lock=700,
    )
    found = lost(made)
    assert found["fsync"].ns == pytest.approx(700 * MS * 900 / 950)
    assert "loader_disk" not in found


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
    assert chain(made).summary.endswith("is stopped, and operator (pid 400) of batch-job lets it continue")
    assert any("only known who let it continue" in line for line in chain(made).unknown)


@pytest.mark.parametrize(
    ("kind", "sent", "words", "remedy"),
    [
        (STOPPED, "SIGSTOP", "is stopped by sender (pid 401)", "kill -CONT 100"),
        (TRACED, "", "is stopped by a debugger, sender (pid 401)", "kill -TERM 401"),
        (FROZEN, "", "is frozen by sender (pid 401)", "docker unpause trainer"),
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
    """Returns a second without any call, with the evidence that a program was stopped."""
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


def polling(nap_ms: float, naps: int, *children: ProcessUse) -> Window:
    """Returns one second of a caller that sleeps ``naps`` times for ``nap_ms`` between its calls."""
    made = seen(wait(CALLER, "sleep", NOBODY, nap_ms * naps, naps), sleep=nap_ms * naps)
    return replace(made, evidence=replace(made.evidence, processes=children))


def test_short_sleeps_beside_a_child_that_computes_are_waits_for_it() -> None:
    busy = ProcessUse(TRAIN, 201, "loky", cpu_ns=900 * MS, parent_pid=100)
    less = ProcessUse(TRAIN, 202, "loky", cpu_ns=800 * MS, parent_pid=100)
    idle = ProcessUse(TRAIN, 203, "tracker", cpu_ns=5 * MS, parent_pid=100)
    stranger = ProcessUse(TRAIN, 204, "other", cpu_ns=950 * MS, parent_pid=1)
    found = lost(polling(10, 60, less, busy, idle, stranger))
    assert set(found) == {"loader_cpu"}
    assert found["loader_cpu"].ns == pytest.approx(600 * MS)
    assert culprits(found["loader_cpu"]) == {201, 202}
    assert found["loader_cpu"].last.pid == 201
    assert found["loader_cpu"].sure < 1


def test_sleeps_have_no_reason_if_they_are_long_or_no_child_computes() -> None:
    busy = ProcessUse(TRAIN, 201, "loky", cpu_ns=900 * MS, parent_pid=100)
    assert not lost(polling(60, 10, busy))
    assert not lost(polling(10, 60, replace(busy, cpu_ns=100 * MS)))
    assert not lost(polling(10, 60, replace(busy, parent_pid=1)))
    assert not lost(polling(10, 60))


OTHER = ThreadId(BATCH, 500, "python", 500)
LOOP = ThreadId(TRAIN, 100, "train.py", 108)
OTHER_LOOP = ThreadId(BATCH, 500, "python", 508)
SAME = b"python\0train.py\0--rank\0\0"


def ranks(*commands: Command, part: str = "running", parent: int = 1, calls: bool = True) -> Window:
    """Returns a second in which the rank CALLER waits for the rank OTHER of another tenant. OTHER spends its
    time in ``part``."""
    made = seen(
        wait(CALLER, HAND_OVER, LOOP, 600),
        wait(LOOP, "network", OTHER_LOOP, 640),
        wait(OTHER_LOOP, HAND_OVER, OTHER, 950),
        wait(OTHER, HAND_OVER, OTHER_LOOP, 20),
        wait(OTHER_LOOP, "network", LOOP, 20),
        works=(
            did(CALLER, running=300, lock=600),
            did(LOOP, network=980),
            did(OTHER_LOOP, lock=980),
            ThreadWork(OTHER, "python", 0, tuple(900 * MS * (name == part) for name in SPLITS)),
        ),
        asks=(Asks(500, 100),),
        commands=commands,
        lock=600,
    )
    rows = [row("cudaLaunchKernel", 1000, running=10), row(HOST_GAP, 40, lock=600)]
    if calls:
        rows.append(row("cudaLaunchKernel", 500, running=5, tenant=BATCH, pid=500, program="python"))
    processes = (ProcessUse(BATCH, 500, "python", parent_pid=parent),)
    return replace(made, rows=window(rows).rows, evidence=replace(made.evidence, processes=processes))


@pytest.mark.parametrize("part", ["running", "gpu", "runqueue", "disk"])
def test_a_late_rank_is_named_whatever_it_does_and_whoever_connected(part: str) -> None:
    made = ranks(Command(100, SAME), Command(500, SAME), part=part)
    found = lost(made)
    assert set(found) == {"late_rank"}
    assert culprits(found["late_rank"]) == {500}
    assert found["late_rank"].ns == pytest.approx(600 * MS, rel=0.05)
    told = next(each for each in waits(Facts(made)) if each.cause == "late_rank")
    assert "another rank of its job" in told.summary
    # If the late rank waits, it may wait for its own worker processes.
    dump = "py-spy dump --pid 500" if part == "running" else "py-spy dump --subprocesses --pid 500"
    assert told.fixes[0].command == dump


def test_only_processes_that_call_and_run_the_same_command_are_ranks() -> None:
    assert "late_rank" not in lost(ranks(Command(100, SAME), Command(500, b"server")))
    assert "late_rank" not in lost(ranks())
    assert "late_rank" not in lost(ranks(Command(100, SAME), Command(500, SAME), calls=False))
    assert "late_rank" not in lost(ranks(Command(100, SAME), Command(500, SAME), parent=100))


def test_ranks_that_wait_for_each_other_for_as_long_are_not_late() -> None:
    losses = Losses()
    mutual = RankWaits(losses)
    one, other = Who(TRAIN, 100, "python"), Who(BATCH, 500, "python")

    def waits_for(who: Who, late: Who) -> Wait:
        key = RowKey("host", who.tenant, who.pid, who.process, HOST_LAYER, HOST_GAP)
        return Wait(key, "lock", path=(late,))

    mutual.add(waits_for(one, other), "running", 100.0)
    mutual.add(waits_for(other, one), "running", 90.0)
    mutual.settle()
    (loss,) = losses
    assert loss.victim == one
    assert loss.ns == pytest.approx(10.0)


def test_a_rank_that_waits_for_its_own_worker_is_late() -> None:
    """The reason is a problem of that rank. What it waits for is not followed further."""
    made = ranks(Command(100, SAME), Command(500, SAME), part="network")
    worker = ThreadId(BATCH, 501, "pt_data_worker", 501)
    evidence = made.evidence.threads
    evidence = replace(
        evidence,
        waits=(*evidence.waits, wait(OTHER, "network", worker, 880)),
        works=(*evidence.works, did(worker, running=980)),
    )
    found = lost(replace(made, evidence=replace(made.evidence, threads=evidence)))
    assert set(found) == {"late_rank"}
    assert culprits(found["late_rank"]) == {500}


EXECUTORS = tuple(ThreadId(TRAIN, 100, "train.py", 300 + number) for number in range(4))
"""Threads that have ended, so nothing is known about their work."""


@pytest.mark.parametrize(("exits", "found"), [(8, {"workers_restarted"}), (3, set()), (0, set())])
def test_short_lived_threads_are_executors_if_as_many_processes_end(exits: int, found: set[str]) -> None:
    made = seen(*(wait(CALLER, HAND_OVER, one, 200, 3) for one in EXECUTORS), exits=exits, lock=800)
    assert set(lost(made)) == found


def test_workers_that_take_long_to_start_are_known_by_earlier_ends() -> None:
    made = seen(
        wait(CALLER, "network", WORKER, 900, 1),
        works=(did(WORKER, running=10, network=5, startup_ms=3_000),),
        network=900,
    )
    ended = {("exits", TRAIN, 0): ((made.end - 4.0, 2.0),)}
    (loss,) = Attribution(Facts(made, series=ended)).losses()
    assert loss.cause == "workers_restarted"
    assert loss.ns == pytest.approx(900 * MS)
    long_ago = {("exits", TRAIN, 0): ((made.end - 60.0, 2.0),)}
    found = Attribution(Facts(made, series=long_ago)).losses()
    assert "workers_restarted" not in {loss.cause for loss in found}


def test_a_wait_that_timed_out_counts_for_who_ended_the_next_wait() -> None:
    limited = (
        wait(CALLER, HAND_OVER, LOOP, 700),
        wait(LOOP, "network", NOBODY, 720, 72),
        wait(LOOP, "network", WORKER, 80),
        wait(LOOP, TIMEOUT, NOBODY, 100, 1),
    )
    works = (did(LOOP, network=800, lock=100), did(WORKER, running=980))
    found = lost(seen(*limited, works=works, local=(100,), lock=700))
    assert culprits(found["loader_cpu"]) == {101}
    assert found["loader_cpu"].ns == pytest.approx(700 * MS, rel=0.02)
    assert not lost(seen(*limited, works=works, lock=700)), "data from another host may have ended the waits"


def test_a_thread_that_waits_for_the_lock_itself_does_not_hold_it() -> None:
    waited = (wait(CALLER, "lock", PIN, 700), wait(PIN, "lock", LOOP, 800))
    works = (did(PIN, running=20, lock=950), did(LOOP, sleep=900))
    found = lost(seen(*waited, works=works, lock=700))
    assert found["lock_contention"].ns == pytest.approx(700 * MS, rel=0.05)
    idle = (wait(CALLER, "lock", PIN, 700), wait(PIN, "network", NOBODY, 20))
    assert not lost(seen(*idle, works=(did(PIN, lock=950, network=20),), lock=700))


def test_calling_threads_are_told_apart() -> None:
    main = ThreadId(TRAIN, 100, "train.py", 110)
    asleep = ThreadWait(main, HOST_LAYER, HOST_GAP, "lock", TIMEOUT, NOBODY, 990 * MS, 10)
    timed = wait(CALLER, TIMEOUT, NOBODY, 600, 120)
    found = lost(seen(timed, asleep, python=(100,), lock=650))
    assert found["gil"].ns == pytest.approx(600 * MS)


def test_many_threads_that_wake_each_other_are_followed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = [ThreadId(TRAIN, 100, "train.py", 200 + number) for number in range(40)]
    waited = [wait(one, HAND_OVER, other, 25) for one in pool for other in pool if one != other]
    waited += [wait(CALLER, HAND_OVER, one, 22) for one in pool]
    works = tuple(did(one, running=10, lock=980) for one in pool)
    counted = 0
    follow = WaitFollower.work

    def counting(*arguments: Any) -> bool:
        nonlocal counted
        counted += 1
        return follow(*arguments)

    monkeypatch.setattr(WaitFollower, "work", counting)
    lost(seen(*waited, works=works, lock=880))
    assert 40 <= counted < 40 * 40 * 10


def test_retransmits_explain_no_wait_for_data_of_the_same_host() -> None:
    made = seen(wait(CALLER, "network", NOBODY, 700), network=700)
    sent_again = (ProcessUse(TRAIN, 100, "train.py", retransmits_v4=50),)
    made = replace(made, evidence=replace(made.evidence, processes=sent_again))
    assert set(lost(made)) == {"tcp_retransmits"}
    here = replace(made.evidence.threads, local=(100,))
    assert not lost(replace(made, evidence=replace(made.evidence, threads=here)))


def test_many_threads_that_wake_each_other_are_followed_in_bounded_time() -> None:
    """Without a bound there are 24 * 23 * 22 * 21 * 20 * 19 paths of six of the 24 threads."""
    threads = [ThreadId(TRAIN, 101, "pt_data_worker", tid) for tid in range(200, 224)]
    between = [wait(a, HAND_OVER, b, 40) for a in threads for b in threads if a is not b]
    works = tuple(did(thread, running=60, lock=930) for thread in threads)
    first = [wait(CALLER, "network", thread, 30) for thread in threads]
    found = lost(seen(*first, *between, works=works, network=720))
    assert set(found) == {"loader_cpu"}
