"""Tests how the trials of stragglers are judged, counted and kept."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench.faults.stage.stage import Place
from bench.stragglers import trial
from bench.stragglers.command import StragglerResults, main, table
from bench.stragglers.hosts import JobHost
from bench.stragglers.injections import INJECTIONS
from bench.stragglers.trial import StragglerOutcome
from stalltop.diagnosis.causes import CAUSES
from stalltop.fleet.watch import FleetWatch
from stalltop.model.errors import UsageError
from stalltop.model.fleet.fleet_view import FleetJob, FleetRank, FleetView
from stalltop.model.fleet.host_summary import HostAddress, ProblemSummary
from tests.unit.model.fleet.summaries import problem


def address(number: int) -> HostAddress:
    return HostAddress("bench", "rack", f"node-{number + 1}")


def host(number: int) -> JobHost:
    places = [Place(name, name * 8, Path("/")) for name in ("train", "neighbour", "data-server")]
    found = SimpleNamespace(
        number=number, address=address(number), places=places, trainer=places[0], neighbour=places[1]
    )
    return cast(JobHost, found)


def view(late: int | None = None, told: ProblemSummary | None = None) -> FleetView:
    """Returns a fleet with a job, in which rank ``late`` is late because of the problem ``told``."""
    ranks = [FleetRank(n, address(n), 70 + n, "train.py", True, 9, 0.1, None, 0.0) for n in range(4)]
    if late is not None:
        ranks[late] = FleetRank(late, address(late), 70 + late, "train.py", True, 9, 0.1, told, 0.03)
    straggler = () if late is None else (ranks[late],)
    return FleetView(1.0, jobs=(FleetJob("c0", "", "train", 4, tuple(ranks), 0.0, straggler, 0.03),))


def watched(patch: pytest.MonkeyPatch, fault: str, number: int, *views: FleetView) -> StragglerOutcome:
    """Returns the outcome of a trial of ``fault`` on host ``number``, in which the fleet shows ``views``, one
    every tenth of a second, and then the last one."""
    clock = [100.0]
    patch.setattr(time, "monotonic", lambda: clock[0])
    patch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    left = list(views)
    watch = SimpleNamespace(view=lambda: left.pop(0) if len(left) > 1 else left[0])
    outcome = StragglerOutcome(fault, number, 7)
    trial._watch(cast(FleetWatch, watch), outcome, INJECTIONS[fault], host(number), 100.0)
    return outcome


CPU = problem("cpu_contention", culprit="neighbour")
LOCK = problem("lock_contention", culprit="neighbour")


def test_every_injection_has_causes_that_exist() -> None:
    assert len(INJECTIONS) == 6
    assert {cause for one in INJECTIONS.values() for cause in one.causes} <= CAUSES.keys()


def test_the_right_rank_and_cause_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(monkeypatch, "CPU", 2, *[view()] * 9, *[view(2)] * 10, view(2, CPU))
    assert (found.rank_right, found.cause_right) == (True, True)
    assert found.told_seconds == pytest.approx(1.0)
    assert found.cause_seconds == pytest.approx(2.0)
    assert found.late_ms == pytest.approx(30)
    assert "waits for rank 2 on node-3" in found.said


def test_the_first_rank_that_is_told_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(monkeypatch, "CPU", 2, view(1, CPU), view(2, CPU))
    assert (found.rank_right, found.told, found.cause_right) == (False, 1, True)


@pytest.mark.parametrize("told", [None, LOCK, CPU._replace(culprit="data-server"), CPU._replace(culprit="")])
def test_another_cause_or_culprit_is_wrong(monkeypatch: pytest.MonkeyPatch, told: ProblemSummary) -> None:
    assert not watched(monkeypatch, "CPU", 2, view(2, told)).cause_right


def test_a_trial_in_which_an_outsider_is_blamed_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, "disk", 2, view(2, CPU._replace(culprit="mypy"))).disturbed
    assert not watched(monkeypatch, "disk", 2, view(2, CPU._replace(culprit="train of node-1"))).disturbed
    assert not watched(monkeypatch, "GPU", 2, view(2, CPU._replace(culprit=""))).disturbed
    results = StragglerResults(
        1, None, "machine", [*outcomes(), StragglerOutcome("CPU", 1, 4, told=1, disturbed=True)]
    )
    assert len(table(results).rows) == 2
    assert table(results).rows[0][:2] == ("CPU", "2")
    assert "disturbed by other programs, which do not count: 1" in table(results).text()


def test_a_cause_that_is_gone_at_the_end_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watched(monkeypatch, "CPU", 2, view(2, CPU), view())
    assert found.cause_seconds is not None
    assert not found.cause_right


def test_a_fault_without_a_neighbour_blames_none(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = problem("loader_cpu", culprit="train")
    assert watched(monkeypatch, "loader", 1, view(1, loader)).cause_right
    assert not watched(monkeypatch, "loader", 1, view(1, loader._replace(culprit="neighbour"))).cause_right


def outcomes() -> list[StragglerOutcome]:
    right = StragglerOutcome("CPU", 2, 1, told=2, told_seconds=2.0, cause_seconds=3.0, cause_right=True)
    wrong = StragglerOutcome("CPU", 2, 2, told=1, calm_seconds=60.0, alarms=["train waits for rank 0"])
    return [right, wrong, StragglerOutcome("disk", -1, 3, error="the job did not get calm")]


def test_shares_count_all_valid_trials() -> None:
    results = StragglerResults(
        1, None, "machine", outcomes(), healthy_seconds=120.0, alarms=["train waits for rank 1"]
    )
    text = table(results).text()
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["CPU"][1:6] == ["2", "50", "%", "50", "%"]
    assert rows["all"][1:6] == rows["CPU"][1:6]
    assert "disk" not in rows
    assert "alarms in 3.0 healthy minutes (1.0 of them between trials): 2" in text
    assert "could not be set up: 1" in text


def test_results_are_kept_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    written = StragglerResults(1, file, "machine", outcomes(), healthy_seconds=60.0, alarms=["x"])
    written.write()
    read = StragglerResults(1, file, "machine")
    read.read()
    assert read == written
    file.write_text(json.dumps({"outcomes": 7}))
    with pytest.raises(UsageError, match="no such results"):
        read.read()


def test_go_on_needs_a_file() -> None:
    with pytest.raises(UsageError, match="--go-on needs a file"):
        main(["--go-on"])
