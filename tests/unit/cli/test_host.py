"""Tests where a command gets the windows of this host: from the tracer, or by tracing."""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from stalltop.cli import host as hosts
from stalltop.cli import main as cli
from stalltop.cli.host import HostWindows, place
from stalltop.model.errors import TracingError, UsageError
from stalltop.model.hosts.tracer import Tracer
from stalltop.model.merge.history import History
from stalltop.model.window import Window
from stalltop.probes.options import MonitorOptions
from stalltop.probes.tracer.kernel_side import KernelSide
from stalltop.serving.host.place import TracerPlace, TracerSeat, TracerSilentError, claim, connected
from stalltop.serving.host.tracer_server import TracerServer
from stalltop.tui.settings import host as settings
from tests.tui.sources import MadeSource, numbered
from tests.unit.serving.host.tracers import until

TRACER = Tracer(4711, "root", 1_700_000_000.0, "stalltop record")


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setattr(settings, "HOST_CONFIG", path)
    return path


@pytest.fixture
def tracer(tracer_socket: Path) -> Iterator[TracerServer]:
    """A tracer that sends a window every few milliseconds."""
    seat = claim(TracerPlace(tracer_socket))
    assert isinstance(seat, TracerSeat)
    server = Publishing(seat)
    yield server.server
    server.close()


class Publishing:
    def __init__(self, seat: TracerSeat) -> None:
        self._seat = seat
        self.server = TracerServer(seat.listener, TRACER)
        self.server.start()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._end.wait(0.02):
            self.server.publish(numbered(number))
            number += 1

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self.server.stop()
        self._seat.close()


def measured(number: int) -> Window:
    """Returns a window as a monitor makes it: it does not say who traced it."""
    one = numbered(number)
    return replace(one, coverage=replace(one.coverage, tracer=None))


class StandInMonitor(MadeSource):
    """Stands for the tracer of this process."""

    def __init__(self, cannot_trace: TracingError | None = None) -> None:
        super().__init__(measured)
        self.cannot_trace = cannot_trace


