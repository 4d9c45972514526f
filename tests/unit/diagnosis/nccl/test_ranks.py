"""Tests NCCL ranks that arrive late or never, and collectives that wait for TCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.causes import gpu_causes
from stalltop.diagnosis.gpu.hung_calls import hung_call
from stalltop.diagnosis.series import Series
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.verdict import severity_of
from stalltop.model.evidence import HOST_GAP, Charge, Evidence, ProcessUse, Rank
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import Server, Servers, ThreadEvidence
from stalltop.model.window import OpenCall
from tests.unit.diagnosis.programs import found
from tests.windows.evidence import BATCH, SERVE, TRAIN, Spent, charge, row, window

WAITING, LATE = 100, 200
SECOND = 1_000_000_000


def rank(number: int, pid: int, tenant: str = TRAIN, **figures: int) -> Rank:
    made = Rank("9f3c", tenant, pid, "train.py", number, 2, 2, collectives=40, joined=40)
    return replace(made, **figures)  # type: ignore[arg-type]


def _step(pid: int, tenant: str, sync_ms: float, **gap: float) -> list[Spent]:
    return [
        row("cudaLaunchKernel", 1200, pid=pid, tenant=tenant, running=6),
        row("ncclAllReduce", 40, pid=pid, tenant=tenant, running=0.5),
        row("cudaStreamSynchronize", 40, pid=pid, tenant=tenant, gpu=sync_ms),
        row(HOST_GAP, 1280, pid=pid, tenant=tenant)._replace(split_ms=gap),
    ]


def _job(
    *ranks: Rank,
    late_gap: dict[str, float] | None = None,
    charges: Sequence[Charge] = (),
    open_calls: Sequence[OpenCall] = (),
    late_sync_ms: float = 200.0,
    threads: ThreadEvidence = ThreadEvidence(),  # noqa: B008  (it cannot be changed)
) -> list[Suspicion]:
    rows = [
        *_step(WAITING, TRAIN, 900, running=50),
        *_step(LATE, SERVE, late_sync_ms, **(late_gap or {"running": 50})),
    ]
    evidence = Evidence(ranks=ranks, threads=threads)
    return found(window(rows, evidence=evidence, charges=charges, open_calls=open_calls))


_ONE_LATE = (
    rank(0, WAITING, late_ns=2_000_000, last=1),
    rank(1, LATE, SERVE, late_ns=700_000_000, last=39),
)


def test_a_straggler_is_named_with_the_reason_why_it_is_late() -> None:
    (told,) = _job(*_ONE_LATE, late_gap={"running": 750})
    assert told.cause == "nccl_straggler"
    assert told.tenant == TRAIN
    assert told.lost_ns_per_s == pytest.approx(698e6)
    (culprit,) = [link for link in told.links if link.role == "culprit"]
    assert (culprit.tenant, culprit.pid) == (SERVE, LATE)
    assert "last in 98 % of the collectives" in culprit.text
    (reason,) = [link for link in told.links if link.role == "reason"]
    assert "computes longer" in reason.text
    assert reason.ns_per_s == pytest.approx(698e6)
    assert told.unknown == ()
    assert told.fixes[0].text.startswith("give rank 1 the same work as the others")
    assert told.fixes[1].command == f"py-spy top --pid {LATE}"


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("network", f"nsenter -t {LATE} -n ss -tinp state established"),
        ("runqueue", "top -H"),
        ("disk", f"py-spy dump --pid {LATE}"),
        ("lock", f"py-spy dump --pid {LATE}"),
        ("sleep", f"py-spy dump --pid {LATE}"),
    ],
)
def test_what_to_do_about_a_straggler_follows_from_what_it_waits_for(part: str, command: str) -> None:
    (told,) = _job(*_ONE_LATE, late_gap={"running": 50, part: 700})
    (look,) = [fix for fix in told.fixes if fix.command]
    assert look.command == command
    if part == "network":
        assert told.fixes[1].short == "let rank 1 read its data ahead of its steps"
    else:
        assert told.fixes[0].short.startswith("rank 1 ")
        assert told.fixes[0].short.endswith(" than the other ranks")


@pytest.mark.parametrize("servers", [1, 2])
def test_a_straggler_that_waits_for_the_network_is_told_with_its_servers(servers: int) -> None:
    known = [Server(f"10.20.0.{number}:2049", 0, 5_000_000, 14_000_000) for number in range(servers)]
    threads = ThreadEvidence(servers=(Servers(LATE, tuple(known)),))
    (told,) = _job(*_ONE_LATE, late_gap={"running": 50, "network": 700}, threads=threads)
    found_servers = [link for link in told.links if "connected to" in link.text]
    assert [link.text.split()[4].rstrip(",") for link in found_servers] == [one.address for one in known]
    assert [link.share is None for link in found_servers] == [servers > 1] * servers
    which = "dst 10.20.0.0:2049" if servers == 1 else "state established"
    assert told.fixes[0].command == f"nsenter -t {LATE} -n ss -tinp {which}"


def test_a_straggler_that_computes_inside_a_call_is_told_which_call() -> None:
    """The rank is late because of the copy, so its own code between the calls is not named."""
    copies = row("cudaMemcpyAsync HtoD", 40, pid=LATE, tenant=SERVE, running=700)
    rows = [*_step(WAITING, TRAIN, 900, running=50), *_step(LATE, SERVE, 200, running=50), copies]
    (told,) = found(window(rows, evidence=Evidence(ranks=_ONE_LATE)))
    (reason,) = [link for link in told.links if link.role == "reason"]
    assert reason.text.startswith(
        "it computes longer in cudaMemcpyAsync HtoD than the other ranks (p99 18 ms)"
    )
    assert "between" not in reason.text


def test_a_straggler_whose_cpu_is_taken_names_the_culprit() -> None:
    taken = charge("runqueue", 680, 9, tenant=SERVE, pid=LATE, culprit_tenant=BATCH)
    (told,) = _job(*_ONE_LATE, late_gap={"running": 50, "runqueue": 700}, charges=[taken])
    reasons = [link for link in told.links if link.role == "reason"]
    assert "waits longer for a CPU" in reasons[0].text
    assert (reasons[1].tenant, reasons[1].pid) == (BATCH, 9)
    assert any("taskset" in fix.command and "9" in fix.command for fix in told.fixes)


def test_a_straggler_without_a_known_reason_says_so() -> None:
    (told,) = _job(*_ONE_LATE)
    assert [link for link in told.links if link.role == "reason"] == []
    assert any("why rank 1 is late" in text for text in told.unknown)


def test_ranks_on_other_hosts_are_reported_as_unseen() -> None:
    (told,) = _job(*(replace(one, ranks=16) for one in _ONE_LATE), late_gap={"running": 750})
    assert told.unknown == ("14 of 16 ranks are on other hosts and not seen",)


def test_collectives_of_one_step_count_their_lateness_once() -> None:
    many = (
        rank(0, WAITING, joined=320, last=3),
        rank(1, LATE, SERVE, joined=320, late_ns=1_600_000_000, last=317),
    )
    (told,) = _job(*many)
    assert told.lost_ns_per_s == pytest.approx(40 * 5e6)


def test_the_loss_is_at_most_the_time_waited() -> None:
    (told,) = _job(rank(0, WAITING), rank(1, LATE, SERVE, late_ns=5 * SECOND, last=40))
    assert told.lost_ns_per_s <= 901e6


@pytest.mark.parametrize(
    "ranks",
    [
        (),
        (rank(0, WAITING),),
        (rank(0, WAITING), rank(1, LATE, SERVE)),
        (rank(0, WAITING, late_ns=60_000_000, last=19), rank(1, LATE, SERVE, late_ns=90_000_000, last=21)),
        (rank(0, WAITING), rank(1, LATE, SERVE, late_ns=20_000_000, last=40)),
        (rank(0, WAITING, joined=2), rank(1, LATE, SERVE, joined=2, late_ns=600_000_000, last=2)),
        (rank(0, WAITING, joined=5), rank(1, LATE, SERVE, joined=5, late_ns=150_000_000, last=5)),
        (rank(0, WAITING, joined=5), rank(1, LATE, SERVE, joined=5, late_ns=600_000_000, last=3)),
        (rank(0, WAITING), rank(1, 999, SERVE, late_ns=700_000_000, last=40)),
    ],
    ids=[
        *(
            "no ranks",
            "alone",
            "in step",
            "late in turn",
            "hardly late",
            "two collectives only",
            "slow steps, hardly late",
        ),
        *("slow steps, late in turn", "a rank that made no call"),
    ],
)
def test_ranks_in_step_have_no_straggler(ranks: tuple[Rank, ...]) -> None:
    assert _job(*ranks) == []


def test_slow_steps_with_one_rank_always_late_have_a_straggler() -> None:
    (told,) = _job(rank(0, WAITING, joined=4), rank(1, LATE, SERVE, joined=4, late_ns=700_000_000, last=4))
    assert told.cause == "nccl_straggler"


def _call(pid: int, seconds: float, operation: str = "cudaStreamSynchronize", **more: object) -> OpenCall:
    tenant = TRAIN if pid == WAITING else SERVE
    layer = "nccl" if operation.startswith("nccl") else "runtime"
    call = OpenCall(tenant, pid, pid, "train.py", layer, operation, round(seconds * 1e9))
    return replace(call, **more)  # type: ignore[arg-type]


def _hung(ranks: Sequence[Rank], calls: Sequence[OpenCall] = ()) -> list[Suspicion]:
    return found(window(evidence=Evidence(ranks=tuple(ranks)), open_calls=calls))


def test_a_rank_that_never_arrives_is_the_culprit() -> None:
    ranks = [
        rank(0, WAITING, since_entry_ns=11 * SECOND),
        rank(1, LATE, SERVE, behind=1, since_entry_ns=12 * SECOND),
    ]
    (told,) = _hung(ranks, [_call(WAITING, 11), _call(LATE, 8.5, "cudaMemcpy HtoD")])
    assert told.cause == "nccl_hang"
    assert told.tenant == TRAIN
    (culprit,) = [link for link in told.links if link.role == "culprit"]
    assert (culprit.tenant, culprit.pid) == (SERVE, LATE)
    assert "1 collective behind" in culprit.text
    assert any("cudaMemcpy HtoD for 8.5 s" in link.text for link in told.links)
    assert f"py-spy dump --pid {LATE}" in told.fixes[0].command
    assert told.effect is not None
    assert told.effect.operation == "cudaStreamSynchronize"
    assert "1 rank waits for rank 1" in told.summary
    assert told.summary.endswith("has not entered yet")


def test_a_chain_names_all_waiting_ranks() -> None:
    """Two ranks wait for rank 1. A chain lists the rows of both, so that each row leads to the chain."""
    third = 300
    hanging = [
        rank(0, WAITING, since_entry_ns=11 * SECOND, ranks=3, local_ranks=3),
        rank(1, LATE, SERVE, behind=1, since_entry_ns=12 * SECOND, ranks=3, local_ranks=3),
        rank(2, third, BATCH, since_entry_ns=11 * SECOND, ranks=3, local_ranks=3),
    ]
    waits = [_call(WAITING, 11), replace(_call(WAITING, 11), pid=third, tenant=BATCH)]
    (hang,) = _hung(hanging, waits)
    assert {row.tenant for row in hang.rows} == {TRAIN, BATCH}
    in_step = [replace(one, behind=0, since_entry_ns=0) for one in hanging]
    in_step[1] = replace(in_step[1], late_ns=700_000_000, last=40)
    rows = [*_step(WAITING, TRAIN, 900), *_step(LATE, SERVE, 200), *_step(third, BATCH, 800)]
    (straggler,) = found(window(rows, evidence=Evidence(ranks=tuple(in_step))))
    assert straggler.cause == "nccl_straggler"
    assert {row.tenant for row in straggler.rows} == {TRAIN, BATCH}


def _severity_of_hang(waited_s: float, *longest_s: float) -> str:
    """Returns the severity of the hang that is found after a wait of ``waited_s``; '' if none is found.
    ``longest_s`` are the lengths of earlier waits, sampled every 2 s: the first wait began at 300 s, the
    second at 400 s, and so on."""
    ranks = rank(0, WAITING, since_entry_ns=round(waited_s * SECOND)), rank(1, LATE, SERVE, behind=1)
    made = window(evidence=Evidence(ranks=ranks), start=1_000.0)
    series = Series()
    for number, lag_s in enumerate(longest_s):
        for passed in range(0, int(lag_s), 2):
            lagging = (replace(ranks[0], since_entry_ns=passed * SECOND), ranks[1])
            series.add(window(evidence=Evidence(ranks=lagging), start=300.0 + 100 * number + passed))
    for passed in range(int(waited_s)):
        lagging = (replace(ranks[0], since_entry_ns=passed * SECOND), ranks[1])
        series.add(window(evidence=Evidence(ranks=lagging), start=made.end - waited_s + passed))
    told = [one for one in found(made, series=series.points) if one.cause == "nccl_hang"]
    return severity_of(CAUSES["nccl_hang"], told[0].share) if told else ""


def test_a_hang_is_reported_later_where_earlier_waits_were_long() -> None:
    assert [_severity_of_hang(seconds) for seconds in (6, 11, 59, 61)] == ["", "high", "high", "critical"]
    # An earlier wait, for a rank that wrote a checkpoint, took 7 s. The samples, every 2 s, show 6 s of it. A
    # hang is reported only after five times this: 30 s.
    assert [_severity_of_hang(seconds, 7, 3) for seconds in (7, 29, 31)] == ["", "", "high"]


def test_a_call_of_a_rank_that_always_takes_long_is_no_hang() -> None:
    ranks = (rank(0, WAITING), rank(1, LATE))
    call = _call(WAITING, 20)
    made = window(evidence=Evidence(ranks=ranks), open_calls=[call])
    key = RowKey(made.host, call.tenant, call.pid, call.process, call.layer, call.operation)
    usual = Facts(made, longest_ns={key: 11 * SECOND})
    assert [one for one in gpu_causes(usual) if one.cause == "nccl_hang"] == []
    short = Facts(made, longest_ns={key: SECOND // 10})
    assert [one.cause for one in gpu_causes(short)] == ["nccl_hang"]


def test_a_hang_with_unseen_ranks_says_so() -> None:
    ranks = [replace(rank(number, pid), ranks=16) for number, pid in enumerate((WAITING, LATE))]
    told = _hung(ranks, [_call(WAITING, 12), _call(LATE, 11)])
    assert {one.cause for one in told} == {"nccl_hang"}
    assert {one.tenant for one in told} == {TRAIN, SERVE}
    assert all("14 of 16 ranks" in one.unknown[0] for one in told)


def test_a_communicator_that_is_never_created_is_a_hang() -> None:
    (told,) = _hung([], [_call(WAITING, 75, "ncclCommInitRank")])
    assert told.cause == "nccl_hang"
    assert "being made" in told.unknown[0]


@pytest.mark.parametrize(
    ("ranks", "calls"),
    [
        (
            [
                rank(0, WAITING, since_entry_ns=8 * SECOND),
                rank(1, LATE, SERVE, behind=1, since_entry_ns=30 * SECOND),
            ],
            [],
        ),
        ([rank(0, WAITING, since_entry_ns=90 * SECOND), rank(1, LATE, since_entry_ns=90 * SECOND)], []),
        ([rank(0, WAITING), rank(1, LATE)], [_call(WAITING, 6)]),
        ([rank(0, WAITING), rank(1, LATE)], [_call(WAITING, 60, ended=True)]),
        ([rank(0, WAITING), rank(1, LATE)], [_call(WAITING, 60, nested=True)]),
        ([], [_call(WAITING, 60)]),
        ([], [_call(WAITING, 40, "ncclCommInitRank")]),
    ],
    ids=[
        *("a checkpoint of one rank", "all idle", "a long step", "ended", "nested"),
        *("no NCCL rank", "a job that starts"),
    ],
)
def test_waits_with_an_explanation_are_no_hang(ranks: list[Rank], calls: list[OpenCall]) -> None:
    assert _hung(ranks, calls) == []


def test_a_hang_of_a_rank_is_not_reported_by_two_rules() -> None:
    made = window(
        evidence=Evidence(ranks=(rank(0, WAITING), rank(1, LATE))),
        open_calls=[_call(WAITING, 30), _call(300, 90)],
    )
    facts = Facts(made)
    assert {one.pid for one in gpu_causes(facts) if one.cause == "nccl_hang"} == {WAITING}
    assert {one.pid for one in hung_call(facts)} == {300}


def _over_tcp(
    retransmits: int, *, usual_ms: float | None = 5.0, ranks: Sequence[Rank] = (), collectives: bool = True
) -> Facts:
    """Returns the facts about a rank that makes 40 steps a second and waits 22 ms in each step. Its baseline
    says that a step usually waits ``usual_ms``."""
    made = window(
        [
            *([row("ncclAllReduce", 40, running=0.5)] if collectives else ()),
            row("cudaStreamSynchronize", 40, gpu=880),
            row(HOST_GAP, 80, running=80),
        ],
        processes=[ProcessUse(TRAIN, WAITING, "train.py", retransmits_v4=retransmits, link=0)],
        evidence=Evidence(ranks=tuple(ranks)),
    )
    sync = next(key for key in made.rows.keys if "Synchronize" in key.operation)
    return Facts(made, usual={sync: {"gpu": usual_ms * 1e6}} if usual_ms is not None else {})


def _told_of(facts: Facts) -> list[str]:
    return [suspicion.cause for suspicion in gpu_causes(facts)]


def test_collectives_slowed_by_tcp_retransmits_are_found() -> None:
    elsewhere = replace(rank(0, WAITING), ranks=16, local_ranks=1)
    (told,) = gpu_causes(_over_tcp(500, ranks=[elsewhere]))
    assert told.cause == "tcp_retransmits"
    assert told.lost_ns_per_s == pytest.approx(680e6)
    (culprit,) = [link for link in told.links if link.role == "culprit"]
    assert (culprit.pid, culprit.device) == (WAITING, "network")
    assert culprit.text == "500 TCP segments per second are retransmitted"
    assert f"nsenter -t {WAITING} -n ss" in told.fixes[0].command
    assert told.about == ""
    (alone,) = gpu_causes(_over_tcp(500))
    (local,) = gpu_causes(_over_tcp(500, ranks=[rank(0, WAITING), rank(1, LATE)]))
    assert local.confidence < alone.confidence == told.confidence
    assert any("all ranks are on this host" in text for text in local.unknown)


def test_retransmits_without_slower_collectives_are_no_fault() -> None:
    assert _told_of(_over_tcp(1)) == ["gpu_bound"]
    # No cause is found, not even gpu_bound, if the baseline is about as long as the wait, if there is no
    # baseline, or if the program calls no collectives.
    assert _told_of(_over_tcp(500, usual_ms=21.0)) == []
    assert _told_of(_over_tcp(500, usual_ms=None)) == []
    assert _told_of(_over_tcp(500, collectives=False)) == []
