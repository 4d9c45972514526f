"""Tests the command line as a contract: default commands, refusals and exit codes."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.cli.commands import query
from stalltop.model.errors import StalltopError, TracingError, UsageError
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import OWN_NAME, process_name
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.settings.settings import AUTO

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("arguments", "terminal", "meant"),
    [
        ([], True, ["live"]),
        ([], False, ["once"]),
        (["--interval", "2"], True, ["live", "--interval", "2"]),
        (["--json"], False, ["once", "--json"]),
        (["demo", "trio"], True, ["demo", "trio"]),
        (["--version"], True, ["--version"]),
        (["-h"], False, ["-h"]),
        (["no-such"], True, ["no-such"]),
    ],
)
def test_the_default_command_depends_on_the_terminal(
    arguments: list[str], terminal: bool, meant: list[str]
) -> None:
    assert cli.with_command(arguments, terminal=terminal) == meant


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such"],
        ["once", "--seconds", "0"],
        ["once", "--seconds", "many"],
        ["live", "--theme", "pink"],
        ["demo", "--once", "--theme", "pink"],
        ["once", "--no-such"],
        ["once", "--js"],
        ["live", "--interval", "0.01"],
        ["live", "--memory", "3M"],
        ["live", "--attach", "kprobe"],
        ["demo", "no-such-scenario", "--once", "--simulated"],
        ["open"],
        ["open", "/no/such/file.stalltop"],
    ],
)
def test_bad_usage_ends_with_exit_code_2_and_a_message(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(arguments)
    except SystemExit as exit_:  # argparse exits
        code = int(exit_.code or 0)
    assert code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "stalltop" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (StalltopError("it broke", "mend it"), 1, "stalltop: it broke\n  mend it\n"),
        (UsageError("that makes no sense"), 2, "stalltop: that makes no sense\n"),
        (TracingError("no root", "use sudo"), 3, "stalltop: no root\n  use sudo\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_failures_are_reported_on_stderr(
    raised: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise raised

    monkeypatch.setattr("stalltop.cli.commands.check.run", fail)
    assert cli.main(["check"]) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(["--theme", "x"], "once"), (["demo", "--no-such"], "demo"), (["check", "x"], "check")],
)
def test_an_unknown_argument_is_reported_with_its_command(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    assert exit_.value.code == 2
    assert f"stalltop {command}: error: unrecognized arguments: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "FILE", "--format", "csv", "SQL"],
        ["query", "--format", "csv", "FILE", "--check", "SQL"],
        ["query", "FILE", "SQL", "--format", "csv"],
    ],
)
def test_options_may_stand_anywhere(arguments: list[str]) -> None:
    options = cli.parsed(arguments)
    assert (options.command, str(options.file), options.sql, options.format) == (
        "query",
        "FILE",
        "SQL",
        "csv",
    )
    assert options.run is query.run


def test_help_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, usage in (["help"], "usage: stalltop "), (["help", "record"], "usage: stalltop record "):
        with pytest.raises(SystemExit) as exit_:
            cli.main(arguments)
        assert exit_.value.code == 0
        assert capsys.readouterr().out.startswith(usage)


def test_a_mistyped_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recrod"]) == 2
    assert "did you mean record?" in capsys.readouterr().err


def test_every_command_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit) as exit_:
            cli.main([command, "--help"])
        assert exit_.value.code == 0
        assert f"stalltop {command}" in capsys.readouterr().out


def test_a_pipe_closed_by_its_reader_is_no_error() -> None:
    demo = f"{sys.executable} -m stalltop demo --simulated --json --seconds 0.1"
    result = subprocess.run(
        ["bash", "-c", f"{demo} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert result.stdout.split() == ["{", "0"]
    assert result.stderr == ""


def test_stalltop_is_shown_by_its_own_name() -> None:
    arguments = ("demo", "--simulated", "--json", "--seconds", "60")
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "stalltop", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            comm = Path(f"/proc/{process.pid}/comm")
            deadline = time.monotonic() + 30
            # Before the program runs, the process has the name of the interpreter.
            while comm.read_text() != f"{OWN_NAME}\n" and time.monotonic() < deadline:
                time.sleep(0.02)
            assert OWN_NAME == "stalltop"
            assert ProcessNames().name(process.pid) == process_name(process.pid) == OWN_NAME
        finally:
            process.kill()


def test_an_unknown_theme_is_reported_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.parsed(["open", "file", "--theme", "pink"])
    assert exit_.value.code == 2
    told = capsys.readouterr().err
    assert all(name in told for name in THEME_NAMES)
    assert all(cli.parsed(["live", "--theme", name]).theme == name for name in (AUTO, *THEME_NAMES))
    assert cli.parsed(["live", "--theme", ""]).theme == AUTO


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_the_exit_code_after_a_signal_tells_the_signal(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(_: argparse.Namespace) -> int:
        os.kill(os.getpid(), number)
        time.sleep(10)
        return 0

    before = signal.signal(number, signal.SIG_DFL)
    try:
        monkeypatch.setattr("stalltop.cli.commands.check.run", waits)
        assert cli.main(["check"]) == code
    finally:
        signal.signal(number, before)
