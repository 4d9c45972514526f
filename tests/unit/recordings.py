"""Recordings for tests: files of windows that follow each other."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from stalltop.model.window import Window
from stalltop.recordings.file import schema, versions
from stalltop.recordings.file.values import checksum
from stalltop.recordings.write.writing import Writer, create, sealed
from tests.unit.full_window import full_window


def following(n: int, one: Window | None = None) -> list[Window]:
    """``n`` windows, one behind the other, with something in every field."""
    first = full_window() if one is None else one
    return [replace(first, start=first.start + at * first.seconds) for at in range(n)]


def record(path: Path, windows: Iterable[Window], *, page_bytes: int = 1024) -> Path:
    """A file of ``windows`` at ``path``, which is free."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        create(connection, "recording")
        writer = Writer(connection)
        for window in windows:
            writer.add(window)
        connection.execute("COMMIT")
    return path


@contextlib.contextmanager
def changing(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that writes into a file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        yield connection


def make_earlier(path: Path, version: int) -> None:
    """Take out of a file what that version did not have, and seal it as that version did."""
    ddl, columns = versions.tables(version), versions.columns(version)
    with changing(path) as connection:
        connection.execute("BEGIN")
        for table in schema.TABLES:
            if table.name not in ddl:
                connection.execute(f"DROP TABLE {table.name}")
                continue
            kept = ", ".join(columns[table.name])
            rows = connection.execute(f"SELECT {kept} FROM {table.name}").fetchall()
            connection.execute(f"DROP TABLE {table.name}")
            connection.execute(ddl[table.name])
            marks = ", ".join("?" * len(columns[table.name]))
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
        _seal(connection, columns)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")


def _seal(connection: sqlite3.Connection, columns: Mapping[str, tuple[str, ...]]) -> None:
    for shared in (table for table in schema.SHARED if table.name in columns):
        for number, *values, _ in connection.execute(f"SELECT * FROM {shared.name}").fetchall():
            sums = checksum([(number, *values)])
            connection.execute(
                f"UPDATE {shared.name} SET checksum = ? WHERE {shared.key[0]} = ?", (sums, number)
            )
    tables = [table for table in schema.PARTS if table.name in columns]
    for number, *values, _ in connection.execute("SELECT * FROM windows").fetchall():
        parts = {
            table.name: [
                row[1:]
                for row in connection.execute(
                    f"SELECT * FROM {table.name} WHERE window_id = ? ORDER BY place", (number,)
                )
            ]
            for table in tables
        }
        connection.execute(
            "UPDATE windows SET checksum = ? WHERE window_id = ?", (sealed(values, parts, tables), number)
        )
