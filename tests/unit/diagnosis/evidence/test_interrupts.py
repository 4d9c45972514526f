"""Tests how much time a process loses to interrupts, and when interrupts take nothing from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.attribution.attribution import Attribution
from stalltop.diagnosis.engine import explain
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import KNOWN_WINDOWS, Normals
from stalltop.model.chain import Chain
from stalltop.model.evidence import HOST_GAP, HOST_WORK, Charge, ProcessUse
from stalltop.model.thread_evidence import (
    HAND_OVER,
    CpuInterrupts,
    Placed,
    ThreadEvidence,
    ThreadId,
    ThreadWait,
    ThreadWork,
    added,
)
from stalltop.model.window import SPLITS, Window
from tests.windows.evidence import TRAIN, Spent, charge, row, window

MS = 1_000_000
KSOFTIRQD = "process:ksoftirqd/1"
KINDS = (("NET_RX", 9_000), ("IRQ 41 (eth0-rx-1)", 4_000), ("IRQ 36 (nvme0q1)", 90))
LAUNCHES = row("cudaLaunchKernel", 1000, running=10)
CALLER = ProcessUse(TRAIN, 100, "train.py", link=0, threads=4, allowed="1", allowed_cpus=1)


def cpu(number: int, ms: float, idle_ms: float = 0, kinds: tuple[tuple[str, int], ...] = ()) -> CpuInterrupts:
    """Returns a second of CPU ``number``: interrupts ran for ``ms``, and the CPU was idle for ``idle_ms``."""
    return CpuInterrupts(number, 1_000 * MS, round(idle_ms * MS), round(ms * MS), kinds)


def seen(
    *cpus: CpuInterrupts,
    rows: tuple[Spent, ...],
    placed: tuple[Placed, ...] = (Placed(100, 1, 5),),
    processes: tuple[ProcessUse, ...] = (CALLER,),
    charges: tuple[Charge, ...] = (),
    waits: tuple[ThreadWait, ...] = (),
    works: tuple[ThreadWork, ...] = (),
) -> Window:
    made = window(rows, processes=processes, charges=charges)
    evidence = ThreadEvidence(waits, works, placed=placed, interrupts=cpus)
    return replace(made, evidence=replace(made.evidence, threads=evidence))


def lost(of: Window) -> dict[str, float]:
    return {loss.cause: loss.ns / MS for loss in Attribution(Facts(of)).losses()}


def chains(of: Window, normals: Normals | None = None) -> list[Chain]:
    return [chain for chain in explain(of, normals=normals or Normals()) if chain.severity != "info"]


def gap(**split_ms: float) -> Spent:
    return row(HOST_GAP, 40, split_ms)


def test_a_process_that_has_its_cpu_alone_loses_all_that_interrupts_take() -> None:
    (chain,) = chains(seen(cpu(0, 5, 900), cpu(1, 400, 0, KINDS), rows=(LAUNCHES, gap(running=990))))
    assert chain.cause == "interrupts"
    assert chain.lost_ms_per_s == pytest.approx(400, rel=0.02)
    assert chain.summary == "trainer loses CPU time to interrupts on CPU 1"
    assert not chain.culprits
    reason = next(link for link in chain.links if link.role == "reason")
    assert (
        "CPU 1 spends 40% of its time in interrupts, most of them NET_RX, IRQ 41 (eth0-rx-1)" in reason.text
    )
    commands = [fix.command for fix in chain.fixes]
    assert commands[0] == "echo 0 > /proc/irq/41/smp_affinity_list"
    assert "taskset -acp 0 100" in commands


def test_time_in_which_a_cpu_was_interrupted_while_idle_is_not_lost() -> None:
    """The CPU is idle in half of the time without interrupts (300 of 600 ms). So half of the 400 ms of
    interrupts come while it is idle, and take no time from a process."""
    made = seen(cpu(1, 400, 300), rows=(LAUNCHES, gap(running=490, sleep=500)))
    assert lost(made) == {"interrupts": pytest.approx(200)}


def test_packets_that_a_neighbour_sends_to_itself_are_handled_in_its_own_time() -> None:
    """The neighbour has the CPU for 500 ms. Interrupts for its own packets take 300 ms of this time."""
    made = seen(cpu(1, 300), rows=(LAUNCHES, gap(running=490, runqueue=500)))
    assert "interrupts" not in lost(made)


def test_interrupts_of_other_cpus_take_nothing() -> None:
    made = seen(cpu(0, 800), cpu(1, 0), rows=(LAUNCHES, gap(running=990)))
    assert "interrupts" not in lost(made)


def test_a_process_on_two_cpus_loses_in_proportion() -> None:
    where = (Placed(100, 0, 3), Placed(100, 1, 1))
    made = seen(cpu(0, 0, 250), cpu(1, 100, 750), rows=(LAUNCHES, gap(running=990)), placed=where)
    assert lost(made) == {"interrupts": pytest.approx(100)}


def test_polling_for_the_device_loses_nothing() -> None:
    made = seen(cpu(1, 400), rows=(row("cudaStreamSynchronize", 10, running=990),))
    assert "interrupts" not in lost(made)


def test_what_a_program_always_computes_is_not_lost() -> None:
    usual, slower = gap(running=600, sleep=390), gap(running=700, sleep=290)
    normals = Normals()
    for _ in range(KNOWN_WINDOWS):
        normals.learn(Facts(window([LAUNCHES, usual], processes=[CALLER])))
    (chain,) = chains(seen(cpu(1, 400, 200), rows=(LAUNCHES, slower)), normals)
    assert chain.cause == "interrupts"
    assert chain.lost_ms_per_s == pytest.approx(100, rel=0.02)
    assert not chains(seen(cpu(1, 400, 200), rows=(LAUNCHES, usual)), normals)


def test_a_worker_that_is_interrupted_is_told_from_one_that_computes() -> None:
    caller, worker = ThreadId(TRAIN, 100, "train.py", 100), ThreadId(TRAIN, 101, "worker", 101)
    waited = ThreadWait(caller, "host", HOST_GAP, "lock", HAND_OVER, worker, 800 * MS, 20)
    did = ThreadWork(worker, "", 1, tuple(1_000 * MS if part == "running" else 0 for part in SPLITS))
    found = lost(
        seen(
            cpu(1, 600),
            rows=(
                LAUNCHES,
                gap(running=190, lock=800),
                row(HOST_WORK, 20, pid=101, program="worker", running=1_000),
            ),
            placed=(Placed(101, 1, 5),),
            waits=(waited,),
            works=(did,),
        )
    )
    assert found == {"interrupts": pytest.approx(480), "loader_cpu": pytest.approx(320)}


def waits_for(parent_pid: int) -> Window:
    taken = charge("runqueue", 300, 24, culprit_tenant=KSOFTIRQD, culprit_process="ksoftirqd/1")
    thread = ProcessUse(KSOFTIRQD, 24, "ksoftirqd/1", parent_pid=parent_pid)
    rows = (LAUNCHES, gap(running=690, runqueue=300))
    return seen(rows=rows, charges=(taken,), processes=(CALLER, thread))


def test_waits_for_kernel_threads_that_handle_interrupts_are_lost_to_interrupts() -> None:
    (chain,) = chains(waits_for(parent_pid=2))
    assert (chain.cause, chain.culprits) == ("interrupts", ())
    assert chain.summary == "trainer loses CPU time to interrupts on CPU 1"
    assert any("ksoftirqd/1 of the Linux kernel handles interrupts" in link.text for link in chain.links)
    assert chain.unknown


def test_a_program_that_calls_itself_ksoftirqd_is_a_neighbour() -> None:
    assert set(lost(waits_for(parent_pid=1))) == {"cpu_contention"}


def test_windows_add_up() -> None:
    one = ThreadEvidence(placed=(Placed(1, 0, 2),), interrupts=(cpu(0, 100, 10, (("NET_RX", 5),)),))
    other = ThreadEvidence(
        placed=(Placed(1, 0, 3), Placed(1, 1, 1)), interrupts=(cpu(0, 50, 20, (("BLOCK", 9),)),)
    )
    both = added([one, ThreadEvidence(), other])
    assert both.placed == (Placed(1, 0, 5), Placed(1, 1, 1))
    assert both.interrupts == (
        CpuInterrupts(0, 2_000 * MS, 30 * MS, 150 * MS, (("BLOCK", 9), ("NET_RX", 5))),
    )


def test_seconds_without_interrupts_count_for_nothing() -> None:
    """The window lasts three seconds, but interrupts were counted in only one of them."""
    rows = (LAUNCHES, gap(running=2_980))
    made = replace(seen(cpu(1, 400), rows=rows), seconds=3.0)
    assert lost(made) == {"interrupts": pytest.approx(400, rel=0.02)}
