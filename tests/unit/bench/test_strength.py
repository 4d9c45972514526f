"""Tests faults whose strength is chosen, without injecting any: rehearsals, points, table and curves."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from bench.faults import command, graded
from bench.faults.graded import GRADED, STRENGTHS, Harm
from bench.faults.scoring.curves import drawing
from bench.faults.scoring.results import Results
from bench.faults.scoring.strength import points, strength_table
from bench.faults.stage.fault import Fault, Truth
from bench.faults.stage.stage import Stage
from bench.faults.trial.outcome import Outcome, outcome_of
from bench.faults.trial.trial import lost_share
from stalltop.diagnosis.causes import CAUSES
from stalltop.model.errors import StalltopError, UsageError

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/faults.md"
SVG = "{http://www.w3.org/2000/svg}"


class Victim:
    """Stands for a program that makes ``per_s`` steps a second, or fewer while a fault takes some of its
    time. Only ``sleep`` advances the clock."""

    def __init__(self, per_s: float, takes: float) -> None:
        self.now = self.made = 0.0
        self.per_s = per_s
        self.takes = takes
        """Share of time that the fault really takes, divided by the share that it is requested to take."""
        self.asked: list[float] = []
        self.step_seconds: list[float] = []

    def sleep(self, seconds: float) -> None:
        lost = self.takes * self.asked[-1] if self.asked else 0.0
        self.made += seconds * self.per_s * (1 - lost)
        self.now += seconds

    def inject(self, share: float, step_seconds: float) -> None:
        self.asked.append(share)
        self.step_seconds.append(step_seconds)

    def harm(self) -> Harm:
        return Harm(Truth(None), lambda: int(self.made), self.inject)


@pytest.fixture
def registered() -> Iterator[dict[str, Fault]]:
    before = dict(GRADED)
    yield GRADED
    GRADED.clear()
    GRADED.update(before)


def staged(victim: Victim, strength: float, monkeypatch: pytest.MonkeyPatch) -> Stage:
    clock = SimpleNamespace(sleep=victim.sleep, monotonic=lambda: victim.now)
    monkeypatch.setattr(graded, "time", clock)
    stage = Stage.__new__(Stage)  # no cgroups and no files
    stage.strength, stage.notes, stage.chance = strength, {}, random.Random(1)
    return stage


@pytest.mark.parametrize("takes", [0.6, 1.0, 1.4])
def test_a_rehearsal_corrects_what_is_asked_for(
    takes: float, registered: dict[str, Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = Victim(1000.0, takes)
    stage = staged(victim, 0.2, monkeypatch)
    graded.graded("own_threads")(lambda _: victim.harm())
    script = registered["own_threads"].script(stage)
    assert next(script) == Truth(None)
    assert (victim.asked[0], victim.asked[-1]) == (0.2, 0.0)  # 0.0 is requested after the rehearsals
    assert next(script, None) is None
    assert takes * victim.asked[-1] == pytest.approx(0.2, abs=0.015)
    assert stage.notes == {"asked": round(victim.asked[-1], 3)}
    assert victim.step_seconds == pytest.approx([0.001] * len(victim.asked), rel=0.01)
    assert stage.steps is not None
    assert stage.steps() == int(victim.made)


def test_a_victim_that_makes_no_steps_cannot_lose_a_share(
    registered: dict[str, Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = Victim(0.0, 1.0)
    stage = staged(victim, 0.2, monkeypatch)
    graded.graded("own_threads")(lambda _: victim.harm())
    with pytest.raises(StalltopError, match="no steps"):
        next(registered["own_threads"].script(stage))
    assert victim.asked == []


def test_the_share_lost_is_that_of_steps_per_second() -> None:
    assert lost_share([(0.0, 100), (4.0, 500), (12.0, 1140)]) == pytest.approx(0.2)
    assert lost_share([(0.0, 100), (4.0, 500), (12.0, 1300)]) == pytest.approx(0.0)
    assert lost_share([(0.0, 0), (4.0, 0), (12.0, 0)]) is None


def trial(cause: str, strength: float, found: str, *, seed: int = 1, lost: float | None = None) -> Outcome:
    return Outcome(
        cause,
        seed,
        strength=strength,
        lost_share=strength if lost is None else lost,
        detected_seconds=1.0 if found else None,
        found=found,
        culprit_right=found == cause,
    )


TRIALS = (
    trial("gil", 0.05, "", lost=0.03),
    trial("gil", 0.05, "lock_contention", lost=0.06),
    trial("gil", 0.05, "gil", lost=0.05),
    replace(trial("gil", 0.1, "gil"), wrong=("reclaim",), early=("slow_disk",)),
    replace(trial("gil", 0.1, "gil"), culprit_right=False),
    replace(trial("gil", 0.1, ""), error="no such program"),
    replace(trial("gil", 0.1, ""), outside_share=0.1),
    trial("slow_disk", 0.1, "slow_disk", lost=0.12),
)


def test_points_count_trials_by_cause_and_strength() -> None:
    small, larger, disk = points(TRIALS)
    assert (small.cause, small.strength, small.typical_lost) == ("gil", 0.05, 0.05)
    assert (small.trials, small.found, small.named, small.culprit, small.alarms) == (3, 2, 1, 1, 0)
    assert small.instead == ("lock_contention",)
    # Trials that could not be set up, or in which others took the victim's CPUs, do not count.
    assert (larger.trials, larger.found, larger.named, larger.culprit, larger.alarms) == (2, 2, 2, 1, 2)
    assert (disk.cause, disk.trials, disk.named) == ("slow_disk", 1, 1)


def test_the_table_says_what_was_meant_and_what_was_lost() -> None:
    lines = strength_table(TRIALS).text().splitlines()
    assert lines[4].split() == [*("gil", "5", "5", "(3", "to", "6)"), *"32110", "lock_contention"]
    assert lines[5].split() == ["10", "10", *"22212"]
    assert lines[6].split() == ["slow_disk", "10", "12", *"11110"]
    assert lines[-2] == "not counted (disturbed, reported before the fault, or not set up): 2 trials"
    assert lines[-1] == "meant to take 10% or more: named in 3, with the right culprit in 2 of 3"


def test_each_cause_has_a_panel_with_its_curves() -> None:
    root = ElementTree.fromstring(drawing(points(TRIALS)))
    titles = [one.text for one in root.iter(f"{SVG}text") if one.get("class") == "title"]
    assert titles == ["gil", "slow_disk"]
    panels = root.findall(f"{SVG}g")
    curves = [
        {line.get("class", ""): coordinates(line.get("points", "")) for line in panel.iter(f"{SVG}polyline")}
        for panel in panels
    ]
    assert [set(one) for one in curves] == [{"found", "named", "culprit"}] * 2
    (low, high), (disk,) = curves[0]["named"], curves[1]["named"]
    assert low[0] < high[0] < disk[0]  # a point further right: more time was lost
    assert low[1] > high[1] == disk[1]  # a higher point: the cause was named more often
    assert curves[0]["found"][0][1] < low[1]
    crosses = [sum(path.get("class") == "alarm" for path in panel.iter(f"{SVG}path")) for panel in panels]
    assert crosses == [1, 0]


def test_the_drawing_has_colours_for_light_and_dark_and_loads_nothing() -> None:
    text = drawing(points(TRIALS))
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    style = text[text.index("<style>") : text.index("</style>")]
    light, dark = style.split("@media")
    for name in set(re.findall(r'class="(\w+)"', text)) - {"title"}:
        assert f".{name} " in light
        assert f".{name} " in dark


def coordinates(text: str) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in text.split())
    return [(float(x), float(y)) for x, y in pairs]


def test_all_causes_are_tried_at_all_strengths() -> None:
    trials, minutes = command.planned(command.parser().parse_args(["--strength"]))
    kinds = [(fault.cause, fault.strength) for (fault,) in trials]
    assert len(GRADED) == 8
    assert set(GRADED) <= set(CAUSES)
    assert sorted(kinds) == sorted(
        (cause, share) for cause in GRADED for share in STRENGTHS for _ in range(3)
    )
    assert minutes == 0.0
    few = command.parser().parse_args(["--strength", "--cause", "gil", "--trials", "1"])
    assert [fault.strength for (fault,) in command.planned(few)[0]] == list(STRENGTHS)
    with pytest.raises(UsageError, match="oom_kill"):
        command.planned(command.parser().parse_args(["--strength", "--cause", "oom_kill"]))


def test_a_run_goes_on_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    results = Results(5, path, outcomes=list(TRIALS))
    results.write()
    again = Results(5, path)
    again.read()
    assert again.outcomes == [one for one in TRIALS if not one.error and not one.outside_share]
    assert outcome_of(TRIALS[3].plain()) == TRIALS[3]
    fault = replace(GRADED["gil"], strength=0.1)
    assert again.has((fault,), 1)
    assert not again.has((fault,), 2)
    assert not again.has((replace(fault, strength=0.2),), 1)
    Results(5, tmp_path / "none.json").read()
    with pytest.raises(UsageError, match="--out"):
        command.main(["--strength", "--go-on"])


def test_the_document_gets_the_table_and_the_figure(tmp_path: Path) -> None:
    document = tmp_path / "faults.md"
    (tmp_path / "images").mkdir()
    begin = "<!-- figures: strength, written by ./bench/run faults --write-docs -->"
    document.write_text(f"{begin}\n<!-- end of figures: strength -->\n")
    Results(5, outcomes=list(TRIALS), planned=7).write_docs(document, "strength")
    text = document.read_text()
    assert "faults: how small a fault may be" in text
    assert "faults: one at a time" not in text
    assert "* `gil`, seed 1, 5%: found nothing" in text
    assert "* besides `gil`, 10%: reclaim" in text
    assert "not counted (disturbed, reported before the fault, or not set up): 2 trials" in text
    assert (tmp_path / "images/strength.svg").read_text() == drawing(points(TRIALS))


def test_the_document_describes_each_fault_and_shows_the_curves() -> None:
    text = DOCUMENT.read_text()
    for cause, fault in GRADED.items():
        about = " ".join((fault.script.__doc__ or "").split())
        assert f"| `{cause}` | {about} |" in text
    assert "(images/strength.svg)" in text
    assert (DOCUMENT.parent / "images/strength.svg").exists()
