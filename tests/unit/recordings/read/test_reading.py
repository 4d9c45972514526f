"""Tests reading recordings as a whole or in part, also while they are written."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.errors import StalltopError
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Peak
from stalltop.model.window import Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.opening import Opened
from stalltop.recordings.read.moments import WindowList
from stalltop.recordings.read.reading import WindowGoneError, load, open_file
from stalltop.recordings.write.saving import save
from stalltop.recordings.write.writing import Writer, create
from tests.windows.by_hand import Calls, key, same_window, window
from tests.windows.drawn import FEW, sequences
from tests.windows.full import full_window
from tests.windows.recordings import changing, following, record


def test_windows_are_read_in_order(tmp_path: Path) -> None:
    windows = following(5)
    with open_file(record(tmp_path / "r.stalltop", windows)) as recorded:
        assert recorded.kind == "recording"
        for one, other in zip(recorded.windows(), windows, strict=True):
            same_window(one, other)
        moments = recorded.moments
        assert moments.start.tolist() == [one.start for one in windows]
        assert moments.end.tolist() == [one.end for one in windows]
        assert moments.level.tolist() == [0] * 5
        assert recorded.warnings == []


def test_any_windows_of_many_hosts_are_read_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")

    def of_host(one: Window, host: str) -> Window:
        keys = tuple(key_._replace(host=host) for key_ in one.rows.keys)
        return replace(one, host=host, rows=replace(one.rows, keys=keys))

    @FEW
    @given(sequences(), st.integers(1, 40))
    def check(some: list[Window], hosts: int) -> None:
        windows = [of_host(one, f"gpu{at % hosts}") for at, one in enumerate(some * 4)]
        path = folder / "r.stalltop"
        path.unlink(missing_ok=True)
        with open_file(record(path, windows)) as recorded:
            for one, other in zip(recorded.windows(), windows, strict=True):
                same_window(one, other)
            assert {host.name for host in recorded.hosts} == {one.host for one in windows}
            for host in {one.host for one in windows}:
                mine = [one.start for one in windows if one.host == host]
                assert [one.start for one in recorded.windows(host=host)] == mine

    check()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_become_zero_or_unknown(wrong: float, tmp_path: Path) -> None:
    full = full_window()
    assert full.system is not None
    one = replace(
        full,
        start=wrong,
        seconds=wrong,
        system=replace(full.system, cpu_percent=wrong, load=(wrong, 0.5, 0.5)),
        chains=(replace(full.chains[0], lost_ms_per_s=wrong, confidence=wrong, since=wrong),),
        evidence=replace(full.evidence, events=(replace(full.evidence.events[0], time=wrong),)),
    )
    path = tmp_path / "w.stalltop"
    found = load(save(one, path))
    assert (found.start, found.seconds) == (0.0, 0.0)
    assert found.system is not None
    assert (found.system.cpu_percent, found.system.load) == (0.0, (0.0, 0.5, 0.5))
    assert (found.chains[0].lost_ms_per_s, found.chains[0].since) == (0.0, 0.0)
    assert found.evidence.events[0].time == 0.0


def test_windows_are_selected_by_time_and_host(tmp_path: Path) -> None:
    mine = following(3, window([Calls(key(), [5])], seconds=1.0))
    other = following(3, window([Calls(key(host="gpu8"), [5])], host="gpu8"))
    with open_file(record(tmp_path / "r.stalltop", [*mine, *other])) as recorded:
        assert [host.name for host in recorded.hosts] == ["gpu7", "gpu8"]
        assert [one.start for one in recorded.between(1_000.5, 1_001.5, "gpu8")] == [1_000.0, 1_001.0]
        assert {one.host for one in recorded.between(1_001.0, 1_002.0)} == {"gpu7", "gpu8"}
        assert recorded.between(0, 1_000.0) == []
        assert recorded.between(0, 5_000.0, "nobody") == []


def test_a_recording_is_loaded_as_one_merged_window(tmp_path: Path) -> None:
    windows = following(150, window([Calls(key(), [5, 7]), Calls(key("cudaFree"), [9])]))
    path = record(tmp_path / "r.stalltop", windows)
    same_window(load(path), merge(windows))


def test_values_shared_by_windows_are_stored_once(tmp_path: Path) -> None:
    path = record(tmp_path / "r.stalltop", following(20))
    with changing(path) as connection:
        rows = {
            table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
            for table in schema.SHARED
        }
    one = record(tmp_path / "one.stalltop", following(1))
    with changing(one) as connection:
        for name, n in rows.items():
            assert connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] == n, name


def test_the_list_of_moments_has_their_peaks(tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    with changing(path) as connection:
        create(connection, "recording")
        writer = Writer(connection)
        writer.add(full_window())
        writer.add(window(), 10, Peak(7.5, 0, 2), 9)
    with open_file(path) as recorded:
        moments = recorded.moments
        assert moments.window_id.tolist() == [1, 9]
        assert moments.level.tolist() == [0, 10]
        assert moments.lost_ms_per_s.tolist() == [Peak.of(full_window()).lost_ms_per_s, 7.5]
        assert (moments.worst.tolist(), moments.began.tolist()) == ([1, 0], [5, 2])


def test_a_recording_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    windows = following(3)
    with changing(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        create(connection, "recording")
        writer = Writer(connection)
        first = writer.add(windows[0])
        with open_file(path) as recorded:
            assert recorded.moments.start.tolist() == [windows[0].start]
            assert not recorded.changed()
            for one in windows[1:]:
                writer.add(one)
            assert recorded.changed()
            assert not recorded.changed()
            for one, other in zip(recorded.windows(), windows, strict=True):
                same_window(one, other)
            connection.execute("DELETE FROM windows WHERE window_id = ?", (first,))
            with pytest.raises(WindowGoneError, match="no longer"):
                recorded.window(first)
            assert [one.start for one in recorded.windows()] == [one.start for one in windows[1:]]


def test_windows_merged_while_they_are_read_are_neither_lost_nor_counted_twice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.stalltop"
    windows = following(6, window([Calls(key(), [5])]))
    with changing(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        create(connection, "recording")
        writer = Writer(connection)
        for one in windows:
            writer.add(one)
        with open_file(path) as recorded:
            reading = recorded.windows()
            found = [next(reading), next(reading)]
            connection.execute("BEGIN")
            for table in (*schema.PARTS, schema.WINDOWS):
                connection.execute(f"DELETE FROM {table.name} WHERE window_id > 1")
            writer.add(merge(windows[1:]), 10, window_id=2)
            connection.execute("COMMIT")
            found += reading
            assert [one.start for one in found] == [one.start for one in windows]
            assert recorded.warnings == []
            assert [one.seconds for one in recorded.windows()] == [1.0, 5.0]


def test_the_list_of_moments_follows_every_change(tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    windows = following(8, window())
    with changing(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        create(connection, "recording")
        writer = Writer(connection)
        with open_file(path) as recorded:

            def check(*ids: int) -> None:
                assert recorded.changed()
                with open_file(path) as anew:
                    for name in WindowList.__slots__:
                        assert (
                            getattr(recorded.moments, name).tolist() == getattr(anew.moments, name).tolist()
                        )
                assert tuple(recorded.moments.window_id) == ids

            for one in windows[:4]:
                writer.add(one)
            check(1, 2, 3, 4)
            writer.add(windows[4])
            check(1, 2, 3, 4, 5)
            connection.execute("DELETE FROM windows WHERE window_id IN (2, 3)")
            writer.add(merge(windows[1:3]), 10, window_id=2)
            check(1, 2, 4, 5)
            writer.add(windows[5])
            connection.execute("DELETE FROM windows WHERE window_id = 1")
            check(2, 4, 5, 6)
            connection.execute("DELETE FROM windows WHERE window_id = 6")
            check(2, 4, 5)


def test_reused_ids_are_not_confused_with_deleted_rows(tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    first, second = (window([Calls(key(name), [5])], start=at) for name, at in (("a", 1.0), ("b", 2.0)))
    with changing(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        create(connection, "recording")
        Writer(connection).add(first)
        with open_file(path) as recorded:
            assert [one.rows.keys for one in recorded.windows()] == [first.rows.keys]
            for name in ("windows", "counts", "histograms", "series"):
                connection.execute(f"DELETE FROM {name}")
            # A new writer does not know the deleted rows and reuses their ids.
            Writer(connection).add(second)
            assert recorded.changed()
            assert [one.rows.keys for one in recorded.windows()] == [second.rows.keys]


def test_a_writer_uses_no_id_twice(tmp_path: Path) -> None:
    with changing(tmp_path / "r.stalltop") as connection:
        create(connection, "recording")
        writer = Writer(connection)
        writer.add(window([Calls(key("a"), [5])]))
        connection.execute("DELETE FROM series")
        writer.forget()
        writer.add(window([Calls(key("b"), [5])]))
        assert connection.execute("SELECT series_id, operation FROM series").fetchall() == [(2, "b")]


def test_a_writer_does_not_reuse_damaged_rows(tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    one = window([Calls(key("a"), [5])])
    with changing(path) as connection:
        create(connection, "recording")
        Writer(connection).add(one)
        connection.execute("UPDATE series SET checksum = checksum + 1")
        number = Writer(connection).add(one)
    with open_file(path) as recorded:
        same_window(recorded.window(number), one)
        assert len(list(recorded.windows())) == 1
        assert "series" in recorded.warnings[0]


def test_a_continued_recording_is_followed(tmp_path: Path) -> None:
    windows = following(2)
    path = record(tmp_path / "r.stalltop", windows[:1])
    with open_file(path) as recorded:
        assert len(recorded.moments) == 1
        with changing(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            Writer(connection).add(windows[1])
            assert recorded.changed()
            assert len(recorded.moments) == 2
            same_window(recorded.window(2), windows[1])


def test_an_unreadable_log_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path / "r.stalltop", following(1))
    with changing(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    (tmp_path / "r.stalltop-wal").write_bytes(b"x" * 40)
    opened = Opened._prepared

    def refused(one: Opened, uri: str) -> sqlite3.Connection:
        if "immutable" not in uri:
            raise sqlite3.OperationalError("unable to open database file")
        return opened(one, uri)

    monkeypatch.setattr(Opened, "_prepared", refused)
    with open_file(path) as recorded:
        assert "newest windows are missing" in recorded.warnings[0]
        assert len(recorded.between(0, 1e12)) == 1


def test_a_file_with_an_empty_log_counts_as_being_written(tmp_path: Path) -> None:
    """The log is empty until the first window is written, and after every checkpoint."""
    path = tmp_path / "r.stalltop"
    windows = following(40)
    with changing(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        create(connection, "recording")
        writer = Writer(connection)
        for one in windows[:3]:
            writer.add(one)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (tmp_path / "r.stalltop-wal").stat().st_size == 0
        with open_file(path) as recorded, recorded.held():
            connection.execute("DELETE FROM windows WHERE window_id < 3")
            for table in schema.PARTS:
                connection.execute(f"DELETE FROM {table.name} WHERE window_id < 3")
            for one in windows[3:]:
                writer.add(one)
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            for found, one in zip(recorded.windows(), windows[:3], strict=True):
                same_window(found, one)
            assert not recorded.warnings


def test_the_log_of_another_file_is_not_read(tmp_path: Path) -> None:
    windows = following(3)
    path, other = record(tmp_path / "a.stalltop", windows[:1]), tmp_path / "b.stalltop"
    with changing(other) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        create(connection, "recording")
        for one in windows:
            Writer(connection).add(one)
        os.replace(path, other)  # a user replaces the file although its log exists
        assert (tmp_path / "b.stalltop-wal").stat().st_size
        with open_file(other) as recorded:
            (found,) = recorded.windows()
            same_window(found, windows[0])


def test_writing_to_a_file_while_it_is_held_is_detected(tmp_path: Path) -> None:
    windows = following(2)
    path = record(tmp_path / "r.stalltop", windows[:1])
    with open_file(path) as recorded:
        with (
            pytest.raises(StalltopError, match="written while it was read"),
            recorded.held(),
            changing(path) as connection,
        ):
            Writer(connection).add(windows[1])
        with recorded.held():  # no error: the file is deleted, but not written
            path.unlink()
