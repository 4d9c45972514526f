"""One window as a file of its own: complete or not there at all, and only for its user (mode 0600)."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from pathlib import Path

from stalltop.files.complete import write
from stalltop.model.window import Window
from stalltop.recordings.write.writing import Writer, create

_PAGE_BYTES = 1024
"""A window has little in most of its tables, and each table takes a page."""


def save(window: Window, path: Path, *, overwrite: bool = False) -> Path:
    """Write ``window`` to ``path`` and return it; only the user who saves may read it (mode 0600).

    The file is complete or not there at all; missing folders are made. Raises UsageError where ``path``
    exists and ``overwrite`` is not set, or is no regular file, and StalltopError where it cannot be written.
    """
    return write(dump(window), path, overwrite=overwrite)


def dump(window: Window) -> bytes:
    """``window`` as the content of a file: of equal windows the same. Raises StalltopError where it is too
    large."""
    if hasattr(sqlite3.Connection, "serialize"):
        with contextlib.closing(_made(window, ":memory:")) as connection:
            return connection.serialize()
    # A SQLite that was built without it.
    with tempfile.TemporaryDirectory(prefix="stalltop-") as folder:
        path = Path(folder) / "window"
        _made(window, path).close()
        return path.read_bytes()


def _made(window: Window, path: str | Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    # Nobody else sees it before it is complete.
    for pragma in (f"page_size = {_PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    create(connection, "window")
    Writer(connection).add(window)
    connection.execute("COMMIT")
    return connection
