"""Tests the commands of a fleet with a real server: agent, rollup, fleet, record, and what they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from nats.aio.client import Client

from stalltop.cli import main as cli
from stalltop.cli.fleet import agent_process
from stalltop.cli.fleet.agent_process import AgentProcess, agent_beside
from stalltop.cli.fleet.recorded import HostRecording
from stalltop.cli.main import parsed
from stalltop.fleet.answers import HostAnswers
from stalltop.fleet.connection import FleetError, ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.window_message import decoded_window
from stalltop.fleet.remote_host import RemoteHostSource
from stalltop.fleet.rollup import TIERS, advance
from stalltop.fleet.server_place import Rack
from stalltop.model.errors import UsageError
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.merge.history import History
from stalltop.recordings.read.reading import load, open_file
from stalltop.recordings.write.recording import Recording
from tests.unit.fleet.clients import agent, ask, ended, printed, run, second, start, until, watching
from tests.windows.full import full_window


def test_an_agent_a_rollup_and_the_fleet(
    server: LocalServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    access = ServerAccess((server.url,))
    place = ("--cluster", "prod", "--rack", "r7", "--host", "node-1")
    sender = start(access, "agent", "--simulated", "--no-state", *place)
    merger = start(access, "rollup")
    try:
        with watching(access, "prod") as watch:
            until(lambda: any(host.calls_per_s for host in watch.view().hosts))
        told = printed(capsys, "fleet", "--once", "--json", "--nats", server.url)
        assert told["schema"] == "stalltop.fleet/1"
        (host,) = told["hosts"]
        assert (host["cluster"], host["rack"], host["host"], host["state"]) == (
            "prod",
            "r7",
            "node-1",
            "live",
        )
        assert host["summary"]["simulated"] is True
        assert told["tenants"]
        assert cli.main(["fleet", "--once", "--nats", server.url]) == 0
        assert "prod/r7/node-1" in capsys.readouterr().out
        file = tmp_path / "merged.stalltop"
        until(lambda: cli.main(["fleet", "save", "--to", str(file), "--nats", server.url]) == 0)
        merged = load(file)
        assert merged.rows.calls.sum() > 0
        assert {key.pid for key in merged.rows.keys} == {0}
    finally:
        said = ended(sender)
        ended(merger)
    assert "sending prod/r7/node-1" in said


def test_a_saved_window_has_exactly_the_calls_of_all_hosts(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    access, now = ServerAccess((server.url,)), time.time() // 10 * 10 - 100
    for host in ("n1", "n2"):
        with agent(access, HostAddress("prod", "r1", host)) as made:
            for number in range(10):
                made.take(second(number, host, now))
            until(lambda: made.sent == 10)

    async def roll(client: Client) -> None:
        for tier in TIERS:
            while await advance(client, tier, Rack("prod", "r1"), 4e9):
                pass

    run(access, roll)
    for last in ("1h", "1d"):
        file = tmp_path / f"{last}.stalltop"
        assert cli.main(["fleet", "save", "-o", str(file), "--last", last, "--nats", server.url]) == 0
        assert int(load(file).rows.calls.sum()) == 60
    assert cli.main(["fleet", "save", "-o", str(file), "--nats", server.url]) == 2
    assert cli.main(["fleet", "save", "-o", str(tmp_path / "x"), "--cluster", "x", "--nats", server.url]) == 1
    assert "no merged windows" in capsys.readouterr().err


def test_a_check_says_what_is_missing(server: LocalServer, capsys: pytest.CaptureFixture[str]) -> None:
    def checked(code: int, *more: str) -> dict[str, dict[str, str]]:
        assert cli.main(["fleet", "check", "--json", "--nats", server.url, *more]) == code
        told = json.loads(capsys.readouterr().out)
        assert told["fit"] is (code == 0)
        return {one["name"]: one for one in told["findings"]}

    assert checked(1)["ST1_WIN"]["verdict"] == "fail"
    found = checked(0, "--make-streams")
    assert "made now" in found["ST1_WIN"]["seen"]
    assert found["TLS"]["verdict"] == "warn"
    assert found["rights"]["verdict"] == "warn"
    assert found["hosts"]["seen"] == "no host sends anything"
    assert found["rollup"]["verdict"] == "warn"
    with agent(ServerAccess((server.url,)), HostAddress("prod", "r1", "n1")) as made:
        made.take(second(0))  # of the past: the clock of this host is behind
        until(lambda: made.sent == 1)
        found = checked(0)
    assert "its clock is" in found["clocks"]["seen"]


def test_errors_of_users_are_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cases = {
        ("fleet", "--once", "--nats", "nats://127.0.0.1:1"): (1, "no NATS server answers"),
        ("fleet", "--once", "--nats", "http://x"): (2, "is no address of a NATS server"),
        ("fleet", "--once", "--nkey", "/no/such"): (2, "/no/such is no file with credentials"),
        ("fleet", "--once", "--tls-ca", "/no/such"): (2, "cannot use the certificates"),
        ("fleet", "--once", "--user", "a", "--password-file", "/no/such"): (2, "is missing"),
        ("fleet", "save"): (2, "needs --to FILE"),
        ("fleet", "--make-streams"): (2, "belongs to stalltop fleet check"),
        ("rollup", "--nats", "nats://127.0.0.1:1"): (1, "no NATS server answers"),
    }
    for arguments, (code, said) in cases.items():
        assert cli.main(arguments) == code, arguments
        assert said in capsys.readouterr().err, arguments


def test_a_host_answers_from_its_recording(access: ServerAccess, cluster: str, tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    recorder = Recording(path)
    for number in range(30):
        recorder.add(second(number))
    recorder.close()
    recording = HostRecording(path)
    assert len(recording.past(second(10).start, second(20).start)) == 10
    said: list[str] = []
    address = HostAddress(cluster, "r", "n1")
    answers = HostAnswers(recording.window, recording.query)
    with agent(access, address, said, answers=answers) as made, watching(access, cluster) as watch:
        made.take(second(99))
        until(lambda: made.sent == 1)

        def asked(**request: object) -> bytes:
            return ask(watch, address, request)

        window = decoded_window(asked(what="window", at=second(9).end, seconds=5))
        assert (window.start, window.seconds) == (second(5).start, 5.0)
        found = json.loads(asked(what="query", sql="SELECT SUM(calls) AS n FROM operations"))
        assert (found["columns"], found["rows"]) == (["n"], [[90]])
        for request, reason in (
            ({"what": "query", "sql": "DROP TABLE windows"}, "SELECT"),
            ({"what": "window", "at": 5.0}, "no windows of that time"),
            ({"what": "format", "disk": "/"}, "needs what"),
            ({"what": "window", "at": "x"}, "must be numbers"),
        ):
            with pytest.raises(FleetError, match=reason):
                asked(**request)
    assert any("asks for: query" in line for line in said)


def test_a_screen_of_a_host_begins_with_its_past(access: ServerAccess, cluster: str) -> None:
    address, now = HostAddress(cluster, "r", "n1"), time.time()
    with agent(access, address) as made:
        for number in range(20):
            made.take(second(number, start=now - 20))
        until(lambda: made.sent == 20)
        history = History()
        source = RemoteHostSource(access, address, history)
        try:
            time.sleep(0.5)  # what the server has kept arrives at once
            window = source.read()
            assert window.end == second(19, start=now - 20).end
            assert len(history) == 19
            made.take(full_window())
            assert source.read().chains
        finally:
            source.close()


PLACE = ("--cluster", "prod", "--rack", "r7", "--host", "node-1")


def agents_of(recorder: subprocess.Popen[str]) -> list[psutil.Process]:
    """Returns the agents of the recorder that run."""

    def is_agent(process: psutil.Process) -> bool:
        try:
            return "agent" in process.cmdline() and "-c" not in process.cmdline()
        except psutil.NoSuchProcess:  # it has ended
            return False

    return [one for one in psutil.Process(recorder.pid).children() if is_agent(one)]


def test_a_recorder_with_an_agent(
    server: LocalServer,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STALLTOP_NATS", server.url)
    access, path = ServerAccess((server.url,)), tmp_path / "r.stalltop"
    recorder = start(access, "record", "--to", str(path), "--simulated", "--no-state", *PLACE)
    try:
        with watching(access, "prod") as watch:
            until(lambda: any(host.calls_per_s for host in watch.view().hosts))
        (agent,) = agents_of(recorder)
        query = ("query", "fleet:prod/r7/node-1", "select count(*) as windows from windows")
        assert cli.main([*query, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["windows"] >= 1
        agent.kill()
        until(lambda: agents_of(recorder) and agents_of(recorder)[0].pid != agent.pid)
        since = time.time()
        with watching(access, "prod") as watch:
            until(lambda: any(host.at > since for host in watch.view().hosts))
        (agent,) = agents_of(recorder)
    finally:
        said = ended(recorder)
    assert not agent.is_running()
    again = f"ended with signal 9; it starts again in {agent_process.AGAIN_SECONDS:g} s"
    assert f"the agent that sends to {server.url} {again}" in said
    assert said.count("sending prod/r7/node-1") == 2
    assert load(path).rows.calls.sum() > 0
    with open_file(path) as recorded:
        assert not recorded.warnings


def test_the_agent_ends_with_a_recorder_that_is_killed(server: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    recorder = start(ServerAccess((server.url,)), "record", "--to", str(path), "--simulated", "--no-state")
    try:
        until(lambda: agents_of(recorder))
        (agent,) = agents_of(recorder)
    finally:
        os.kill(recorder.pid, signal.SIGKILL)
        recorder.communicate()
    assert not psutil.wait_procs([agent], timeout=60)[1]


def test_the_options_reach_the_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[list[str]] = []
    monkeypatch.setattr(AgentProcess, "__init__", lambda self, arguments, name: made.append(arguments))
    nkey = tmp_path / "nkey"
    nkey.touch()
    given = ["--nats", "nats://n:4222", f"--nkey={nkey}", "--rack=-r", "--windows", "asked", "--buffer", "8"]
    options = parsed(["record", "--simulated", "--socket", "/s", "--no-state", *given])
    assert agent_beside(options, Path("/r")) is not None
    (arguments,) = made
    assert arguments[:2] == ["agent", "--recording=/r"]
    asked, wanted = parsed(arguments), parsed(["agent", *given])
    for name in ("nats", "nkey", "rack", "windows", "buffer", "cluster", "host"):
        assert getattr(asked, name) == getattr(wanted, name)
    assert (str(asked.socket), asked.simulated, asked.state) == ("/s", True, False)
    agent_beside(parsed(["record", *given]), Path("/r"))
    assert parsed(made[1]).client
    assert agent_beside(parsed(["record"]), Path("/r")) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--rack", "r1"], "--rack: only with --nats"),
        (["--nats", "nats://n", "--own"], "--own: not with --nats"),
        (["--nats", "http://n"], "is no address of a NATS server"),
        (["--nats", "nats://n", "--nkey", "/no/such"], "is no file with credentials"),
    ],
)
def test_options_that_do_not_fit_are_refused(given: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        agent_beside(parsed(["record", *given]), Path("/r"))
    assert cli.main(["record", "--simulated", "--seconds", "1", *given]) == 2
