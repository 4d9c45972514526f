"""Tests who waits for whom in collectives whose entries are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from stalltop.formats.documents.fleet import fleet_document
from stalltop.model.fleet.fleet_view import FleetView
from stalltop.model.fleet.job_waits import JobWaits, LastRank, waits_in
from stalltop.model.fleet.likeness import UnlikeDevice
from tests.unit.model.fleet.running_job import RunningJob
from tests.unit.model.fleet.summaries import NOW, at


def test_each_rank_waits_from_its_entry_to_that_of_the_last_one() -> None:
    found = waits_in([{0: 0.0, 1: 0.1, 2: 0.5}, {0: 1.0, 1: 1.2, 2: 1.1}])
    assert found.waited_seconds == pytest.approx({0: 0.7, 1: 0.4, 2: 0.1})
    assert found.lost_rank_seconds == pytest.approx(1.2)
    assert found.seconds == pytest.approx(1.2)
    assert [(one.rank, one.times) for one in found.last] == [(2, 1), (1, 1)]
    assert [one.rank_seconds for one in found.last] == pytest.approx([0.9, 0.3])


def test_waits_that_overlap_count_once() -> None:
    """A rank enters two collectives before the last one enters the first of them."""
    found = waits_in([{0: 0.0, 1: 1.0}, {0: 0.5, 1: 1.5}])
    assert found.waited_seconds == pytest.approx({0: 1.5, 1: 0.0})
    assert found.last == (LastRank(1, 2, 1.5),)


@pytest.mark.parametrize("seed", range(20))
def test_what_ranks_wait_is_what_others_cost_and_is_less_than_the_time(seed: int) -> None:
    random = Random(seed)
    clocks, collectives = [0.0] * 5, []
    for _ in range(30):
        clocks = [one + random.expovariate(10) for one in clocks]
        collectives.append(dict(enumerate(clocks)))
    found = waits_in(collectives)
    assert sum(one.rank_seconds for one in found.last) == pytest.approx(found.lost_rank_seconds)
    assert sum(one.times for one in found.last) == found.collectives == 30
    assert all(0 <= waited <= found.seconds + 1e-9 for waited in found.waited_seconds.values())
    assert found.lost_rank_seconds <= 4 * found.seconds


def test_without_collectives_nobody_waits() -> None:
    assert waits_in([]) == JobWaits()
    assert JobWaits().lost_rank_seconds == 0.0


def test_a_job_says_what_it_loses_and_for_whom() -> None:
    job = RunningJob(late={3: 0.02, 6: 0.005}).seen(6)
    assert job.compared >= 6
    assert 1.0 < job.compared_seconds < 4.0
    assert job.compared_error_seconds == pytest.approx(0.0004)
    assert [rank.rank for rank in job.order][-2:] == [6, 3]
    first = job.waits_for[0]
    assert (first.rank, first.times) == (3, job.compared)
    assert first.rank_seconds == pytest.approx(job.lost_rank_seconds)
    # Seven ranks wait: rank 6 by 5 ms less than the others.
    assert job.lost_rank_seconds <= job.compared * (7 * 0.02 - 0.005) + job.compared * 7 * 0.003
    waited = {rank.rank: rank.waited_seconds or 0.0 for rank in job.ranks}
    assert waited[3] == 0.0
    assert sum(waited.values()) == pytest.approx(job.lost_rank_seconds)


def test_some_late_steps_change_the_mean_but_not_the_order() -> None:
    job = RunningJob(late={1: 0.08}, every=4).seen(6)
    by_rank = {rank.rank: rank for rank in job.ranks}
    assert (by_rank[1].late_seconds or 0.0) > 0.005
    assert abs(by_rank[1].median_late_seconds or 1.0) < 0.002


def test_the_document_has_what_a_job_loses() -> None:
    job = RunningJob(late={2: 0.03}, ranks=4).seen(6)
    (told,) = fleet_document(FleetView(NOW, jobs=(job,)))["jobs"]
    assert told["lost_rank_seconds"] == job.lost_rank_seconds > 0
    assert told["compared_collectives"] == job.compared
    assert told["order"][-1] == 2
    assert told["waits_for"][0] == {
        "rank": 2,
        "times": job.compared,
        "rank_seconds": pytest.approx(job.lost_rank_seconds),
    }
    assert told["ranks"][2]["median_late_seconds"] == pytest.approx(0.03, abs=0.002)
    assert told["ranks"][2]["waited_seconds"] == 0.0


def test_a_job_that_cannot_be_compared_loses_an_unknown_time() -> None:
    job = RunningJob(late={2: 0.03}, clock_error_ns=-1).seen(6)
    (told,) = fleet_document(FleetView(NOW, jobs=(job,)))["jobs"]
    assert told["lost_rank_seconds"] is None
    assert told["compared_seconds"] is None
    assert (told["order"], told["waits_for"]) == ([], [])


def test_the_documentation_lists_the_fields_of_jobs() -> None:
    job = RunningJob(late={2: 0.03}, ranks=4).seen(6)
    unlike = UnlikeDevice(at("n"), "3", 1, "sm_clock_mhz", 1200.0, 1980.0, "", 8)
    (told,) = fleet_document(FleetView(NOW, jobs=(replace(job, unlike=(unlike,)),)))["jobs"]
    about = (Path(__file__).parents[4] / "docs" / "fleet.md").read_text().partition("## JSON")[2]
    parts = (told, told["ranks"][0], told["waits_for"][0], told["unlike"][0])
    assert {name for part in parts for name in part if f"`{name}`" not in about} == set()
