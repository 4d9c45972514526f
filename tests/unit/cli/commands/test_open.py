"""Tests ``stalltop open`` in a pipe: which moment of a file is printed, and the messages."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.saving import save
from tests.windows.cheap import START, second
from tests.windows.full import full_window

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Writes a recording of 90 seconds that starts at 22:13:20."""
    recording = Recording(tmp_path / "recording.stalltop")
    for number in range(90):
        recording.add(second(number, 3, full=number == 40))
    recording.close()
    return tmp_path / "recording.stalltop"


def printed(
    path: Path, *options: str, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, float], int, str]:
    """Returns the printed window, its number of calls, and the messages."""
    assert cli.main(["open", str(path), "--json", *options]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    return found["window"], sum(row["calls"] for row in found["operations"]), said.err


@pytest.mark.parametrize(
    ("options", "start", "seconds"),
    [
        ((), 80, 10),
        (("--window", "1"), 89, 1),
        (("--window", "start"), 0, 90),
        (("--at", "22:14"), 30, 10),
        (("--at", "-30s", "--window", "60"), 0, 60),
        (("--at", "start"), 0, 1),
    ],
)
def test_a_moment_of_a_recording_is_printed(
    options: tuple[str, ...], start: int, seconds: int, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    window, calls, said = printed(path, *options, capsys=capsys)
    assert window == {"start": START + start, "seconds": seconds}
    assert calls == sum(int(second(at, 3).rows.calls.sum()) for at in range(start, start + seconds))
    assert said.startswith("stalltop: a recording from 22:13:20 to 22:14:50; printed: ")
    assert said.count("\n") == 1


def test_a_moment_is_printed_as_text(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["open", str(path), "--at", "22:14:01", "--window", "1"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("serve is slow: train ")
    assert "\nstalltop gpu7  22:14:00  1.0 s " in said.out
    assert "last 1s up to 22:14:01" in said.err


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("soon", "--at: 'soon' is not a moment"),
        ("-1h", "is before what is kept"),
        ("", "--at: type a moment"),
    ],
)
def test_an_invalid_moment_ends_with_exit_code_2(
    at: str, said: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["open", str(path), f"--at={at}"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert said in found.err


def test_a_saved_window_has_one_moment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = save(full_window(), tmp_path / "one.stalltop")
    assert cli.main(["open", str(saved), "--at", "start"]) == 2
    assert "works only with recordings" in capsys.readouterr().err
    assert cli.main(["open", str(saved)]) == 0
    assert capsys.readouterr().err == ""


def test_a_recording_without_windows_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun = Recording(tmp_path / "empty.stalltop")
    assert cli.main(["open", str(tmp_path / "empty.stalltop")]) in (1, 2)
    begun.close()
    found = capsys.readouterr()
    assert found.out == ""
    assert "no window" in found.err


def test_damaged_windows_are_reported_and_left_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(path) as connection:
        ids = [number for (number,) in connection.execute("SELECT window_id FROM windows ORDER BY start")]
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = ?", (ids[87],))
    connection.close()
    window, _, said = printed(path, capsys=capsys)
    assert window["seconds"] == 9
    assert "stalltop: damaged: a window from 2023-11-14 22:14:47 to 2023-11-14 22:14:48 left out" in said


def test_a_moment_selects_the_window_that_ended_in_its_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording(tmp_path / "late.stalltop")
    for number in range(9):
        window = second(number, 3)
        recording.add(replace(window, start=window.start + 0.7))
    recording.close()
    assert cli.main(["open", str(tmp_path / "late.stalltop"), "--at", "22:13:25", "--window", "1"]) == 0
    assert "last 1s up to 22:13:25 " in capsys.readouterr().err
