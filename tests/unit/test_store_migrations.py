"""Files of earlier versions of the format, by versions that are made up: the real ones are in files/."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from model.errors import BadUsage
from store import migrations, schema
from store.migrations import Step
from store.reading import Damaged, load, open_file
from store.recording import Recording
from tests.unit.recordings import changing, following, record
from tests.unit.windows import same_window

NOW = schema.VERSION
LATER = NOW + 2


def tables_of(path: Path) -> dict[str, str]:
    with changing(path) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master"))


@dataclass
class Earlier:
    """A file of the version of now, which is two versions ago."""

    path: Path
    content: bytes


def first_change(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE losses RENAME COLUMN many TO number")
    connection.execute("DROP TABLE remarks")


def second_change(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE losses RENAME COLUMN number TO count")


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Earlier:
    """Tables were renamed and dropped since."""
    path = record(tmp_path / "r.stalltop", following(3))
    with changing(path) as connection:
        connection.execute("ALTER TABLE losses RENAME COLUMN count TO many")
        connection.execute("CREATE TABLE remarks (text)")
    monkeypatch.setattr(schema, "VERSION", LATER)
    monkeypatch.setitem(migrations.STEPS, NOW, Step(tables_of(path), first_change))
    monkeypatch.setitem(migrations.STEPS, NOW + 1, Step({}, second_change))
    return Earlier(path, path.read_bytes())


def test_an_earlier_version_is_read_step_by_step_and_the_file_stays(earlier: Earlier) -> None:
    with open_file(earlier.path) as recorded:
        assert (recorded.version, recorded.kind) == (NOW, "recording")
        with recorded.held():
            for found, one in zip(recorded.windows(), following(3), strict=True):
                same_window(found, one)
        assert not recorded.changed()
        assert not recorded.warnings
    assert earlier.path.read_bytes() == earlier.content
    assert [one.name for one in earlier.path.parent.iterdir()] == [earlier.path.name]


def test_windows_of_an_earlier_version_that_is_being_written_are_read(earlier: Earlier) -> None:
    with changing(earlier.path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("DELETE FROM windows WHERE window_id = 1")
        with open_file(earlier.path) as recorded:
            assert len(recorded.moments) == 2
            assert len(recorded.between(0, 1e18)) == 2


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER surprise AFTER INSERT ON windows BEGIN SELECT 1; END",
        "CREATE VIEW operations AS SELECT 1",
        "ALTER TABLE hosts RENAME TO others",
        "DROP TABLE remarks",
    ],
)
def test_an_earlier_version_is_held_to_its_own_tables(earlier: Earlier, statement: str) -> None:
    with changing(earlier.path) as connection:
        connection.execute(statement)
    with pytest.raises(Damaged):
        load(earlier.path)


def test_damage_in_an_earlier_version_is_told(earlier: Earlier) -> None:
    with changing(earlier.path) as connection:
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 2")
    with open_file(earlier.path) as recorded:
        assert len(recorded.between(0, 1e18)) == 2
        assert len(recorded.warnings) == 1


def test_a_step_that_fails_is_damage(earlier: Earlier, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE nothing")

    monkeypatch.setitem(migrations.STEPS, NOW + 1, Step({}, fails))
    with pytest.raises(Damaged, match="nothing"):
        load(earlier.path)


def test_a_recorder_does_not_go_on_with_an_earlier_version(earlier: Earlier) -> None:
    with pytest.raises(BadUsage, match="another version"):
        Recording(earlier.path)
    assert earlier.path.read_bytes() == earlier.content


def test_there_is_a_step_for_every_version() -> None:
    known = sorted(migrations.STEPS)
    assert known == list(range(schema.VERSION - len(known), schema.VERSION))
    assert (not known and schema.VERSION == 2) or known[0] == 2
