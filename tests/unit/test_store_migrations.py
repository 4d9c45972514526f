"""Files of earlier versions of the format: the real ones are in files/, others are made here."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stalltop.model.errors import BadUsage
from stalltop.recordings.file import schema, versions
from stalltop.recordings.file.versions import FIRST
from stalltop.recordings.read.reading import Damaged, load, open_file
from stalltop.recordings.write.recording import Recording
from tests.unit.full_window import full_window
from tests.unit.recordings import changing, following, make_earlier, record
from tests.unit.windows import same_window

EARLIER = range(FIRST, schema.VERSION)


@dataclass
class Earlier:
    """A recording of three windows of an earlier version."""

    path: Path
    version: int
    content: bytes


@pytest.fixture(params=EARLIER, ids=lambda version: f"version {version}")
def earlier(tmp_path: Path, request: pytest.FixtureRequest) -> Earlier:
    path = record(tmp_path / "r.stalltop", following(3))
    make_earlier(path, request.param)
    return Earlier(path, request.param, path.read_bytes())


def test_an_earlier_version_is_read_and_the_file_stays(earlier: Earlier) -> None:
    with open_file(earlier.path) as recorded:
        assert (recorded.version, recorded.kind) == (earlier.version, "recording")
        with recorded.held():
            found = list(recorded.windows())
        for window, one in zip(found, following(3), strict=True):
            known = [key if earlier.version > 2 else key._replace(device="") for key in one.rows.keys]
            assert known == list(window.rows.keys)
            assert window.rows.total_ns.tolist() == one.rows.total_ns.tolist()
            assert window.chains
            assert window.evidence.charges
        assert not recorded.changed()
        assert not recorded.warnings
        recorded.check_shared()
    assert earlier.path.read_bytes() == earlier.content
    assert [one.name for one in earlier.path.parent.iterdir()] == [earlier.path.name]


def test_what_version_3_did_not_have_is_unknown(tmp_path: Path) -> None:
    path = record(tmp_path / "r.stalltop", [full_window()])
    make_earlier(path, 3)
    window, system = load(path), full_window().system
    assert system is not None
    unknown = replace(
        system, cpu_pressure_percent=None, memory_pressure_percent=None, io_pressure_percent=None
    )
    same_window(window, replace(full_window(), system=unknown))


def test_what_version_2_did_not_have_is_unknown(tmp_path: Path) -> None:
    path = record(tmp_path / "r.stalltop", [full_window()])
    make_earlier(path, 2)
    window = load(path)
    assert not window.allocations
    assert not window.evidence.activity
    assert not window.evidence.overlaps
    assert {key.device for key in window.rows.keys} == {""}
    assert not any(tenant.labels or tenant.pod_uid for tenant in window.tenants.values())
    (device,) = window.devices.devices
    assert (device.energy_millijoules, device.instances, device.pci_bus_id) == (None, (), "")
    assert device.xids


def test_windows_of_an_earlier_version_are_written_as_those_of_now(earlier: Earlier, tmp_path: Path) -> None:
    before = load(earlier.path)
    same_window(load(record(tmp_path / "now.stalltop", [before])), before)


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
        "ALTER TABLE system ADD COLUMN cpu_pressure_percent REAL",
        "DROP TABLE losses",
        "CREATE TABLE surprise (a)",
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


def test_damage_in_what_windows_share_is_told_in_an_earlier_version(earlier: Earlier) -> None:
    with changing(earlier.path) as connection:
        connection.execute("UPDATE series SET operation = 'cudaFree'")
    with open_file(earlier.path) as recorded:
        with pytest.raises(Damaged):
            recorded.check_shared()
        assert recorded.between(0, 1e18) == []


def test_a_recorder_does_not_go_on_with_an_earlier_version(earlier: Earlier) -> None:
    with pytest.raises(BadUsage, match=f"another version of stalltop .format {earlier.version}."):
        Recording(earlier.path)
    assert earlier.path.read_bytes() == earlier.content


@pytest.mark.parametrize("version", EARLIER)
def test_nothing_of_an_earlier_version_is_gone(version: int) -> None:
    now = {table.name: set(table.names) for table in schema.TABLES}
    for name, columns in versions.columns(version).items():
        assert set(columns) <= now[name]


@pytest.mark.parametrize("version", EARLIER)
def test_an_earlier_version_is_as_it_was_released(version: int) -> None:
    path = Path(__file__).resolve().parent / "files" / f"version-{version}.stalltop"
    with changing(path) as connection:
        found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    assert found == versions.tables(version)


@pytest.mark.parametrize("table", schema.TABLES, ids=lambda table: table.name)
def test_a_column_that_is_added_is_empty_in_rows_from_before(table: schema.Table) -> None:
    for column in table.columns:
        expected = None if column.null else {"TEXT": "", "BLOB": b""}.get(column.type, 0)
        if column.about.startswith("JSON list") and not column.null:
            expected = "[]"
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute(f"ALTER TABLE t ADD COLUMN {column.added}")
        assert connection.execute(f"SELECT {column.name} FROM t").fetchone() == (expected,)
        assert re.match(rf"{column.name} {column.type}", column.added)
        connection.close()


def test_windows_without_anything_new_are_equal(tmp_path: Path) -> None:
    """What an earlier version had comes back to the last figure."""
    now = load(Path(__file__).resolve().parent / "files" / "version-2.stalltop")
    path = record(tmp_path / "r.stalltop", [now])
    make_earlier(path, 2)
    same_window(load(path), now)
