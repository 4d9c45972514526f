"""Tests that queries are read-only and limited, and that errors suggest what exists."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.window import UNCOUNTED
from stalltop.recordings.query import checking, guard, ready
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.views import alike, patience
from stalltop.recordings.views.patience import QueryTimeoutError
from tests.windows.full import full_window
from tests.windows.known_calls import random_calls, windows_of, write_file

_PAGE = 4096
"""Size in bytes of a page of SQLite's files."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_file(tmp_path / "file", windows_of(random_calls(5)))


def ask(path: Path, sql: str, seconds: float = 60.0) -> list[tuple[object, ...]]:
    with open_file(path) as file:
        return list(answer(file, sql, seconds).rows)


def refusal(path: Path, sql: str) -> StalltopError:
    with pytest.raises(UsageError) as caught:
        ask(path, sql)
    return caught.value


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM main.windows",
        "INSERT INTO about VALUES ('a', 'b')",
        "UPDATE main.counts SET calls = 0",
        "DROP TABLE main.windows",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "DELETE FROM temp.containers",
        "ATTACH DATABASE '/tmp/other' AS other",
        "ATTACH DATABASE ':memory:' AS other",
        "DETACH DATABASE temp",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA query_only = OFF",
        "SELECT * FROM pragma_table_info('windows')",
        "VACUUM INTO '/tmp/copy'",
        "VACUUM",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT a",
        "SELECT load_extension('/tmp/x.so')",
        "WITH gone AS (SELECT 1) DELETE FROM main.windows",
        "EXPLAIN SELECT 1",
        "SELECT 1; DELETE FROM main.windows",
    ],
)
def test_writing_statements_are_refused(path: Path, sql: str) -> None:
    before = path.read_bytes()
    refusal(path, sql)
    assert path.read_bytes() == before
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]


@pytest.mark.parametrize(
    ("sql", "told", "remedy"),
    [
        ("SELECT * FROM cuda_event", 'there is no table "cuda_event"', "did you mean cuda_events"),
        ("SELECT * FROM x", 'there is no table "x"', "tables: containers, cuda_events"),
        ("SELECT duration FROM cuda_events", 'there is no column "duration"', "did you mean duration_ns?"),
        ("SELECT e.opp FROM cuda_events e", 'there is no column "e.opp"', "did you mean op?"),
        ("SELECT opp FROM operations", 'there is no column "opp"', "columns of operations: window_id, "),
        ("SELECT p99() FROM operations", "wrong number of arguments for p99()", "p99(histogram)"),
        ("SELECT kernel FROM cuda_events", 'there is no column "kernel"', "did you mean kernel_name?"),
        (
            "SELECT 1 FROM operations WHERE zzz",
            'there is no column "zzz"',
            "columns of operations: window_id",
        ),
        ("SELECT summ(1)", 'there is no function "summ"', "did you mean sum"),
        ("SELEKT 1", 'near "SELEKT"', ""),
        ("SELECT 1\nFROM cuda_events\nWHERE AND", 'near "AND", line 3', ""),
        ("SELECT COUNT(", "ends too early", ""),
        ("", "there is no query", ""),
        ("  ;", "there is no query", ""),
        ("SELECT ?", "no parameters", ""),
        ("SELECT :a", "no parameters", ""),
        ("SELECT p(1, 2)", "the first argument is not a histogram", ""),
        ("SELECT p(histogram, 101) FROM operations", "must be a number from 0 to 100", ""),
        ("SELECT hmerge(calls) FROM operations", "the argument is not a histogram", ""),
        ("SELECT p(x'1234', 50)", "not an HdrHistogram", ""),
        ("SELECT p()", "p()", ""),
        ("SELECT container_id FROM containers JOIN containers", "ambiguous", ""),
        ("PRAGMA user_version", "the statement does more than read", "one SELECT"),
        *(
            (sql, "the statement does more than read", "one SELECT")
            for sql in (
                *(
                    "VACUUM INTO '/tmp/x'",
                    "-- all\n/* of it */ delete from cuda_events",
                    "DELETE FROM nowhere",
                ),
                *("UPDATE counts SET calls = 0", "REINDEX", "ATTACH 'x' AS y"),
                "WITH a AS (SELECT 1) DELETE FROM cuda_events",
            )
        ),
        ("EXPLAIN SELECT 1", "EXPLAIN is not supported", "one SELECT"),
        ("explain query plan SELECT 1", "EXPLAIN is not supported", "one SELECT"),
        ("SELECT 1; SELECT 2", "only one statement", "one SELECT"),
    ],
)
def test_mistakes_get_a_message_and_a_suggestion(path: Path, sql: str, told: str, remedy: str) -> None:
    found = refusal(path, sql)
    assert told in found.reason
    assert remedy in found.remedy
    assert found.exit_code == 2


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.parametrize("sql", [ENDLESS, ENDLESS.replace("count(*)", "*") + " LIMIT 1 OFFSET 1000000000000"])
def test_a_query_ends_after_its_time_limit(path: Path, sql: str) -> None:
    began = time.monotonic()
    with pytest.raises(QueryTimeoutError) as caught:
        ask(path, sql, 0.2)
    assert time.monotonic() - began < 30
    assert caught.value.exit_code == 1
    assert "0.2 s" in caught.value.reason


