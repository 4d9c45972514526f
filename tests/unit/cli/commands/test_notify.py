"""Tests ``stalltop notify``: its settings, its test, and a run that tells a webhook about a problem."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.serving.host.tracer_server import TracerServer
from stalltop.tui.settings import host as known
from tests.unit.serving.host.tracers import TRACER, seated
from tests.unit.serving.notify.problems import problem, with_problems
from tests.unit.serving.notify.web import KeptRequests, web_server


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setattr(known, "HOST_CONFIG", path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return path


@pytest.fixture
def web() -> Iterator[KeptRequests]:
    with web_server() as kept:
        yield kept


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names nobody"),
        ("[notify]\nseverity = 'high'", "names nobody"),
        ("notify = 1", "allowed: a table"),
        ("[notify]\nwebhok = 'http://a/'", "did you mean webhook?"),
        ("[notify]\nwebhook = 'ftp://a/'", "an http or https URL"),
        ("[notify]\nwebhook = 'http://a b/'", "an http or https URL"),
        ("[notify]\nwebhook = 'http://a:x/'", "an http or https URL"),
        ("[notify]\nslack = '/no/such'", "slack: /no/such is missing"),
        ("[notify]\nslack = '/dev/null'", "cannot read /dev/null"),
        ("[notify]\ncommand = 'true'", "a list of the absolute path"),
        ("[notify]\ncommand = ['true']", "a list of the absolute path"),
        ("[notify]\nseverity = 'info'", '"critical", "high", "medium", "low"'),
        ("[notify]\nseconds = -1", "from 0 to 3600"),
        ("[notify]\nrecording = 'r.stalltop'", "an absolute path"),
    ],
)
def test_faulty_settings_end_with_exit_code_2(
    config: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(text)
    assert cli.main(["notify"]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""


def test_the_test_tells_everyone_a_beginning_and_an_end(
    config: Path, web: KeptRequests, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, target = tmp_path / "slack.url", tmp_path / "got"
    secret.write_text(f"http://127.0.0.1:{web.port}/slack/SECRET\n")
    config.write_text(
        f"[notify]\nwebhook = 'http://127.0.0.1:{web.port}/hook'\nslack = '{secret}'\n"
        f"alertmanager = 'http://127.0.0.1:{web.port}'\n"
        f"command = ['/bin/sh', '-c', 'cat >> {target}']\n"
    )
    assert cli.main(["notify", "--test"]) == 0
    err = capsys.readouterr().err
    for name in ("webhook", "slack", "alertmanager", "command"):
        assert f"{name}: took the sample" in err
    paths = [path for path, _ in web.got]
    assert paths == [
        *("/hook", "/hook", "/slack/SECRET", "/slack/SECRET", "/api/v2/alerts", "/api/v2/alerts"),
    ]
    assert [content["change"] for path, content in web.got if path == "/hook"] == ["opened", "closed"]
    assert all(content["title"].startswith("TEST: ") for path, content in web.got if path == "/hook")
    assert web.got[4][1][0]["labels"]["test"] == "true"
    assert target.read_text().count('"test": true') == 2


def test_a_test_that_a_receiver_does_not_take_ends_with_1(
    config: Path, web: KeptRequests, capsys: pytest.CaptureFixture[str]
) -> None:
    web.answer = 500
    config.write_text(
        f"[notify]\nwebhook = 'http://127.0.0.1:{web.port}/SECRET'\n"
        f"command = ['{sys.executable}', '-c', '']\n"
    )
    assert cli.main(["notify", "--test"]) == 1
    err = capsys.readouterr().err
    assert f"webhook: http://127.0.0.1:{web.port} answered 500" in err
    assert "command: took the sample" in err
    assert "SECRET" not in err


def test_other_commands_do_not_read_the_files_of_the_table(config: Path, tmp_path: Path) -> None:
    from stalltop.cli.host import host_settings

    config.write_text("socket = '/run/x'\n[notify]\nslack = '/no/such'\nseconds = 5\n")
    settings = host_settings()
    assert settings.socket == Path("/run/x")
    assert settings.notify.seconds == 5.0


def test_a_client_of_the_tracer_tells_a_webhook(
    config: Path, web: KeptRequests, tracer_socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = config.with_name("r.stalltop")
    recording.write_text("")
    config.write_text(
        f"[notify]\nwebhook = 'http://127.0.0.1:{web.port}/'\nseconds = 0\nrecording = '{recording}'\n"
    )
    seat = seated(tracer_socket)
    server = TracerServer(seat.listener, TRACER)
    server.start()
    ended, got = threading.Event(), list[tuple[str, object]]()

    def publish() -> None:
        while not ended.wait(0.05):
            now = time.time()
            one = with_problems(problem(since=now - 10.0), end=now)
            server.publish(replace(one, host="gpu7"))

    def stop() -> None:
        got.extend(web.wait(1))
        os.kill(os.getpid(), signal.SIGINT)

    threads = [threading.Thread(target=one, daemon=True) for one in (publish, stop)]
    for thread in threads:
        thread.start()
    try:
        assert cli.main(["notify"]) == 0
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        server.stop()
        seat.close()
    assert "telling webhook" in capsys.readouterr().err
    ((_, document),) = got
    assert isinstance(document, dict)
    assert document["change"] == "opened"
    assert document["title"].startswith("[HIGH] gpu7: train is slow: serve (encode, pid 21741) takes its CPU")
    assert document["look"].startswith(f"stalltop open {recording} --at '20")
    assert (config.parent / "state" / "stalltop" / "notified.json").exists()
