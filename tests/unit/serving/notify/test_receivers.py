"""Tests what each receiver gets, and that failures are noticed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stalltop.diagnosis.causes import TELLINGS
from stalltop.model.tenant import Tenant
from stalltop.serving.notify import receivers as module
from stalltop.serving.notify.alerts import alerts_of
from stalltop.serving.notify.ledger import DueMessage, ToldAlert
from stalltop.serving.notify.receivers import (
    Alertmanager,
    CommandReceiver,
    SlackWebhook,
    Webhook,
)
from stalltop.serving.notify.wording import WordedMessage, worded
from stalltop.serving.web_post import DeliveryError
from tests.unit.serving.notify.problems import NOW, problem, with_problems
from tests.unit.serving.notify.web import KeptRequests, web_server


@pytest.fixture
def web() -> Iterator[KeptRequests]:
    with web_server() as kept:
        yield kept


def message(name: str = "train", **changes: Any) -> WordedMessage:
    one = with_problems(problem(**changes))
    one = replace(one, tenants={**one.tenants, "docker:aa": Tenant("docker:aa", name)})
    (alert,) = alerts_of(one)
    return worded(DueMessage(alert.id, "opened", alert, None), "gpu7", TELLINGS, None)


def end_of(opened: WordedMessage) -> WordedMessage:
    alert = opened.message.alert
    assert alert is not None
    told = ToldAlert(alert.severity, alert.lost_ms_per_s, alert.since, NOW, opened.sentence)
    return worded(DueMessage(alert.id, "closed", None, told), "gpu7", TELLINGS, None)


def test_a_webhook_gets_the_document(web: KeptRequests) -> None:
    said = message()
    Webhook(f"http://127.0.0.1:{web.port}/hook?key=1").deliver(said)
    assert web.got == [("/hook?key=1", json.loads(json.dumps(said.document())))]


def test_slack_gets_text_in_which_names_are_only_text(web: KeptRequests) -> None:
    SlackWebhook(f"http://127.0.0.1:{web.port}/").deliver(message("<!channel> *x* ``` &amp; <http://evil|a>"))
    ((_, content),) = web.got
    assert content.keys() == {"text"}
    text = content["text"]
    assert text.startswith("*[HIGH] gpu7: ")
    assert "&lt;!channel&gt;" in text
    assert "<" not in text
    assert text.count("*") == 2
    assert text.count("`") == 6
    assert "$ taskset -cp 3 21741" in text


def test_slack_texts_have_a_limit(web: KeptRequests) -> None:
    SlackWebhook(f"http://127.0.0.1:{web.port}/").deliver(replace(message(), text="x" * 10_000))
    assert len(web.got[0][1]["text"]) < 4_000


def test_alertmanager_gets_labels_texts_and_times(web: KeptRequests) -> None:
    receiver = Alertmanager(f"http://127.0.0.1:{web.port}/")
    opened = message()
    receiver.deliver(opened)
    receiver.deliver(end_of(opened))
    (path, (alert,)), (_, (ended,)) = web.got
    assert path == "/api/v2/alerts"
    assert alert["labels"] == {
        "alertname": "StalltopCpuContention",
        "cause": "cpu_contention",
        "severity": "high",
        "instance": "gpu7",
        "subject": "serve",
    }
    assert alert["annotations"]["summary"] == opened.title
    assert alert["annotations"]["fix"] == "taskset -cp 3 21741"
    assert datetime.fromisoformat(alert["startsAt"]).timestamp() == NOW - 100.0
    assert datetime.fromisoformat(alert["endsAt"]) > datetime.now(UTC)
    assert ended["labels"] == alert["labels"]
    assert datetime.fromisoformat(ended["endsAt"]) <= datetime.now(UTC)


def test_alertmanager_is_told_that_an_alert_has_another_severity(web: KeptRequests) -> None:
    receiver = Alertmanager(f"http://127.0.0.1:{web.port}")
    receiver.deliver(message())
    receiver.deliver(message(severity="critical"))
    old, new = web.got[1][1]
    assert (old["labels"]["severity"], new["labels"]["severity"]) == ("high", "critical")
    assert datetime.fromisoformat(old["endsAt"]) <= datetime.now(UTC)
    receiver.deliver(message(severity="critical"))
    assert len(web.got[2][1]) == 1


@pytest.mark.parametrize("status", [400, 404, 429, 500, 302, 307])
def test_any_answer_but_a_success_is_a_failure_that_names_no_secret(web: KeptRequests, status: int) -> None:
    web.answer, web.headers = status, {"Location": f"http://127.0.0.1:{web.port}/elsewhere"}
    with pytest.raises(DeliveryError) as raised:
        Webhook(f"http://user:pass@127.0.0.1:{web.port}/T0/SECRET").deliver(message())
    assert f"127.0.0.1:{web.port} answered {status}: said" in str(raised.value)
    assert "SECRET" not in str(raised.value)
    assert "pass" not in str(raised.value)
    assert web.tries == 1


def test_a_receiver_that_is_away_is_a_failure() -> None:
    with web_server() as gone:
        port = gone.port
    with pytest.raises(DeliveryError, match="cannot reach http://127"):
        Webhook(f"http://127.0.0.1:{port}/SECRET").deliver(message())


def test_a_command_gets_the_document_on_its_stdin(tmp_path: Path) -> None:
    target = tmp_path / "got"
    script = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    said = message("$(touch /tmp/x); `id`")
    CommandReceiver((sys.executable, "-c", script, str(target))).deliver(said)
    assert json.loads(target.read_text()) == json.loads(json.dumps(said.document()))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/no/such/program",), "cannot run /no/such/program: No such file"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with 3"),
        ((sys.executable, "-c", "import time; time.sleep(100)"), "did not end within 0.3 s"),
    ],
)
def test_a_command_that_fails_is_a_failure(
    command: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in command[-1]:
        monkeypatch.setattr(module, "COMMAND_SECONDS", 0.3)
    with pytest.raises(DeliveryError, match=said):
        CommandReceiver(command).deliver(message())
