"""Tests the attribution of losses that have several possible causes, that several processes share, or that
are no fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.engine import Diagnosis, explain
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.waits import waits
from stalltop.diagnosis.normals import KNOWN_WINDOWS, Normals
from stalltop.model.chain import Chain
from stalltop.model.evidence import HOST_GAP, Evidence, ProcessUse, TenantUse
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import (
    LAUNCHES,
    MS,
    cpu_contention,
    faults,
    io,
    plus,
    tcp_retransmits,
    work,
    worker_gap,
)
from tests.windows.evidence import BATCH, SERVE, TRAIN, Spent, charge, row, window


def losses(one: Window, normals: Normals | None = None) -> dict[str, float]:
    """Returns the loss of each cause found in a window, in ms a second."""
    return {chain.cause: round(chain.lost_ms_per_s) for chain in explain(one, normals=normals)}


def stopped(ms: float) -> TenantUse:
    return TenantUse(TRAIN, 300 * MS, 10, 2, round(ms * MS), cpu_quota=4.0, quota_cgroup="/docker/train")


def test_a_quota_loses_at_most_the_time_for_which_it_stopped_the_tenant() -> None:
    """Three operations wait for a CPU for 200 ms each, while a neighbour runs. The tenant was throttled for
    200 ms in all, so the quota explains 200 of the 600 ms."""
    operations = (HOST_GAP, "cudaLaunchKernel", "cudaMemcpyAsync HtoD")
    one = window(
        [row(operation, 1000, running=100, runqueue=200) for operation in operations],
        charges=[charge("runqueue", 200, 900, operation=operation) for operation in operations],
        tenants=[stopped(200)],
    )
    assert losses(one) == {"cpu_contention": 400, "cfs_throttling": 200}


def test_unattributed_run_queue_time_goes_to_the_quota_first() -> None:
    rows = [
        row("cudaLaunchKernel", 1000, running=100, runqueue=300),
        row(HOST_GAP, 40, running=290, runqueue=300),
    ]
    charged = charge("runqueue", 300, 900, operation="cudaLaunchKernel")
    assert losses(window(rows, charges=[charged], tenants=[stopped(300)])) == {
        "cfs_throttling": 300,
        "cpu_contention": 300,
    }


def test_threads_sharing_a_stopped_cpu_all_wait_for_the_quota() -> None:
    """Eight threads wait on two CPUs. The quota stopped the tenant for 700 ms on each of them. A neighbour
    ran on these CPUs meanwhile, but took no time from the tenant."""
    one = window(
        [LAUNCHES, row(HOST_GAP, 400, running=2_390, runqueue=5_600)],
        charges=[charge("runqueue", 5_600, 900)],
        tenants=[stopped(1_400)],
        cpus=(100, 100),
    )
    assert losses(one) == {"cfs_throttling": 5_600}


@pytest.mark.parametrize(
    ("ms", "found"),
    [
        pytest.param(120, [("cpu_contention", False)], id="plain"),
        pytest.param(80, [("cpu_contention", True)], id="reported if it lasts"),
        pytest.param(40, [], id="usual on a busy host"),
    ],
)
def test_a_small_loss_is_marked_as_such(ms: float, found: list[tuple[str, bool]]) -> None:
    gap = row(HOST_GAP, 40, running=990 - ms, runqueue=ms)
    one = window([LAUNCHES, gap], charges=[charge("runqueue", ms, 900)], cpus=(100, 100))
    assert [(each.cause, each.small) for each in waits(Facts(one))] == found


def test_a_loss_with_evidence_of_its_own_is_not_marked_as_small() -> None:
    gap = row(HOST_GAP, 40, running=960, runqueue=30)
    (found,) = waits(Facts(window([LAUNCHES, gap], tenants=[stopped(30)])))
    assert (found.cause, found.small) == ("cfs_throttling", False)


@pytest.mark.parametrize(
    ("queued_ms", "service_ms", "found"),
    [
        pytest.param(110, 10, ["slow_disk"], id="held back before the device"),
        pytest.param(10, 110, [], id="a fast device, a seventh of the time"),
    ],
)
def test_a_fast_disk_is_slow_if_a_limit_holds_requests_back(
    queued_ms: float, service_ms: float, found: list[str]
) -> None:
    one = window(
        [LAUNCHES, row(HOST_GAP, 100, running=850, disk=140)],
        evidence=Evidence(
            block_io=(io(TRAIN, 100, "train.py", service_ms, queued_ms=queued_ms, requests=100),)
        ),
    )
    assert [each.cause for each in waits(Facts(one))] == found


def loses_segments(one: Window, pid: int) -> Window:
    processes = tuple(
        replace(use, retransmits_v4=3) if use.pid == pid else use for use in one.evidence.processes
    )
    return replace(one, evidence=replace(one.evidence, processes=processes))


def test_retransmits_explain_no_wait_that_a_worker_ended() -> None:
    """The trainer polls the pipe of its worker. Waits in poll count as network, but here the worker, not a
    packet, ends the wait."""
    one = plus(
        plus(worker_gap(600, part="network"), work(disk=800, running=100)),
        window(evidence=Evidence(block_io=(io(TRAIN, 101, "worker", 800),))),
    )
    first = faults(explain(loses_segments(one, 100)))[0]
    assert first.cause == "loader_disk"
    assert "tcp_retransmits" not in losses(loses_segments(one, 100))


def test_retransmits_explain_waits_that_an_idle_peer_of_the_tenant_ended() -> None:
    one = plus(worker_gap(600, part="network"), work(network=900, running=50))
    assert losses(loses_segments(one, 100)) == {"tcp_retransmits": 600}


def two_ranks(*, same_culprit: bool) -> Window:
    second = (
        charge("runqueue", 590, 900, pid=102)
        if same_culprit
        else charge("runqueue", 590, 400, pid=102, culprit_tenant=SERVE, culprit_process="server")
    )
    return window(
        [
            *(LAUNCHES, row(HOST_GAP, 40, running=390, runqueue=600)),
            *(row("cudaLaunchKernel", 1000, pid=102, running=10),),
            row(HOST_GAP, 40, pid=102, running=390, runqueue=590),
        ],
        charges=[charge("runqueue", 600, 900), second],
        cpus=(100, 100, 100, 100),
    )


def shares(chain: Chain) -> dict[tuple[str, int], float]:
    return {(link.tenant, link.pid): round(link.share or 0.0, 2) for link in chain.culprits}


@pytest.mark.parametrize("devices", [("",), ("0",), ("0", "1"), ("0", "1", "0:1", "")])
def test_a_culprits_time_is_divided_among_the_devices_of_an_operation(devices: tuple[str, ...]) -> None:
    part = 600.0 / len(devices)
    rows = [row("cudaStreamSynchronize", 100, running=1, runqueue=part, device=device) for device in devices]
    taken = charge("runqueue", 300, 900, operation="cudaStreamSynchronize")
    made = window([LAUNCHES, *rows], charges=[taken], cpus=(100, 100))
    (chain,) = faults(explain(made))
    assert round(chain.lost_ms_per_s) == 300
    assert sum(link.ns_per_s or 0 for link in chain.culprits) == pytest.approx(300e6)


def test_processes_of_a_tenant_can_have_different_culprits() -> None:
    (chain,) = faults(explain(two_ranks(same_culprit=False)))
    assert round(chain.lost_ms_per_s) == 1_190
    assert shares(chain) == {(BATCH, 900): 0.5, (SERVE, 400): 0.5}
    assert [link.depth for link in chain.links] == [0, 1, 2, 1, 2]
    effect, *_ = chain.links
    assert effect.ns_per_s == pytest.approx(1_190e6)
    assert [fix.command for fix in chain.fixes] == ["taskset -acp 2-3 900", "taskset -acp 2-3 400"]


def test_a_culprit_of_several_processes_is_named_once() -> None:
    (chain,) = faults(explain(two_ranks(same_culprit=True)))
    assert shares(chain) == {(BATCH, 900): 1.0}
    assert [round((link.ns_per_s or 0) / MS) for link in chain.culprits] == [1_190]
    assert [link.depth for link in chain.links] == [0, 1, 2]
    (mechanism,) = [link for link in chain.links if link.role == "mechanism"]
    assert mechanism.text.endswith(" (pids 100, 102) waits for a CPU")
    assert mechanism.share == pytest.approx(1.0)
    assert mechanism.ns_per_s == pytest.approx(1_190e6)


@pytest.mark.parametrize(("disk_ms", "confidence"), [(900, 0.9), (600, 0.6)])
def test_other_work_of_a_worker_lowers_the_confidence_in_its_reason(
    disk_ms: float, confidence: float
) -> None:
    one = plus(
        plus(worker_gap(600), work(disk=disk_ms, running=900 - disk_ms)),
        window(evidence=Evidence(block_io=(io(TRAIN, 101, "worker", disk_ms),))),
    )
    first = faults(explain(one))[0]
    assert first.cause == "loader_disk"
    assert first.confidence == pytest.approx(confidence)


def learned(*rows: Spent, windows: int = KNOWN_WINDOWS) -> Normals:
    normals = Normals()
    for second in range(windows):
        normals.learn(Facts(window(rows, start=second)))
    return normals


ALWAYS_AT_WORK = [
    LAUNCHES,
    row("cudaStreamSynchronize", 20, gpu=600),
    row(HOST_GAP, 40, running=360, network=20, process=10),
]
"""A trainer that fetches its data from another host so early that it hardly waits for the data."""
SERVER = [LAUNCHES, row("cudaStreamSynchronize", 20, gpu=200), row(HOST_GAP, 40, running=260, network=500)]
"""A server that waits for requests for half of the time."""


def waiting(part: str, ms: float, by: int = 0) -> Window:
    """Returns a window whose host gaps wait for ``ms`` in ``part``. Process ``by`` ends the waits; 0 if the
    process is unknown."""
    gap = row(HOST_GAP, 40, {part: ms}, running=900 - ms)
    charges = [charge(part, ms, by, culprit_tenant=TRAIN, culprit_process="worker")] if by else []
    workers = [ProcessUse(TRAIN, by, "worker", link=1, parent_pid=100)] if by else []
    return window([LAUNCHES, gap], charges=charges, processes=workers)


@pytest.mark.parametrize("part", ["network", "process", "lock", "memory", "other"])
def test_a_wait_above_its_baseline_without_a_culprit_is_reported_as_unexplained(part: str) -> None:
    (chain,) = explain(waiting(part, 700), normals=learned(*ALWAYS_AT_WORK))
    assert (chain.cause, chain.severity, chain.culprits) == ("unexplained_wait", "low", ())
    assert chain.confidence < 0.5
    assert len(chain.unknown) == 2
    assert any("nothing to do" in line for line in chain.unknown)
    assert chain.fixes


def test_a_worker_that_waits_for_an_unknown_peer_leaves_the_wait_unexplained() -> None:
    """The workers read their data from another host, about which nothing is known."""
    one = plus(waiting("process", 700, by=101), work(network=900, running=50))
    assert losses(one, learned(*ALWAYS_AT_WORK)) == {"unexplained_wait": 690}


@pytest.mark.parametrize(
    ("made", "normals"),
    [
        pytest.param(waiting("network", 700), None, id="no baseline"),
        pytest.param(
            waiting("network", 700), learned(*ALWAYS_AT_WORK, windows=5), id="too few windows learned"
        ),
        pytest.param(waiting("network", 880), learned(*SERVER), id="a server with fewer requests"),
        pytest.param(waiting("network", 90), learned(*ALWAYS_AT_WORK), id="a short wait"),
        pytest.param(waiting("sleep", 700), learned(*ALWAYS_AT_WORK), id="sleep"),
    ],
)
def test_ordinary_waits_are_not_reported_as_unexplained(made: Window, normals: Normals | None) -> None:
    assert set(losses(made, normals)) <= {"host_bound"}


def test_an_unexplained_wait_is_not_reported_beside_a_fault() -> None:
    normals = learned(*ALWAYS_AT_WORK)
    for fault in (cpu_contention, tcp_retransmits):
        assert set(losses(plus(fault(), waiting("process", 700)), normals)) == {fault.__name__}


def test_a_baseline_does_not_learn_a_wait_while_it_is_reported() -> None:
    diagnosis = Diagnosis(normals=learned(*ALWAYS_AT_WORK))
    for second in range(20):
        look = diagnosis.add(replace(waiting("network", 700), start=float(second)))
    assert [chain.cause for chain in look.chains if chain.open] == ["unexplained_wait"]
