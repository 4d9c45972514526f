"""Tests ``stalltop record --nats``: an agent beside the recorder, which reads the recording."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from stalltop.cli import main as cli
from stalltop.cli.commands.record import agent_beside
from stalltop.cli.fleet import agent_process
from stalltop.cli.fleet.agent_process import AgentProcess
from stalltop.cli.main import parsed
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.model.errors import UsageError
from stalltop.recordings.read.reading import load, open_file
from tests.unit.fleet.clients import until, watching
from tests.unit.fleet.programs import ended, printed, start

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
    server: LocalServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    access, path = ServerAccess((server.url,)), tmp_path / "r.stalltop"
    recorder = start(access, "record", "--to", str(path), "--simulated", "--no-state", *PLACE)
    try:
        with watching(access, "prod") as watch:
            until(lambda: any(host.calls_per_s for host in watch.view().hosts))
        (agent,) = agents_of(recorder)
        query = "select count(*) from windows"
        told = printed(capsys, "query", "fleet:prod/r7/node-1", query, "--json", "--nats", server.url)
        assert told["rows"][0][0] >= 1
        agent.kill()
        until(lambda: agents_of(recorder) and agents_of(recorder)[0].pid != agent.pid)
        with watching(access, "prod") as watch:
            until(lambda: any(host.calls_per_s for host in watch.view().hosts))
        (agent,) = agents_of(recorder)
    finally:
        said = ended(recorder)
    assert not agent.is_running()
    assert (
        f"the agent of the fleet ended with -9; it starts again in {agent_process.AGAIN_SECONDS:g} s" in said
    )
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
