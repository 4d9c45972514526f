"""Tests files of other versions, of other programs, and of other kinds."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.text.figures import moment
from stalltop.recordings.file import opening, schema
from stalltop.recordings.read import moments
from stalltop.recordings.read.reading import UnreadableFileError, load, open_file
from stalltop.recordings.write.saving import save
from tests.windows.by_hand import same_window
from tests.windows.full import full_window
from tests.windows.recordings import changing, following, record


def test_a_file_of_a_newer_version_is_refused_with_its_version(tmp_path: Path) -> None:
    path = save(full_window(), tmp_path / "w.stalltop")
    with changing(path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(UsageError, match=f"newer stalltop .version {schema.VERSION + 1}") as caught:
        open_file(path)
    assert caught.value.remedy == "update stalltop"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW operations AS SELECT 1",
        "CREATE TRIGGER surprise AFTER INSERT ON windows BEGIN SELECT 1; END",
        "CREATE TABLE more (a)",
        "CREATE INDEX odd ON windows (abs(start))",
        "ALTER TABLE windows ADD COLUMN more AS (seconds * 2)",
        "ALTER TABLE hosts RENAME TO others",
        "DROP TABLE chains",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = -1",
    ],
)
def test_a_file_with_another_schema_is_refused(statement: str, tmp_path: Path) -> None:
    path = save(full_window(), tmp_path / "w.stalltop")
    with changing(path) as connection:
        connection.execute(statement)
    with pytest.raises(UsageError, match="damaged"):
        load(path)


def test_a_view_in_place_of_a_table_never_runs(tmp_path: Path) -> None:
    path = save(full_window(), tmp_path / "w.stalltop")
    with changing(path) as connection:
        connection.execute("DROP TABLE losses")
        connection.execute("CREATE VIEW losses AS SELECT 1 window_id, 0 place, 'no_slot' name, 99 count")
    with pytest.raises(UnreadableFileError, match="losses"):
        load(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE counts SET calls = calls + 1 WHERE place = 0",
        "UPDATE counts SET calls = 'many'",
        "UPDATE counts SET calls = x'00'",
        "UPDATE histograms SET payload = (SELECT payload FROM histograms WHERE place = 1) WHERE place = 0",
        "UPDATE histograms SET payload = 5",
        "UPDATE windows SET start = start + 1",
        "UPDATE windows SET start = 1e300",
        "UPDATE windows SET host_id = 77",
        "UPDATE series SET operation = 'cudaFree'",
        "UPDATE hosts SET name = 'another'",
        "UPDATE coverage SET missing = '[[[['",
        "DELETE FROM series WHERE series_id = 1",
        "DELETE FROM chain_texts",
        "DELETE FROM losses",
        "DELETE FROM system",
        "INSERT INTO losses VALUES (1, 9, 'no_slot', 1)",
        "UPDATE chains SET lost_ms_per_s = 1",
    ],
)
def test_any_change_is_detected(statement: str, tmp_path: Path) -> None:
    path = save(full_window(), tmp_path / "w.stalltop")
    with changing(path) as connection:
        connection.execute(statement)
    with pytest.raises(UnreadableFileError, match="damaged"):
        load(path)


def test_damaged_windows_are_left_out_and_named(tmp_path: Path) -> None:
    windows = following(4)
    path = record(tmp_path / "r.stalltop", windows)
    with changing(path) as connection:
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 2")
    with open_file(path) as recorded:
        assert [one.start for one in recorded.windows()] == [windows[at].start for at in (0, 2, 3)]
        assert len(recorded.warnings) == 1
        assert f"the window of {moment(windows[1].start)} (2 s)" in recorded.warnings[0]
        assert len(recorded.moments) == 4
        with pytest.raises(UnreadableFileError, match="checksum"):
            recorded.window(2)
    assert any("the window of" in gap.reason for gap in load(path).coverage.missing)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "an empty file"),
        (b"SQLite format 3\0", "its end is missing"),
        (b"hello\n" * 100, "no SQLite file"),
        (b"PK\x03\x04 and more", "zip"),
        (b"\x1f\x8b\x08", "compressed by gzip"),
    ],
)
def test_another_kind_of_file_is_named(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "w.stalltop"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=reason):
        load(path)


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with changing(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    with pytest.raises(UsageError, match="of another program"):
        load(tmp_path / "other.db")


@pytest.mark.parametrize("name", ["a?b#c%20d é", os.fsdecode(b"no \xff text")])
def test_a_path_with_odd_characters_can_be_opened(name: str, tmp_path: Path) -> None:
    path = save(full_window(), tmp_path / name / "w.stalltop")
    same_window(load(path), full_window())


def test_a_recording_without_windows_is_reported(tmp_path: Path) -> None:
    path = record(tmp_path / "r.stalltop", [])
    with open_file(path) as recorded:
        assert len(recorded.moments) == 0
    with pytest.raises(StalltopError, match="no windows"):
        load(path)


SLOW: dict[str, Callable[[sqlite3.Connection], object]] = {
    "long text": lambda db: db.execute("UPDATE hosts SET name = ?", ("x" * (17 << 20),)),
    "deep": lambda db: db.execute("UPDATE coverage SET libraries = ?", ("[" * 100_000,)),
}


def test_too_many_windows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path / "r.stalltop", following(4))
    monkeypatch.setattr(moments, "_MOST_WINDOWS", 2)
    monkeypatch.setattr(moments, "_LIST", moments._LIST.replace("1000001", "3"))
    with pytest.raises(UnreadableFileError, match="more than 2 windows"):
        load(path)


def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_MOST_SECONDS", -1.0)
    monkeypatch.setattr(opening, "_STEPS", 1)
    with pytest.raises(UnreadableFileError, match="interrupted"):
        load(save(full_window(), tmp_path / "w.stalltop"))


@pytest.mark.parametrize("name", SLOW)
def test_oversized_content_is_refused(name: str, tmp_path: Path) -> None:
    path = save(full_window(), tmp_path / "w.stalltop")
    with changing(path) as connection:
        SLOW[name](connection)
    with pytest.raises(UnreadableFileError):
        load(path)
