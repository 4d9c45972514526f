"""Tests ``stalltop export``: destinations, selection of windows and rows, messages and exit codes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq
import pytest

from stalltop.cli import main as cli
from stalltop.cli import progress
from stalltop.files.complete import opened
from stalltop.formats import registry as formats
from stalltop.formats.registry import EXPORTED, narrowed
from stalltop.model.rows.filter import parse
from stalltop.model.window import Window
from stalltop.recordings.file import schema
from stalltop.recordings.read.reading import Recorded
from stalltop.recordings.write.saving import save
from tests.windows.exported import several
from tests.windows.full import full_window
from tests.windows.recordings import record


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writes a recording of five windows, one folder above the working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return record(tmp_path / "night.stalltop", several(5))


def run(*arguments: str | Path) -> int:
    return cli.main(["export", *map(str, arguments)])


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), strict=True))


def test_every_format_writes_a_file_or_fills_a_folder() -> None:
    for made in EXPORTED.values():
        assert (made.write is None) != (made.fill is None)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_format_makes_a_new_private_file(
    name: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recording.read_bytes()
    assert run(recording, "--to", name) == 0
    path = Path("night" + EXPORTED[name].suffix)
    assert [file.name for file in Path().iterdir()] == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    told = capsys.readouterr()
    assert told.out == ""
    # A very slow machine prints progress above the last line.
    assert told.err.endswith(f"stalltop: wrote {path}: 5 windows\n")
    assert recording.read_bytes() == before
    assert [file.name for file in recording.parent.iterdir() if file.is_file()] == ["night.stalltop"]


@pytest.mark.parametrize("name", EXPORTED)
def test_an_existing_file_is_replaced_only_with_force(
    name: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(recording, "--to", name) == 0
    path = Path("night" + EXPORTED[name].suffix)
    before = path.stat().st_mtime_ns, path.stat().st_ino
    assert run(recording, "--to", name) == 2
    assert "--force" in capsys.readouterr().err
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert run(recording, "--to", name, "--force") == 0
    assert path.stat().st_ino != before[1] or path.stat().st_mtime_ns != before[0]
    assert [file.name for file in Path().iterdir()] == [path.name]


def test_a_saved_window_is_exported(recording: Path) -> None:
    one = save(full_window(), recording.parent / "one.stalltop")
    assert run(one, "--to", "json") == 0
    assert json.loads(Path("one.jsonl").read_text())["schema"] == "stalltop.window/1"


@pytest.mark.parametrize("name", ["csv", "json", "perfetto", "html"])
def test_stdout_gets_the_same_bytes_as_a_file(
    name: str, recording: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(recording, "--to", name, "-o", "file") == 0
    capfdbinary.readouterr()
    assert run(recording, "--to", name, "-o", "-") == 0
    found = capfdbinary.readouterr()
    assert found.out == Path("file").read_bytes()
    assert b"wrote" not in found.err


def test_parquet_can_be_written_to_a_pipe(recording: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(recording, "--to", "parquet", "-o", "-") == 0
    table = pq.read_table(io.BytesIO(capfdbinary.readouterr().out))
    assert table.num_rows == 25


def test_in_an_existing_folder_the_file_gets_the_name_of_the_recording(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("sub").mkdir()
    assert run(recording, "--to", "csv", "-o", "sub") == 0
    assert "new folder" not in capsys.readouterr().err
    assert run(recording, "--to", "hlog", "-o", "new/logs") == 0
    assert "wrote new/logs in a new folder, new: 5 windows" in capsys.readouterr().err
    assert Path("sub/night.csv").is_file()
    assert Path("new/logs/index.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "hlog", "-o", "-"], "folder of files"),
        (["--to", "csv", "--from", "2001-01-01 12:00"], "--from"),
        (["--to", "csv", "--until", "whenever"], "--until"),
        (["--to", "csv", "--from=-1s", "--until=-10s"], "must be before"),
        (["--to", "csv", "--filter", "pid:/(/"], "regular expression"),
        (["--to", "csv", "--container", 'a"b'], "may not contain"),
        (["--to", "csv", "--every", "0"], "--every"),
        (["--to", "docx"], "docx"),
        ([], "--to"),
    ],
)
def test_bad_usage_is_reported_and_writes_nothing(
    arguments: list[str], told: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = run(recording, *arguments)
    except SystemExit as exit_:  # argparse exits
        code = int(exit_.code or 0)
    assert code == 2
    assert told in capsys.readouterr().err
    assert os.listdir() == []


def test_the_input_file_is_never_replaced(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.link(recording, "other")
    for path in (recording, "other"):
        assert run(recording, "--to", "csv", "--force", "-o", path) == 2
        assert "is the input file" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 and no more", b'{"schema": "x"}', b"\x1f\x8b"])
def test_a_file_without_windows_is_refused(
    content: bytes, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (recording.parent / "x").write_bytes(content)
    assert run(recording.parent / "x", "--to", "csv") == 2
    assert "Traceback" not in capsys.readouterr().err
    assert os.listdir() == []


def test_from_and_until_select_windows(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The windows start at 0, 2, 4, 6 and 28 s; the last one ends at 30 s.
    first = full_window().start

    def starts(*arguments: str) -> list[float]:
        assert run(recording, "--to", "csv", "-o", "-", *arguments) == 0
        return sorted({float(line["window_start_s"]) - first for line in lines(capsys.readouterr().out)})

    assert starts("--from", "-3s") == [28.0]
    assert starts("--until", "+3s") == [0.0, 2.0]
    assert starts("--from", "+3s", "--until", "+5s") == [2.0, 4.0]
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first + 7))
    assert starts("--from", clock) == [6.0, 28.0]


def test_filters_select_rows(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def seen(*arguments: str) -> set[tuple[str, str]]:
        assert run(recording, "--to", "csv", "-o", "-", *arguments) == 0
        return {(line["container"], line["operation"]) for line in lines(capsys.readouterr().out)}

    assert {container for container, _ in seen("--container", "serve")} == {"serve"}
    assert seen("--operation", "allreduce") == {("serve", "ncclAllReduce")}
    assert seen("--operation", "/^cuda(Launch|Memcpy)/") == {
        ("train", "cudaLaunchKernel"),
        ("train", "cudaMemcpyAsync HtoD"),
    }
    assert seen("--operation", "HtoD", "--container", "train") == {("train", "cudaMemcpyAsync HtoD")}
    assert seen("--filter", "layer:nccl") == {("serve", "ncclAllReduce")}


@pytest.mark.parametrize("name", EXPORTED)
def test_nothing_is_written_if_no_row_passes_the_filter(
    name: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(recording, "--to", name, "--container", "nobody") == 1
    assert "no row passes" in capsys.readouterr().err
    assert os.listdir() == []


def test_a_filter_narrows_captured_calls_and_kernels() -> None:
    one = full_window()
    kept = {call.operation for call in one.calls.kept}
    assert "cudaLaunchKernel" in kept
    narrow = narrowed(one, parse("operation:cudaLaunchKernel"))
    assert {call.operation for call in narrow.calls.kept} == {"cudaLaunchKernel"}
    assert narrow.calls.passed_over == one.calls.passed_over
    assert {count.operation for count in narrow.kernels} <= {"cudaLaunchKernel"}
    # A filter by container keeps the chains of that container and those of the whole host.
    host = replace(one.chains[1], tenant="")
    one = replace(one, chains=(*one.chains, host))
    assert narrowed(one, parse("container:train")).chains == (host,)
    assert narrowed(one, parse("container:serve")).chains == one.chains
    nothing = narrowed(one, parse("operation:ncclAllReduce"))
    assert nothing.kernels == ()
    assert narrowed(one, parse("")) is one


@pytest.mark.parametrize("every", ["3600", "1h"])
def test_windows_are_merged_by_the_option_every(
    every: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(recording, "--to", "csv", "-o", "-", "--every", every) == 0
    found = lines(capsys.readouterr().out)
    assert {(line["window_seconds"], line["window_start_s"]) for line in found} == {("10", "1700000000.25")}
    one = full_window()
    assert [int(line["calls"]) for line in found] == (one.rows.calls * 5).tolist()


@pytest.mark.parametrize("name", EXPORTED)
def test_windows_are_written_while_they_are_read(name: str, tmp_path: Path) -> None:
    """Only a few windows are in memory at any time."""
    one = full_window()
    alive: list[weakref.ref[object]] = []
    most = 0

    def windows() -> Iterator[Window]:
        nonlocal most
        for number in range(400):
            calls = one.rows.calls.copy()
            alive.append(weakref.ref(calls))
            most = max(most, sum(found() is not None for found in alive))
            yield replace(one, start=one.start + 2 * number, rows=replace(one.rows, calls=calls))

    made = EXPORTED[name]
    if made.write is not None:
        made.write(windows(), (one.start, one.start + 800), io.BytesIO())
    elif made.fill is not None:
        made.fill(windows(), (one.start, one.start + 800), tmp_path)
    assert len(alive) == 400
    assert most <= 40


def test_a_damaged_window_is_left_out_and_reported(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(sqlite3.connect(recording)) as connection, connection:
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 2")
    assert run(recording, "--to", "csv") == 1
    told = capsys.readouterr().err
    assert "wrote night.csv: 4 windows" in told
    assert "left out:" in told
    assert len({line["window_start_s"] for line in lines(Path("night.csv").read_text())}) == 4


def test_windows_that_a_recorder_merges_meanwhile_are_exported(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = Recorded.windows
    with contextlib.closing(sqlite3.connect(recording, isolation_level=None)) as recorder:
        recorder.execute("PRAGMA journal_mode = WAL")
        # A write makes the log non-empty; a file with a non-empty log counts as one that is being recorded.
        recorder.execute(f"PRAGMA user_version = {schema.VERSION}")

        def windows(self: Recorded, start: float, end: float) -> Iterator[Window]:
            for at, window in enumerate(read(self, start, end)):
                if not at:
                    recorder.execute("DELETE FROM windows WHERE window_id > 3")
                yield window

        monkeypatch.setattr(Recorded, "windows", windows)
        assert run(recording, "--to", "csv") == 0
        assert "5 windows" in capsys.readouterr().err
        assert run(recording, "--to", "csv", "--force") == 0
        assert "3 windows" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXPORTED)
def test_nothing_is_written_if_no_window_can_be_read(
    name: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(sqlite3.connect(recording)) as connection, connection:
        connection.execute("UPDATE counts SET calls = calls + 1")
    assert run(recording, "--to", name) == 1
    assert "no window could be read" in capsys.readouterr().err
    assert os.listdir() == []


@pytest.mark.parametrize("name", EXPORTED)
def test_an_interrupted_export_leaves_nothing(
    name: str, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def windows(*_: object) -> Iterator[Window]:
        yield full_window()
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorded, "windows", windows)
    assert run(recording, "--to", name) == 130
    assert os.listdir() == []


def test_a_full_disk_is_reported_and_leaves_nothing(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(windows: object, span: object, file: BinaryIO) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setitem(formats.EXPORTED, "csv", replace(EXPORTED["csv"], write=full))
    assert run(recording, "--to", "csv") == 1
    assert capsys.readouterr().err.endswith("stalltop: cannot write night.csv: No space left on device\n")
    assert os.listdir() == []


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_a_stdout_that_cannot_be_written_is_reported(name: str, recording: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stalltop", "export", recording, "--to", name, "-o", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=110,
            env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
            check=False,
        )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "stalltop: cannot write to stdout: No space left on device",
    )


def test_progress_is_shown_for_a_long_export(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 10_000, 30))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(clock)))
    assert run(recording, "--to", "csv") == 0
    told = capsys.readouterr().err
    assert "stalltop: window 3 of 5\n" in told
    assert "\r" not in told


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as file:
        file.write(b"1")
        assert not (tmp_path / "a").exists()
        file.write(b"2")
    assert (tmp_path / "a").read_bytes() == b"12"

    def fails() -> None:
        with opened(tmp_path / "b") as file:
            file.write(b"1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert os.listdir(tmp_path) == ["a"]
