"""How outcomes of injected faults are judged and added up: without injecting any."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.faults import command
from bench.faults.catalogue import ALL
from bench.faults.fault import Truth, fault
from bench.faults.judging import Outcome, early_alarms, judge
from bench.faults.score import Healthy, false_alarms, table
from bench.faults.stage import Place, Stage
from bench.faults.watcher import Seen
from diagnosis.causes import CAUSES
from model.chain import Chain, Link, Severity
from model.errors import BadUsage
from model.tenant import Tenant
from model.window import Window
from tests.unit.windows import window

DOCUMENT = Path(__file__).parent.parent.parent / "docs/faults.md"
NOT_INJECTED = {"gpu_bound", "tracer"}
"""No fault, and none that a suite on a small host can bring about without being one itself."""


def place(name: str) -> Place:
    return Place(name, f"id-of-{name}", Path("/nowhere"))


VICTIM, HOG, OTHER = place("victim"), place("hog"), place("other")
PLACES = (VICTIM, HOG)


def chain(
    cause: str, severity: Severity = "high", *, lost: float = 100.0, blames: Place | None = None
) -> Chain:
    links = () if blames is None else (Link("culprit", "it", tenant=blames.name, pid=7),)
    return Chain(
        id=f"{cause}-{severity}",
        cause=cause,
        title=cause,
        severity=severity,
        summary=f"about {cause}",
        tenant=VICTIM.name,
        pid=1,
        process="p",
        layer="",
        operation="",
        lost_ms_per_s=lost,
        confidence=1.0,
        links=links,
        fixes=(),
    )


def look(at: float, *chains: Chain) -> Seen:
    tenants = {
        one.name: Tenant(one.name, one.name, "container", "docker", one.identity)
        for one in (VICTIM, HOG, OTHER)
    }
    return Seen(at, seen_window(tenants, chains))


def seen_window(tenants: dict[str, Tenant], chains: tuple[Chain, ...]) -> Window:
    return replace(window(), tenants=tenants, chains=chains)


def judged(truth: Truth, *looks: Seen, cause: str = "cpu_contention") -> Outcome:
    outcome = Outcome(cause, 1)
    judge(outcome, truth, looks, 10.0, PLACES)
    return outcome


def test_every_cause_that_can_be_injected_is() -> None:
    assert set(ALL) == set(CAUSES) - NOT_INJECTED
    assert sum(one.common for one in ALL.values()) == 12
    with pytest.raises(ValueError, match="no cause"):
        fault("no such cause")
    with pytest.raises(ValueError, match="no cause"):
        fault("cpu_contention")


def test_times_are_from_the_injection_to_the_look_that_says_so() -> None:
    right = chain("cpu_contention", blames=HOG)
    outcome = judged(
        Truth(VICTIM, HOG),
        look(9.5),
        look(11.0),
        look(12.0, chain("own_threads", "medium")),
        look(13.0, right, chain("own_threads", "medium")),
    )
    assert (outcome.detected_seconds, outcome.root_seconds) == (2.0, 3.0)
    assert (outcome.found, outcome.named, outcome.culprit_right) == ("cpu_contention", True, True)
    assert outcome.early == ()


def test_the_worst_chain_counts_and_others_are_only_named() -> None:
    outcome = judged(
        Truth(VICTIM, HOG),
        look(11.0, chain("cpu_contention", lost=10, blames=OTHER), chain("own_threads", lost=50)),
    )
    # Whoever takes no part in the trial may well have had the CPU: that is not what was asked.
    assert (outcome.found, outcome.named) == ("own_threads", False)
    outcome = judged(
        Truth(VICTIM, HOG),
        look(11.0, chain("cpu_contention", lost=10, blames=VICTIM), chain("own_threads", lost=50)),
    )
    assert (outcome.found, outcome.named, outcome.culprit_right) == ("own_threads", True, False)


def test_information_is_no_diagnosis() -> None:
    outcome = judged(Truth(VICTIM), look(11.0, chain("gpu_bound", "info")))
    assert (outcome.found, outcome.detected_seconds) == ("", None)


def test_alarms_before_the_fault_are_told_by_whom_they_blame() -> None:
    early, disturbed = early_alarms(
        [
            look(1.0, chain("reclaim"), chain("slow_disk", "low"), chain("cpu_contention", blames=OTHER)),
            look(2.0, chain("reclaim")),
        ],
        PLACES,
    )
    assert early == ("reclaim (high): about reclaim",)
    assert disturbed == ("cpu_contention (high): about cpu_contention",)


def outcome(cause: str, found: str, *, blamed: bool | None = None, seed: int = 1) -> Outcome:
    return Outcome(
        cause,
        seed,
        detected_seconds=1.0,
        root_seconds=2.0 if found == cause else None,
        found=found,
        named=found == cause,
        culprit_expected=blamed is not None,
        culprit_right=bool(blamed),
        healthy_seconds=4.0,
    )


def test_precision_and_recall_are_counted_over_all_trials() -> None:
    outcomes = [
        outcome("cpu_contention", "cpu_contention", blamed=True),
        outcome("cpu_contention", "own_threads", blamed=False, seed=2),
        outcome("own_threads", "own_threads", seed=3),
        outcome("own_threads", "", seed=4),
    ]
    lines = {line.split()[0]: line.split() for line in table(outcomes, "title").text().splitlines()[4:]}
    #                    trials top-1 named precision culprit detected root instead
    assert lines["cpu_contention"][1:] == ["2", "50", "50", "100", "50", "1.0", "2.0", "own_threads"]
    assert lines["own_threads"][1:] == ["2", "50", "50", "50", "-", "1.0", "2.0", "nothing"]
    assert lines["all"][1:] == ["4", "50", "50", "67", "50", "1.0", "2.0"]


def test_a_trial_that_could_not_be_set_up_is_not_scored() -> None:
    text = table([Outcome("oom_kill", 1, error="no such controller")], "title").text()
    assert text.splitlines()[4].split() == ["oom_kill", "0", "-", "-", "-", "-", "-", "-"]


def test_false_alarms_are_counted_an_hour() -> None:
    both = [outcome("cpu_contention", ""), outcome("slow_disk", "")]
    for one, other in (both, reversed(both)):
        one.others, one.early = (other.cause,), ("reclaim",)
    lines = false_alarms(both, [Healthy(1800.0, ("a",), ("b", "c"))]).text().splitlines()[4:]
    assert lines[0].split() == ["healthy", "30.0", "1", "2.0", "2"]
    # Two faults of one trial have had the same time before them.
    assert lines[1].split() == ["before", "faults", "0.1", "1", "900.0", "0"]


def test_results_are_written_with_their_seeds(tmp_path: Path) -> None:
    results = command.Results(5, tmp_path / "out.json")
    results.outcomes.append(outcome("cpu_contention", "cpu_contention", seed=77))
    results.healthy.append(Healthy(60.0, seed=78))
    results.write()
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["seed"], written["trials"][0]["seed"], written["healthy"][0]["seed"]) == (5, 77, 78)
    assert len(results.tables()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_the_document_says_what_is_injected() -> None:
    text = DOCUMENT.read_text()
    for cause, about in command.injected().items():
        assert f"| `{cause}` | {about} |" in text
    # What is quoted is from the suite itself, with the machine and the day.
    for title in ("faults: one at a time", "faults: healthy tenants"):
        assert re.search(rf"^{title}", text, re.MULTILINE)
    assert re.search(r"^Linux \d+\.\d+.*Python 3", text, re.MULTILINE)


def test_the_list_names_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ALL)


def test_a_cause_without_a_fault_is_bad_usage() -> None:
    with pytest.raises(BadUsage, match="no-such"):
        command.main(["--cause", "no-such"])


def test_parameters_depend_on_the_seed_alone() -> None:
    def drawn(seed: int) -> dict[str, float | str]:
        stage = Stage.__new__(Stage)  # no cgroups, no files: only its chance
        stage.chance, stage.notes = random.Random(seed), {}
        stage.between("a", 0, 1)
        stage.whole("b", 1, 1000)
        stage.one_of("c", ("x", "y", "z"))
        return stage.notes

    assert drawn(3) == drawn(3) != drawn(4)