def test_a_query_can_be_interrupted(path: Path) -> None:
    timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ask(path, ENDLESS, 60)
    timer.join()


def test_time_spent_by_the_reader_of_rows_does_not_count(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = 0.0
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + later))
    with open_file(path) as file:
        rows = answer(file, ENDLESS.replace("count(*)", "*") + " LIMIT 200000", 60).rows
        assert len(list(islice(rows, 100))) == 100
        later = 3600
        assert len(list(rows)) == 199_900


def test_unread_rows_are_dropped_silently(path: Path) -> None:
    with open_file(path) as file:
        rows = answer(file, ENDLESS.replace("count(*)", "*"), 60).rows
        assert len(list(islice(rows, 2000))) == 2000
    rows.close()  # type: ignore[attr-defined]  # of a closed file


def test_rows_that_take_too_long_raise_a_timeout(path: Path) -> None:
    with open_file(path) as file:
        found = answer(file, ENDLESS.replace("count(*)", "*"), 0.3)
        with pytest.raises(QueryTimeoutError):
            list(found.rows)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT zeroblob(2000000000)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
        " SELECT group_concat(printf('%1000000d', i)) FROM n",
    ],
)
def test_a_query_has_a_memory_limit(path: Path, sql: str) -> None:
    with pytest.raises(StalltopError) as caught:
        ask(path, sql)
    assert "memory" in caught.value.reason
    assert caught.value.exit_code == 1


def test_a_query_has_a_disk_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        if {("TEMP_STORE=2",), ("TEMP_STORE=3",)} & set(connection.execute("PRAGMA compile_options")):
            pytest.skip("this SQLite makes no temporary files")
    monkeypatch.setattr(patience, "MOST_TEMPORARY", 1 << 20)
    monkeypatch.setattr(patience, "LOOK_SECONDS", 0.0)
    sql = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)"
        " SELECT printf('%.2000c', 'a') || i AS text FROM n ORDER BY -i"
    )
    with pytest.raises(StalltopError) as caught:
        ask(path, sql)
    assert "room on the disk" in caught.value.reason
    assert caught.value.exit_code == 1


def test_missing_or_simulated_calls_give_a_warning(tmp_path: Path) -> None:
    whole = full_window()
    for window, words in (
        (replace(whole, simulated=False, loss={}), ()),
        (replace(whole, simulated=True, loss={}), ("SIMULATED",)),
        (replace(whole, simulated=False, loss={UNCOUNTED[0]: 12_345}), ("12345 calls",)),
    ):
        with open_file(write_file(tmp_path / f"file{len(words)}{window.lost}", [window])) as file:
            warnings = answer(file, "SELECT 1", 60).warnings
        assert len(warnings) == len(words)
        assert all(word in line for word, line in zip(words, warnings, strict=True))


def test_too_many_single_calls_are_refused_with_a_remedy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MOST_CALLS", 3)
    with pytest.raises(StalltopError) as caught:
        ask(path, "SELECT avg(duration_ns) OVER () FROM cuda_events")
    assert "one by one" in caught.value.reason
    assert "WHERE" in caught.value.remedy
    assert ask(path, "SELECT count(*) > 3 FROM cuda_events") == [(1,)]
    # This query reads no more than three calls, so the limit does not refuse it.
    assert (
        len(ask(path, "SELECT duration_ns FROM nccl_events WHERE pid = 100 AND window_start < 0 LIMIT 1"))
        == 0
    )


def test_a_condition_reduces_the_calls_that_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT op, duration_ns FROM cuda_events WHERE op = 'cuStreamSynchronize' AND duration_ns > 5"
    whole = ask(path, sql)
    monkeypatch.setattr(alike, "MOST_CALLS", len(whole) + 2)
    assert whole
    assert sorted(ask(path, sql)) == sorted(whole)


