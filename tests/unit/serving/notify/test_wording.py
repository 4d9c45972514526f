"""Tests alerts in words: who, why, whose fault, how sure, what to do, and how to look."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from stalltop.diagnosis.causes import TELLINGS
from stalltop.model.tenant import Tenant
from stalltop.serving.notify.alerts import alerts_of
from stalltop.serving.notify.ledger import DueMessage, ToldAlert
from stalltop.serving.notify.wording import WordedMessage, joined, worded
from tests.unit.serving.notify.problems import NOW, alerts, problem, with_problems


def opened(recording: Path | None = None, **changes: str) -> WordedMessage:
    (alert,) = alerts(problem(), problem(tenant="docker:cc"))
    return worded(DueMessage(alert.id, "opened", alert, None), "gpu7", TELLINGS, recording)


def test_the_title_is_the_sentence_of_the_screen() -> None:
    said = opened()
    assert said.sentence == "train is slow: serve (encode, pid 21741) takes its CPU: 516 ms of each second"
    assert said.title == f"[HIGH] gpu7: {said.sentence}"


def test_the_text_has_cause_confidence_steps_fix_and_all_victims() -> None:
    text = "\n".join(opened().lines())
    assert "cause 93 % certain" in text
    assert "has its CPU" in text
    assert "$ taskset -cp 3 21741" in text
    assert "also: docker:cc" in text


def test_it_says_how_to_look(utc: None) -> None:
    assert opened().look == "stalltop"
    said = opened(Path("/var/lib/stalltop/a b.stalltop"))
    assert said.look == "stalltop open '/var/lib/stalltop/a b.stalltop' --at '2023-11-14 22:13:20'"
    assert said.lines()[-1] == f"Look: {said.look}"


def test_the_end_repeats_the_sentence() -> None:
    told = ToldAlert("critical", 5.0, NOW, NOW, "train is slow")
    said = worded(DueMessage("slow_disk/x", "closed", None, told), "gpu7", TELLINGS, None)
    assert said.title == "gpu7: ended: train is slow"
    assert said.lines() == [said.title]
    document = said.document()
    assert (document["change"], document["severity"], document["since"]) == ("closed", "critical", NOW)


def test_the_document_is_json_with_names_and_figures() -> None:
    document = json.loads(json.dumps(opened().document()))
    assert document["schema"] == "stalltop.alert/1"
    assert document["victims"] == ["train", "docker:cc"]
    assert document["culprit"] == "serve"
    assert document["lost_ms_per_s"] == 1_032.0
    assert document["fix"] == "taskset -cp 3 21741"
    assert [chain["tenant"] for chain in document["chains"]] == ["docker:aa", "docker:cc"]
    assert document["text"].startswith(document["title"])


def test_problems_that_had_to_wait_are_counted() -> None:
    said = opened()
    limited = replace(said, message=replace(said.message, waiting=4))
    assert limited.lines()[-1].startswith("4 more problems are open")


def test_a_problem_without_a_culprit_has_a_sentence() -> None:
    one = with_problems(problem(culprit=None))
    one = replace(one, tenants={"docker:aa": Tenant("docker:aa", "train")})
    (alert,) = alerts_of(one)
    said = worded(DueMessage(alert.id, "opened", alert, None), "gpu7", TELLINGS, None)
    assert said.sentence.startswith("train ")
    assert said.document()["culprit"] == ""


def test_a_long_text_is_cut() -> None:
    assert joined(["ab", "cd"], 5) == "ab\ncd"
    assert joined(["ab", "cd"], 4) == "ab…"
