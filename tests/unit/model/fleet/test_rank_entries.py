"""Tests that the late rank of a running job is found across hosts, and that healthy jobs have none."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from stalltop.formats.text.fleet import job_line
from stalltop.model.fleet.fleet_state import FleetState
from tests.unit.model.fleet.running_job import RunningJob
from tests.unit.model.fleet.summaries import NOW, at, problem


@pytest.mark.parametrize("late", [0.005, 0.02, 0.04])
@pytest.mark.parametrize("one", [0, 3, 7])
def test_the_late_rank_is_found_within_seconds(one: int, late: float) -> None:
    job = RunningJob(late={one: late}, seed=one).seen(4)
    assert [rank.rank for rank in job.late] == [one]
    assert job.late_seconds == pytest.approx(late, abs=0.001)
    assert job.late_error_seconds == pytest.approx(0.0004)


def test_of_two_ranks_the_late_one_is_found() -> None:
    assert [rank.rank for rank in RunningJob(ranks=2, late={1: 0.01}).seen(6).late] == [1]


def test_it_is_said_with_the_problem_of_its_host() -> None:
    said = "train waits for its data: nightly-backup loads nvme0n1"
    disk = problem("loader_disk", summary=said, culprit="nightly-backup")
    job = RunningJob(late={5: 0.038}).seen(6, problems=(disk,), problems_in_all=1)
    assert job_line(job).startswith("train waits for rank 5 on node-5, late by 38")
    assert job_line(job).endswith(f"per collective: {said}")
    other = RunningJob(late={5: 0.038}).seen(6, problems=(disk._replace(culprit="indexer"),))
    assert job_line(other).endswith(f"per collective: {said}, because of indexer")
    line = RunningJob(late={5: 0.038}).seen(6, problems=(disk._replace(line="loader.py:88"),))
    assert job_line(line).endswith(f"per collective: {said} (loader.py:88)")
    assert "no known problem" in job_line(RunningJob(late={5: 0.038}).seen(6))


def test_a_problem_of_the_gpu_of_the_late_rank_is_its_cause() -> None:
    said = "GPU 3 runs slower: clocks throttled by heat"
    more: dict[str, Any] = {"namespace": "", "victim": "", "culprit": "", "summary": said}
    job, state = RunningJob(late={5: 0.038}), FleetState()
    for second in range(1, 7):
        for one in range(job.ranks):
            now = second + job.looks[one]
            other = problem("gpu_thermal", device="GPU 4", **{**more, "summary": "another GPU"})
            told = job.summary(one, now, problems=(other, problem("gpu_thermal", device="GPU 3", **more)))
            told = replace(told, ranks=tuple(rank._replace(device="3") for rank in told.ranks))
            state.take(at(f"node-{one}"), told, NOW + now + 0.01)
    (seen,) = state.view(NOW + 7).jobs
    assert job_line(seen).endswith(f"per collective: {said}")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_healthy_job_waits_for_nobody(seed: int, ranks: int) -> None:
    offsets = {one: (Random(seed + one).random() - 0.5) * 3e-4 for one in range(ranks)}
    job = RunningJob(ranks=ranks, offsets=offsets, seed=seed).seen(20)
    assert job.late == ()
    assert job_line(job) == ""


def test_a_clock_that_may_be_wrong_accuses_nobody() -> None:
    assert RunningJob(offsets={2: 0.02}, clock_error_ns=15_000_000).seen(10).late == ()


def test_clocks_that_are_not_synchronised_are_not_compared() -> None:
    assert RunningJob(late={1: 0.05}, clock_error_ns=-1).seen(10).late == ()


def test_two_late_ranks_are_not_one() -> None:
    assert RunningJob(late={1: 0.02, 2: 0.02}).seen(10).late == ()


@pytest.mark.parametrize("seed", range(4))
def test_clocks_of_any_offset_are_compared_by_the_server(seed: int) -> None:
    offsets = {one: (Random(seed + one).random() - 0.5) * 7200 for one in range(8)}
    known: dict[str, Any] = {"offsets": offsets, "clock_error_ns": -1, "round_trip": 1e-3, "seed": seed}
    healthy = RunningJob(**known).seen(20)
    assert healthy.late == ()
    assert all(abs(one.late_seconds or 1.0) < 1e-3 for one in healthy.ranks)
    job = RunningJob(late={2: 0.02}, **known).seen(6)
    assert [rank.rank for rank in job.late] == [2]
    assert job.late_seconds == pytest.approx(0.02, abs=0.001)
    assert job.late_error_seconds == pytest.approx(0.001)
    assert job.waiting_share > 0.9


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_on_busy_hosts_a_rank_is_late_only_by_more_than_all_are_in_turn(seed: int, ranks: int) -> None:
    busy = RunningJob(noise=0.003, ranks=ranks, seed=seed)
    assert [busy.seen(second).late for second in range(4, 20, 2)] == [()] * 8
    clearly = RunningJob(late={1: 0.06}, noise=0.003, ranks=ranks, seed=seed)
    assert {rank.rank for second in (8, 9, 10) for rank in clearly.seen(second).late} == {1}


@pytest.mark.parametrize("step", [-3600.0, -2.0, 2.0, 3600.0])
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_clock_that_is_set_accuses_nobody(step: float, ranks: int) -> None:
    known: dict[str, Any] = {"clock_error_ns": -1, "round_trip": 1e-3, "ranks": ranks}
    job, changed = RunningJob(**known), RunningJob(offsets={1: step}, **known)
    state = FleetState()
    for second in range(1, 40):
        for one in range(job.ranks):
            now = second + job.looks[one]
            told = (job if second < 20 else changed).summary(one, now)
            state.take(at(f"node-{one}"), told, NOW + now + 0.0105)
            (seen,) = state.view(NOW + now + 0.1).jobs
            assert seen.late == ()
    assert all(rank.late_seconds is not None for rank in seen.ranks)


def test_a_distant_server_accuses_nobody() -> None:
    known: dict[str, Any] = {"clock_error_ns": -1, "round_trip": 0.05}
    assert RunningJob(late={2: 0.02}, **known).seen(10).late == ()
    assert RunningJob(late={2: 0.4}, **known).seen(10).late


def test_the_more_exact_clock_is_used() -> None:
    known: dict[str, Any] = {"late": {2: 0.02}, "round_trip": 0.001}
    assert RunningJob(clock_error_ns=20_000_000, **known).seen(6).late_error_seconds == pytest.approx(0.001)
    assert RunningJob(clock_error_ns=20_000, **known).seen(6).late_error_seconds == pytest.approx(4e-5)


@pytest.mark.parametrize("one", range(4))
def test_a_rank_that_becomes_late_is_found_in_three_seconds(one: int) -> None:
    job = RunningJob(late={one: 0.03}, since=30.0, seed=one)
    assert job.seen(30).late == ()
    assert [rank.rank for rank in job.seen(33).late] == [one]


@pytest.mark.parametrize(("ranks", "least"), [(2, 5), (3, 16), (8, 16)])
def test_a_rank_that_is_late_in_every_other_step_is_found(ranks: int, least: int) -> None:
    """Each look is the first one: that a rank stays late for some seconds does not count."""
    job = RunningJob(ranks=ranks, late={1: 0.08}, every=2)
    found = [tuple(rank.rank for rank in job.seen(second).late) for second in range(5, 30)]
    assert set(found) <= {(), (1,)}
    assert found.count((1,)) >= least


def test_one_pause_is_not_late() -> None:
    """A rank is late in one step of 20 s, by a whole second."""
    job = RunningJob(late={1: 1.0}, every=80)
    assert [job.seen(second).late for second in range(3, 20)] == [()] * 17


def test_ranks_have_the_order_in_which_they_arrive() -> None:
    job = RunningJob(late={1: 0.01, 4: 0.03}).seen(6)
    by_rank = {one.rank: one.late_seconds or 0.0 for one in job.ranks}
    assert sorted(by_rank, key=lambda rank: by_rank[rank])[-2:] == [1, 4]
    assert by_rank[4] == pytest.approx(0.03, abs=0.002)
