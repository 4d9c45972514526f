"""Writes recordings of consecutive windows for tests."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from stalltop.model.window import Window
from stalltop.recordings.write.writing import Writer, create
from tests.windows.full import full_window


def following(n: int, one: Window | None = None) -> list[Window]:
    """Returns ``n`` consecutive copies of ``one`` or, without it, of a window with a value in every field."""
    first = full_window() if one is None else one
    return [replace(first, start=first.start + at * first.seconds) for at in range(n)]


def record(path: Path, windows: Iterable[Window], *, page_bytes: int = 1024) -> Path:
    """Writes ``windows`` to a new recording at ``path``."""
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
    """Opens a connection that may write to the file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        yield connection
