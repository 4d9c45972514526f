"""Tests what the summaries of many hosts say together."""

from __future__ import annotations

import pytest

from stalltop.model.fleet.fleet_state import FORGET_SECONDS, SILENT_SECONDS, FleetState
from stalltop.model.fleet.host_summary import TenantSummary, WindowGap
from tests.unit.model.fleet.summaries import NOW, at, problem, rank, summary


def test_hosts_are_sorted_worst_first() -> None:
    state = FleetState()
    state.take(at("healthy"), summary(), NOW)
    state.take(at("medium"), summary(problem(lost=900, severity="medium")), NOW)
    state.take(at("high"), summary(problem(lost=10)), NOW)
    state.take(at("high-more"), summary(problem(lost=400)), NOW)
    state.take(at("was-bad"), summary(problem(lost=5_000, severity="critical")), NOW - 60)
    state.refuse(at("garbage"), "sends no summary: no JSON", NOW)
    hosts = [host.address.host for host in state.view(NOW).hosts]
    assert hosts == ["high-more", "high", "medium", "garbage", "was-bad", "healthy"]


def test_noise_in_the_loss_moves_no_host() -> None:
    state = FleetState()
    for turn in range(2):
        state.take(at("a"), summary(problem(lost=110 - 5 * turn)), NOW + turn)
        state.take(at("b"), summary(problem(lost=105 + 5 * turn)), NOW + turn)
        assert [host.address.host for host in state.view(NOW + turn).hosts] == ["a", "b"]


def test_one_culprit_of_many_hosts_is_one_problem() -> None:
    state = FleetState()
    for number in range(41):
        state.take(at(f"n{number:02}"), summary(problem(lost=10 + number, since=NOW - number)), NOW)
    state.take(at("other"), summary(problem(culprit="nightly")), NOW)
    state.take(at("network"), summary(problem("tcp_retransmits", culprit="", title="Lossy network")), NOW)
    first, *others = state.view(NOW).problems
    assert (first.culprit, len(first.hosts), first.hosts[0].host) == ("storage-backup", 41, "n40")
    assert first.lost_ms_per_s == sum(range(10, 51))
    assert first.since == NOW - 40
    assert first.victims == ("train",)
    assert {one.culprit for one in others} == {"nightly", ""}


def test_processes_of_one_program_are_one_culprit() -> None:
    state = FleetState()
    state.take(at("a"), summary(problem(culprit="cc1 (8 processes)")), NOW)
    state.take(at("b"), summary(problem(culprit="cc1 (3 processes)")), NOW)
    assert [one.culprit for one in state.view(NOW).problems] == ["cc1"]


def test_problems_of_silent_hosts_do_not_count() -> None:
    state = FleetState()
    state.take(at("a"), summary(problem()), NOW)
    assert state.view(NOW + SILENT_SECONDS).problems
    view = state.view(NOW + SILENT_SECONDS + 0.1)
    assert (view.problems, view.count("silent")) == ((), 1)
    assert view.hosts[0].remarks == ("silent for 5 s",)
    assert not state.view(NOW + FORGET_SECONDS + 1).hosts


def test_clocks_versions_and_gaps_are_said() -> None:
    state = FleetState()
    state.take(at("ahead"), summary(end=NOW + 3600), NOW)
    state.take(at("right"), summary(end=NOW - 0.9, program="0.2.0"), NOW)
    state.take(at("gap"), summary(gaps=(WindowGap(NOW - 90, NOW - 30, "disk full"),), lost_calls=7), NOW)
    state.take(at("blind"), summary(tracing="no BTF"), NOW)
    state.refuse(at("newer"), "sends version 2 of the summary", NOW)
    said = {host.address.host: host.remarks for host in state.view(NOW).hosts}
    assert said["ahead"] == ("its clock is 3,600 s ahead", "runs stalltop 0.1.0, others a newer one")
    assert said["right"] == ()
    assert said["gap"][1:] == ("7 calls not counted", "60 s of windows missing: disk full")
    assert said["blind"][-1] == "does not trace: no BTF"
    assert said["newer"] == ("sends version 2 of the summary",)


def test_a_message_that_comes_again_later_changes_nothing() -> None:
    state = FleetState()
    state.take(at("a"), summary(problem()), NOW)
    state.take(at("a"), summary(), NOW - 1)
    assert state.view(NOW).hosts[0].worst is not None


def test_a_readable_message_after_garbage_counts() -> None:
    state = FleetState()
    state.refuse(at("a"), "sends no summary", NOW)
    assert state.view(NOW).hosts[0].state == "unreadable"
    state.take(at("a"), summary(), NOW + 1)
    assert state.view(NOW + 1).hosts[0].state == "live"


def test_tenants_add_up_over_hosts() -> None:
    state = FleetState()
    for host, calls, p99 in (("a", 100, 5_000), ("b", 50, 9_000)):
        tenants = (TenantSummary("ml", "train", "pod", calls, 500_000_000, p99, 10.0),)
        state.take(at(host), summary(tenants=tenants), NOW)
    (tenant,) = state.view(NOW).tenants
    assert (tenant.hosts, tenant.calls_per_s, tenant.busy) == (2, 150.0, 1.0)
    assert (tenant.worst_p99_ns, tenant.worst_host.host, tenant.lost_ms_per_s) == (9_000, "b", 20.0)


def test_a_job_that_stands_waits_for_the_rank_that_entered_fewest() -> None:
    state = FleetState()
    state.take(at("a"), summary(ranks=(rank(0, 500), rank(1, 500))), NOW)
    disk = problem(cause="slow_disk", culprit="nightly-backup")
    state.take(at("b"), summary(problem("nccl_straggler"), disk, ranks=(rank(2, 499), rank(3, 500))), NOW)
    (job,) = state.view(NOW).jobs
    assert job.stands_seconds == 10.0
    (late,) = job.late
    assert (late.rank, late.address.host) == (2, "b")
    assert late.problem == disk, "the cause, not that the rank is late"


def test_a_job_that_runs_waits_for_nobody() -> None:
    state = FleetState()
    state.take(at("a"), summary(ranks=(rank(0, 512, 0.01), rank(1, 512, 0.01))), NOW)
    state.take(at("b"), summary(ranks=(rank(2, 430, 0.01),)), NOW)
    (job,) = state.view(NOW).jobs
    assert (job.late, job.stands_seconds, len(job.ranks), job.size) == ((), 0.0, 3, 4)


def test_a_finished_job_does_not_stand() -> None:
    state = FleetState()
    state.take(at("a"), summary(ranks=(rank(0, 512, 60.0), rank(1, 512, 60.0))), NOW)
    assert state.view(NOW).jobs[0].late == ()


@pytest.mark.parametrize("jobs", [True, False])
def test_what_is_known_about_ranks_ends_with_them(jobs: bool) -> None:
    state = FleetState()
    for number in range(20):
        ranks = (rank(0, 5, communicator=f"c{number}"),)
        state.take(at("a"), summary(end=NOW + number, ranks=ranks), NOW + number)
        state.view(NOW + number, jobs=jobs)
    assert list(state._entries._known) == ["c19"]
    assert list(state._entries._clocks) == [at("a")]
    state.view(NOW + 20 + FORGET_SECONDS, jobs=jobs)
    assert not state._entries._known
    assert not state._entries._clocks
