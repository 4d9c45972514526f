"""Tests ``stalltop notify`` with the real Alertmanager of Debian: an alert opens, gets worse, and ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.model.chain import Chain
from stalltop.serving.notify import ledger
from stalltop.tui.settings import host as known
from tests.kernel.harness import wait_until
from tests.kernel.receivers.alertmanager import FETCHED, alertmanager
from tests.unit.serving.host.tracers import publishing
from tests.unit.serving.notify.problems import problem, with_problems
from tests.unit.serving.notify.web import web_server

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(not FETCHED, reason="Alertmanager was not fetched"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can show Alertmanager its templates"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setattr(known, "HOST_CONFIG", path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(ledger, "CLOSED_SECONDS", 1.0)
    return path


def host_with(problems: list[Chain], socket: Path) -> AbstractContextManager[None]:
    """A tracer whose windows have ``problems``, which may change."""
    return publishing(socket, lambda: with_problems(*problems, end=time.time()))


def test_alertmanager_takes_an_alert_that_opens_gets_worse_and_ends(
    config: Path, tmp_path: Path, tracer_socket: Path
) -> None:
    began = time.time() - 60.0
    problems = [problem(since=began), problem(tenant="docker:cc", since=began)]
    failures: list[BaseException] = []

    with web_server() as web, alertmanager(tmp_path, web.port) as server:
        config.write_text(f"[notify]\nalertmanager = '{server.url}'\nseconds = 0\n")

        def watch() -> None:
            try:
                (alert,) = wait_until(server.alerts, what="an alert")
                assert alert["labels"] == {
                    "alertname": "StalltopCpuContention",
                    "cause": "cpu_contention",
                    "severity": "high",
                    "instance": "gpu7",
                    "subject": "serve",
                }
                said = alert["annotations"]
                assert said["summary"].startswith("[HIGH] gpu7: train is slow: serve (encode, pid 21741)")
                assert said["victims"] == "train, docker:cc"
                assert said["fix"] == "taskset -cp 3 21741"
                assert said["runbook"] == "docs/runbook.md#cpu_contention"
                assert "cause 93 % certain" in said["description"]
                assert alert["status"]["state"] == "active"

                problems[0] = problem(since=began, severity="critical")
                worse = wait_until(
                    lambda: [one for one in server.alerts() if one["labels"]["severity"] == "critical"],
                    what="the worse alert",
                )
                assert len(worse) == 1
                wait_until(
                    lambda: len(server.alerts()) == 1, what="the end of the alert that was less severe"
                )

                problems.clear()
                wait_until(lambda: server.alerts() == [], what="the end")
                # Alertmanager itself passed on that it is over.
                wait_until(
                    lambda: any(content["status"] == "resolved" for _, content in web.got),
                    what="the end, passed on",
                )
            except BaseException as failure:
                failures.append(failure)
            finally:
                os.kill(os.getpid(), signal.SIGINT)

        with host_with(problems, tracer_socket):
            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            assert cli.main(["notify"]) == 0
            watcher.join()
    if failures:
        raise failures[0]
    passed_on = [content for path, content in web.got if path == "/hook"]
    assert {content["status"] for content in passed_on} == {"firing", "resolved"}


def test_alertmanager_takes_the_test(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with web_server() as web, alertmanager(tmp_path, web.port) as server:
        config.write_text(f"[notify]\nalertmanager = '{server.url}/'\n")
        assert cli.main(["notify", "--test"]) == 0
        assert "alertmanager: took the sample" in capsys.readouterr().err
        config.write_text(f"[notify]\nalertmanager = '{server.url}/no/such/path'\n")
        assert cli.main(["notify", "--test"]) == 1
        assert "answered 404" in capsys.readouterr().err
