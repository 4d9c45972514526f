"""Tests ``stalltop record``: options, how it ends, and the systemd unit that starts it at boot."""

from __future__ import annotations

import argparse
import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from stalltop.cli.commands import record as command
from stalltop.cli.commands.record import bounds, recorded
from stalltop.cli.durations import age, duration
from stalltop.cli.main import parsed
from stalltop.cli.tracing import size
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.files.places import recording_path
from stalltop.model.errors import UsageError
from stalltop.recordings.read.reading import load, open_file
from stalltop.recordings.write.recording import Recording
from tests.windows.cheap import second

ROOT = Path(__file__).resolve().parents[4]
UNIT = ROOT / "deploy" / "stalltop-record.service"
DEADLINE = 90.0


@pytest.mark.parametrize(
    ("text", "value"),
    [("4MiB", 4 << 20), ("1GiB", 1 << 30), ("1.5G", 3 << 29), ("500m", 500 << 20), ("67108864", 64 << 20)],
)
def test_sizes_are_parsed(text: str, value: int) -> None:
    assert size(4 << 20, 1 << 50)(text) == value


@pytest.mark.parametrize("text", ["", "x", "1", "1KiB", "-1G", "1 furlong", "9999999T", "1e9", "٣G"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        size(4 << 20, 1 << 50)(text)


@pytest.mark.parametrize(
    ("text", "value"), [("90m", 5_400.0), ("36h", 129_600.0), ("14d", 1_209_600.0), ("2w", 1_209_600.0)]
)
def test_ages_are_parsed(text: str, value: float) -> None:
    assert age(text) == value


@pytest.mark.parametrize("text", ["", "14", "d", "1s", "-1d", "9999999d", "1y", "nan d"])
def test_invalid_ages_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        age(text)


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), ("2.5", 2.5), ("90s", 90.0), ("1h", 3_600.0)])
def test_durations_are_parsed(text: str, value: float) -> None:
    assert duration(text) == value


@pytest.mark.parametrize("text", ["", "0", "0.5", "x", "1 year", "-1", "nan", "1e3", "99999d"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration(text)


def test_a_recording_of_another_host_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    recording = Recording(path)
    recording.add(second(0, rows=1))
    recording.close()
    with pytest.raises(UsageError, match="a recording of gpu7, not of simulated-host") as told:
        command.run(parsed(["record", "--simulated", "--to", str(path)]))
    assert "another file" in told.value.remedy
    Recording(path).close()  # raises no error, because the lock was released


def test_new_folders_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "er" / "r.stalltop"
    for told in (True, False):
        assert command.run(parsed(["record", "--simulated", "--to", str(path), "--seconds", "1"])) == 0
        assert (f"created the folder {tmp_path / 'new'}\n" in capsys.readouterr().err) == told


def test_a_demo_is_recorded_to_a_file_of_its_own() -> None:
    options = parsed(["demo", "--simulated"])
    assert recorded(SimulatedSource(), options, "demo")._path == recording_path("demo")
    assert recorded(SimulatedSource(), options)._path == recording_path()


def test_the_default_bounds_are_documented() -> None:
    found = bounds(parsed(["record"]))
    assert (found.bytes, found.seconds) == (1 << 30, 14 * 86_400.0)
    text = (ROOT / "docs" / "recordings.md").read_text()
    assert "`--max-size` (1 GiB)" in text
    assert "`--max-age` (14 days)" in text


def begun(path: Path) -> subprocess.Popen[str]:
    """Starts a recorder of simulated tenants and waits until it has written its first window."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "stalltop", "record", "--simulated", "--to", str(path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + DEADLINE
    while not windows(path):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    return process


def windows(path: Path) -> int:
    if not Path(f"{path}-wal").exists() or not Path(f"{path}-wal").stat().st_size:
        return 0
    with open_file(path) as recorded:
        return len(recorded.moments)


@pytest.mark.parametrize("request_", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_recorder_in_order(tmp_path: Path, request_: signal.Signals) -> None:
    path = tmp_path / "recording.stalltop"
    process = begun(path)
    os.kill(process.pid, request_)
    said, told = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, told
    assert said == ""
    lines = told.splitlines()
    assert lines[0] == f"stalltop: recording to {path}, at most 1,024 MiB; press Ctrl-C to stop"
    assert "recorded" in lines[1]
    assert f"{path} takes" in lines[1]
    assert os.listdir(tmp_path) == [path.name]
    assert load(path).simulated


def test_recording_ends_after_its_time_and_continues_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    for _ in range(2):
        done = run("record", "--simulated", "--to", str(path), "--seconds", "2")
        assert done.returncode == 0, done.stderr
    with open_file(path) as recorded:
        moments = recorded.moments
        assert recorded.kind == "recording"
        assert np.all(np.diff(moments.start) > 0)
        assert float(np.sum(moments.seconds)) >= 3.5


def test_a_second_recorder_and_a_file_that_is_no_recording_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    first = begun(path)
    try:
        second = run("record", "--simulated", "--to", str(path))
        assert second.returncode == 1
        assert f"another stalltop records to {path}" in second.stderr
    finally:
        first.terminate()
        first.communicate(timeout=DEADLINE)
    letter = tmp_path / "letter"
    letter.write_text("dear reader, this is no recording, and stays what it is")
    refused = run("record", "--simulated", "--to", str(letter))
    assert refused.returncode == 2
    assert "is no recording of stalltop" in refused.stderr
    assert letter.read_text().startswith("dear reader")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "stalltop", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def test_the_unit_runs_an_existing_command() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    words = shlex.split(unit["Service"]["ExecStart"])
    options = parsed(words[1:])
    assert words[0].endswith("/stalltop")
    assert options.command == "record"
    assert options.to == Path("/var/lib/stalltop/recording.stalltop")
    assert unit["Service"]["StateDirectory"] == "stalltop"


def test_the_daemon_set_has_valid_arguments() -> None:
    [arguments] = re.findall(r"args: (\[.*\])", (UNIT.parent / "stalltop-daemonset.yaml").read_text())
    options = parsed(json.loads(arguments))
    assert (options.command, options.to) == ("record", Path("/var/lib/stalltop/recording.stalltop"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/stalltop/stalltop", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    if "Failed to" in done.stderr and UNIT.name not in done.stderr:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    assert UNIT.name not in done.stderr, done.stderr
