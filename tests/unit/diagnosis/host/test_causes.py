"""Tests that each fault of the host gives one chain, with its cause and culprit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.engine import Diagnosis, explain
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import KNOWN_WINDOWS, Normals
from stalltop.model.evidence import HOST_GAP, Evidence, ProcessUse
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import (
    FAULTS,
    LAUNCHES,
    faults,
    io,
    plus,
    threads_crowded_by_another_tenant,
    work,
    worker_gap,
)
from tests.windows.evidence import (
    BATCH,
    SYSTEM,
    TRAIN,
    charge,
    row,
    rows_of,
    window,
)


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_chain_names_cause_and_culprit(name: str) -> None:
    made, tenant, pid = FAULTS[name]
    first = faults(explain(made()))[0]
    assert first.cause == name.split()[0]
    assert first.tenant == TRAIN
    culprit = first.culprits[0]
    assert (culprit.tenant, culprit.pid) == (tenant, pid)
    assert first.fixes
    assert first.links[0].role == "effect"
    assert first.links[0].depth == 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_gives_only_one_chain(name: str) -> None:
    told = faults(explain(FAULTS[name][0]()))
    assert [chain.cause for chain in told if chain.severity not in ("low", "info")] == [name.split()[0]]


def test_threads_that_want_more_cpus_than_there_are_wait_for_each_other_by_their_own_fault() -> None:
    first = faults(explain(threads_crowded_by_another_tenant(cpu_ms=3_900)))[0]
    assert first.cause == "own_threads"
    assert first.culprits[0].tenant == TRAIN


def test_a_tenant_that_is_charged_with_nothing_crowds_nobody() -> None:
    assert faults(explain(threads_crowded_by_another_tenant(charged_ms=0)))[0].cause == "own_threads"


def test_threads_that_wait_for_each_other_while_cpus_are_idle_are_crowded_by_nobody() -> None:
    first = faults(explain(threads_crowded_by_another_tenant(busy_percent=60)))[0]
    assert first.cause == "own_threads"
    assert first.culprits[0].tenant == TRAIN


def with_contention(share: float, longest_ms: float) -> Window:
    """Returns 500 calls in a second. The six longest take ``longest_ms`` each, which makes this the p99; the
    CPU contention takes ``share`` of the second."""
    calls = row("cudaGraphLaunch", 500, running=500, runqueue=1000 * share, longest_ms=longest_ms)
    others = row(HOST_GAP, 500, running=500 - 1000 * share)
    charged = charge("runqueue", 1000 * share, 900, operation="cudaGraphLaunch")
    return replace(
        window([calls, others], charges=[charged]),
        rows=rows_of([calls._replace(slow_calls=6), others]),
    )


@pytest.mark.parametrize(
    ("share", "longest_ms", "known", "severities"),
    [
        pytest.param(0.12, 1.1, False, ["medium"], id="large"),
        pytest.param(0.04, 30.0, False, [], id="small, no baseline"),
        pytest.param(0.04, 30.0, True, ["low"], id="small, above the baseline"),
        pytest.param(0.04, 1.1, True, [], id="small, at the baseline"),
        pytest.param(0.01, 30.0, True, [], id="tiny"),
    ],
)
def test_a_small_loss_is_reported_where_calls_exceed_their_baseline(
    share: float, longest_ms: float, known: bool, severities: list[str]
) -> None:
    normals = Normals()
    for _ in range(KNOWN_WINDOWS if known else 0):
        normals.learn(Facts(with_contention(0.001, 1.0)))
    chains = faults(explain(with_contention(share, longest_ms), normals=normals))
    assert [chain.severity for chain in chains if chain.cause == "cpu_contention"] == severities


@pytest.mark.parametrize("name", ["cpu_contention", "own_threads"])
@pytest.mark.parametrize(("stolen", "told"), [(4.0, False), (24.0, True)])
def test_a_wait_for_a_cpu_is_made_worse_by_a_hypervisor_that_takes_cpu_time(
    name: str, stolen: float, told: bool
) -> None:
    made = FAULTS[name][0]()
    assert made.system is not None
    (first, *_) = faults(explain(replace(made, system=replace(made.system, cpu_steal_percent=stolen))))
    assert first.cause == name
    factors = [link.text for link in first.links if link.role == "factor"]
    assert ("the hypervisor takes 24% of this machine's CPU time (steal)" in factors) == told


@pytest.mark.parametrize(
    ("busy_ms", "load"),
    [
        (900, "keeps 0.9 requests in flight on vda"),
        (1_000, "keeps 1 request in flight on vda"),
        (1_420, "keeps 1.4 requests in flight on vda"),
        (14_200, "keeps 14 requests in flight on vda"),
    ],
)
def test_a_slow_disk_says_how_long_a_request_takes_and_who_loads_it(busy_ms: float, load: str) -> None:
    made = window(
        [LAUNCHES, row(HOST_GAP, 40, running=390, disk=600)],
        evidence=Evidence(
            block_io=(io(TRAIN, 100, "train.py", 590), io(BATCH, 900, "backup", busy_ms, requests=400))
        ),
    )
    texts = [link.text for link in faults(explain(made))[0].links]
    assert "vda: 15 ms per request" in texts
    assert f"backup (pid 900) of batch-job {load}" in texts


def test_unattributed_run_queue_time_has_no_culprit() -> None:
    spent = [LAUNCHES, row(HOST_GAP, 40, running=590, runqueue=400)]
    (chain,) = faults(explain(window(spent, cpus=(90, 90, 90, 90))))
    assert (chain.cause, chain.culprits, chain.confidence) == ("cpu_contention", (), 0.0)
    assert any("who had the CPU" in line for line in chain.unknown)


@pytest.mark.parametrize(
    ("times", "cpus", "found"),
    [
        pytest.param(1_000, (40, 40, 40, 40), [], id="short waits, CPUs have room"),
        pytest.param(100, (40, 40, 40, 40), ["cpu_contention"], id="waits of 3 ms each"),
        pytest.param(1_000, (90, 90, 90, 90), ["cpu_contention"], id="CPUs are busy"),
        pytest.param(1_000, (100, 5, 5, 5), ["cpu_contention"], id="the CPU that it may use is busy"),
    ],
)
def test_short_waits_count_only_if_cpus_are_busy(
    times: int, cpus: tuple[float, ...], found: list[str]
) -> None:
    allowed = "0" if cpus[0] == 100 else "0-3"
    one = ProcessUse(TRAIN, 100, "train.py", allowed_cpus=len(allowed), allowed=allowed)
    spent = [LAUNCHES, row(HOST_GAP, 40, running=690, runqueue=300)]
    waited = charge("runqueue", 300, 900, times=times)
    chains = faults(explain(window(spent, charges=[waited], processes=[one], cpus=cpus)))
    causes = {"cpu_pinning": "cpu_contention"}
    assert [causes.get(chain.cause, chain.cause) for chain in chains] == found


def test_the_tracer_itself_is_named() -> None:
    taken = charge("runqueue", 390, 77, culprit_tenant=SYSTEM, culprit_process="stalltop")
    diagnosis = Diagnosis(own_pid=77)
    for second in range(3):
        look = window([LAUNCHES, row(HOST_GAP, 40, running=590, runqueue=400)], charges=[taken], start=second)
        (chain, *_) = diagnosis.add(look).chains or [None]
    assert chain is not None
    assert chain.cause == "tracer"


def test_the_tracer_costs_each_process_only_its_own_probes() -> None:
    """Eight ranks lose 1 % of their time each. Together that is 8 % of a CPU, but no rank has a problem."""
    ranks = []
    for pid in range(100, 108):
        ranks.append(row("cudaLaunchKernel", 10_000, pid=pid, running=80))
        ranks.append(row(HOST_GAP, 40, pid=pid, running=900))
    assert not faults(explain(window(ranks, probe_ns=1_000)))
    busy = [row("cudaGraphLaunch", 100_000, pid=200, running=200), row(HOST_GAP, 40, pid=200, running=790)]
    (chain,) = faults(explain(window([*ranks, *busy], probe_ns=1_000)))
    assert (chain.cause, chain.pid, round(chain.lost_ms_per_s)) == ("tracer", 200, 100)


def test_an_unproven_disk_is_reported_as_a_guess() -> None:
    """Only another process of the tenant is seen to use vda. The worker itself may wait for a file system
    without a block device, such as NFS."""
    one = plus(
        plus(worker_gap(600), work(disk=800, running=100, runqueue=10)),
        window(evidence=Evidence(block_io=(io(TRAIN, 150, "logger", 100),))),
    )
    (chain,) = faults(explain(one))
    assert chain.confidence < 0.5
    assert any("network file system" in line for line in chain.unknown)
    assert next(link for link in chain.links if link.device == "vda").share is None