@pytest.mark.parametrize("seed", range(24))
def test_damage_is_reported_without_a_traceback(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    path = write_file(tmp_path / "file", [full_window(), *windows_of(random_calls(seed))])
    content = bytearray(path.read_bytes())
    pages = len(content) // _PAGE
    first, second = (slice(at * _PAGE, (at + 1) * _PAGE) for at in random.sample(range(1, pages), 2))
    if seed % 4 == 0:
        for _ in range(random.choice((1, 3, 20))):
            content[random.randrange(100, len(content))] = random.randrange(256)
    elif seed % 4 == 1:
        content[first] = bytes(_PAGE)
    elif seed % 4 == 2:
        content[first], content[second] = content[second], content[first]
    else:
        del content[random.randrange(len(content)) :]
    path.write_bytes(content)
    for sql in (
        "SELECT op, count(*), min(duration_ns) FROM cuda_events WHERE duration_ns > 5 GROUP BY op",
        "SELECT * FROM cuda_events JOIN containers USING (cgroup_id)",
        "SELECT p(histogram, 99), p(hmerge(histogram), 50) FROM operations GROUP BY op",
        *(one.sql for one in random.sample(list(ready.queries().values()), 3)),
    ):
        with contextlib.suppress(StalltopError):
            ask(path, sql)


def test_damage_is_reported_with_the_file_and_a_remedy(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with contextlib.closing(sqlite3.connect(path)) as connection:
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'counts'")
    content[(root - 1) * _PAGE : root * _PAGE] = bytes(_PAGE)
    path.write_bytes(content)
    with pytest.raises(StalltopError) as caught:
        ask(path, "SELECT sum(calls) FROM operations")
    assert f"{path} is damaged" in caught.value.reason
    assert f"stalltop merge {path} --to NEW" in caught.value.remedy


def test_changed_figures_give_a_warning(path: Path) -> None:
    with open_file(path) as file:
        assert answer(file, "SELECT 1", 60).warnings == ()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE counts SET calls = calls + 1 WHERE window_id = 1 AND place = 0")
    with open_file(path) as file:
        found = answer(file, "SELECT 1", 60)
        assert list(found.rows) == [(1,)]
        [warning] = found.warnings
        assert "damaged" in warning


def test_a_wrong_figure_in_a_long_file_gives_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_file(
        tmp_path / "file", [window for seed in range(12) for window in windows_of(random_calls(seed))]
    )
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        [(windows,)] = connection.execute("SELECT count(*) FROM windows")
        connection.execute("UPDATE counts SET calls = calls + 1000000 WHERE window_id = 1 AND place = 0")
    assert windows > 16
    with open_file(path) as file:
        [warning] = answer(file, "SELECT 1", 60, check=True).warnings
        assert "damaged" in warning
    monkeypatch.setattr(checking, "SECONDS", 0.0)
    with open_file(path) as file:
        [warning] = answer(file, "SELECT 1", 60).warnings
        assert f"{windows} of {windows} windows were not compared" in warning
        assert "--check" in warning


def test_shared_tables_are_verified_too(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE series SET operation = 'cudaOther' WHERE series_id = 1")
    with open_file(path) as file:
        [warning] = answer(file, "SELECT 1", 60).warnings
        assert "row 1 of series is damaged" in warning


def test_invalid_utf_8_is_shown_with_replacement_characters(path: Path) -> None:
    assert ask(path, "SELECT CAST(x'61ff62' AS TEXT)") == [("a\ufffdb",)]


def test_only_reading_is_authorized() -> None:
    assert guard.authorized(sqlite3.SQLITE_SELECT, None, None, None, None) == sqlite3.SQLITE_OK
    assert guard.authorized(sqlite3.SQLITE_ATTACH, "x", None, None, None) == sqlite3.SQLITE_DENY
    assert (
        guard.authorized(sqlite3.SQLITE_FUNCTION, None, "LOAD_EXTENSION", None, None) == sqlite3.SQLITE_DENY
    )


def test_the_view_of_losses_lists_those_of_the_window(tmp_path: Path) -> None:
    path = write_file(tmp_path / "file", [full_window()])
    assert ask(path, "SELECT name, count FROM losses WHERE count > 0 ORDER BY name") == [
        (name, count) for name, count in sorted(full_window().loss.items()) if count
    ]