def options(**given: object) -> argparse.Namespace:
    defaults = {"own": False, "socket": None, "attach": None, "memory": None, "budget": None, "sample": False}
    defaults["stacks"] = None
    return argparse.Namespace(**{**defaults, "state": False, **given})


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = cli.main([*arguments, "--no-state"])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_client_prints_the_windows_of_the_tracer_and_whose_they_are(
    tracer: TracerServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stalltop.probes.monitor.Monitor", None)  # a client must not trace
    code, out, err = run(["once", "--json", "--seconds", "0.2"], capsys)
    assert (code, err) == (0, f"stalltop: windows of the tracer of this host: {TRACER.text}\n")
    document = json.loads(out)
    assert document["probes"]["tracer"] == {
        "pid": 4711,
        "user": "root",
        "since": 1_700_000_000.0,
        "command": "stalltop record",
    }
    assert document["operations"]
    code, out, err = run(["explain", "--json", "--seconds", "0.2"], capsys)
    assert (code, err) == (0, f"stalltop: windows of the tracer of this host: {TRACER.text}\n")
    assert json.loads(out)["looked_at"]["calls"]


@pytest.mark.parametrize("command", ["once", "explain", "record"])
@pytest.mark.parametrize("option", ["--memory=200M", "--attach=perf", "--budget=off", "--sample"])
def test_a_client_refuses_options_of_the_tracer(
    tracer: TracerServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
) -> None:
    more = ["--to", str(tmp_path / "x.stalltop")] if command == "record" else []
    code, out, err = run([command, option, *more], capsys)
    name = option.partition("=")[0]
    assert (code, out) == (2, "")
    assert f"stalltop: {name}: only the tracer of this host can be told that ({TRACER.text})" in err
    assert f"start it again with {name}, or trace by yourself: --own" in err


def test_own_traces_beside_the_tracer_with_a_warning(
    tracer: TracerServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = StandInMonitor()
    monkeypatch.setattr("stalltop.probes.monitor.Monitor", lambda _: monitor)
    code, out, err = run(["once", "--json", "--seconds", "0.2", "--own", "--memory", "200M"], capsys)
    assert code == 0
    assert "probes cost the traced programs twice" in err
    assert json.loads(out)["probes"]["tracer"] is None
    assert monitor.closed.is_set()


def test_the_first_command_is_the_tracer_and_gives_its_place_up(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = StandInMonitor()
    monkeypatch.setattr("stalltop.probes.monitor.Monitor", lambda _: monitor)
    first = HostWindows(options())
    assert first.traces
    source = first.source()
    link = HostWindows(options(), only_join=True)  # so that it does not take the place that is given up
    assert not link.traces
    assert link.link is not None
    assert link.link.tracer.pid == os.getpid()
    client = link.source()
    assert (link.paced, first.paced) == (True, False)
    source.read()
    assert first.suspend_note().startswith("this stalltop is the tracer of this host: its clients (1) get no")
    assert link.suspend_note() == ""
    source.close()
    assert monitor.closed.is_set()
    client.close()
    assert connected(tracer_socket) is None
    again = HostWindows(options())
    assert again.traces
    again.source().close()


def test_a_prepared_client_traces_with_what_it_has_prepared(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[MonitorOptions] = []

    def monitor(options: MonitorOptions) -> StandInMonitor:
        given.append(options)
        return StandInMonitor()

    prepared = MonitorOptions(kernel=lambda: cast(KernelSide, None), search_seconds=0.5)
    monkeypatch.setattr("stalltop.probes.monitor.Monitor", monitor)
    monkeypatch.setattr(hosts, "AHEAD_SECONDS", 0.0)
    monkeypatch.setattr(hosts, "READY_SECONDS", 0.0)
    monkeypatch.setattr(hosts, "_ready", lambda options: prepared)
    tracer = HostWindows(options()).source()
    client = HostWindows(options())
    source = client.source()
    tracer.read()
    source.read()
    standby = client._standby
    assert standby is not None
    until(lambda: standby._made)
    tracer.close()
    while given[-1] is not prepared:  # Windows that the tracer has sent before come first.
        source.read()
    assert not standby.goes_first
    source.close()


def test_a_tracer_without_a_screen_keeps_the_past_for_clients(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stalltop.probes.monitor.Monitor", lambda _: StandInMonitor())
    tracer = HostWindows(options(), keeps=History()).source()
    for _ in range(3):
        tracer.read()
    history = History()
    client = HostWindows(options(), history=history).source()
    while not history.parts or history.parts[0].window.start > measured(0).start:
        tracer.read()
        client.read()
    assert len(history) >= 3
    client.close()
    tracer.close()


def test_a_stopped_tracer_is_an_error_and_not_asked_again(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stalltop.serving.host.tracer_link.ANSWER_SECONDS", 0.1)
    seat = claim(TracerPlace(tracer_socket))  # holds the seat, and answers nobody
    assert isinstance(seat, TracerSeat)
    asked: list[TracerPlace] = []

    def claimed(where: TracerPlace) -> object:
        asked.append(where)
        return claim(where)

    monkeypatch.setattr(hosts, "claim", claimed)
    with pytest.raises(TracerSilentError, match=f"PID {os.getpid()}.*does not answer"):
        HostWindows(options())
    assert len(asked) == 1
    seat.close()


def test_a_command_that_cannot_trace_is_no_tracer(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = StandInMonitor(TracingError("needs root", "use sudo"))
    monkeypatch.setattr("stalltop.probes.monitor.Monitor", lambda _: monitor)
    host = HostWindows(options())
    source = host.source()
    assert host.cannot_trace is monitor.cannot_trace
    assert connected(tracer_socket) is None
    source.read()
    source.close()


def test_a_user_who_is_not_admitted_is_told_what_to_do(
    tracer: TracerServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(where: TracerPlace) -> None:
        raise TracingError("the tracer of this host does not admit this user", "join the group gpu-ops")

    monkeypatch.setattr(hosts, "claim", refused)
    code, out, err = run(["once", "--json", "--seconds", "0.2"], capsys)
    assert code == 3
    assert err.endswith("the tracer of this host does not admit this user\n  join the group gpu-ops\n")
    assert json.loads(out)["operations"] == []


def test_the_socket_is_that_of_the_option_the_environment_the_settings_or_the_default(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLTOP_SOCKET", "/env.sock")
    config.write_text('socket = "/config.sock"\ngroup = "ops"\n')
    assert place(options(socket=Path("/option.sock"))) == TracerPlace(Path("/option.sock"), "ops")
    assert place(options()) == TracerPlace(Path("/env.sock"), "ops")
    monkeypatch.delenv("STALLTOP_SOCKET")
    assert place(options()) == TracerPlace(Path("/config.sock"), "ops")
    config.unlink()
    assert place(options()) == TracerPlace(Path("/run/stalltop/tracer.sock"), "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('sockets = "/x"', 'line 1: "sockets" is no setting; did you mean socket?'),
        ('socket = "x"', 'line 1: socket = "x" is not allowed; allowed: an absolute path'),
        ("group = 7", 'group = 7 is not allowed; allowed: the name of a group; "": none'),
        ('group = "a b"', "is not allowed"),
        ('theme = "light"', "is no setting"),
        ("=", "not valid TOML"),
    ],
)
def test_a_faulty_file_is_an_error(config: Path, text: str, said: str) -> None:
    config.write_text(text)
    with pytest.raises(UsageError, match="correct it, as root") as told:
        place(options())
    assert said in told.value.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("hidden", ["file", "folder"])
def test_a_file_that_a_user_may_not_read_is_an_error(tmp_path: Path, config: Path, hidden: str) -> None:
    config.write_text("")
    (config if hidden == "file" else tmp_path).chmod(0o700)
    os.seteuid(12_345)
    try:
        with pytest.raises(UsageError, match=r"cannot read .*: Permission denied") as told:
            place(options())
    finally:
        os.seteuid(0)
    assert told.value.remedy.endswith("all users must be able to read it")


def test_a_tracer_that_cannot_share_says_why(tracer_socket: Path) -> None:
    tracer_socket.parent.mkdir()
    tracer_socket.parent.chmod(0o777)
    said: list[str] = []
    assert HostWindows(options(socket=tracer_socket), tell=said.append).traces
    (line,) = said
    assert line.startswith("other stalltops cannot use the windows of this one: cannot lock ")
    assert line.endswith(f"others may write in {tracer_socket.parent}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root traces")
def test_a_group_that_does_not_exist_is_reported(config: Path, tracer_socket: Path) -> None:
    config.write_text('group = "no-such-group"')
    said: list[str] = []
    host = HostWindows(options(), tell=said.append)
    assert host.traces
    assert said == ["group = no-such-group: this host has no such group; the tracer admits root only"]
