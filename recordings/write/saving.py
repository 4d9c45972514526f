"""Saves one window as a file."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from pathlib import Path

from stalltop.files.complete import write
from stalltop.model.window import Window
from stalltop.recordings.write.writing import Writer, create

_PAGE_BYTES = 1024
"""Page size of saved windows, in bytes. It is small because each table takes at least one page, and most
tables have few rows."""


def save(window: Window, path: Path, *, overwrite: bool = False) -> Path:
    """Write ``window`` to ``path`` and return ``path``. Only this user may read the file (mode 0600).

    ``files.complete.write`` writes it. Raises UsageError if ``path`` exists and ``overwrite`` is not set, or
    if it is not a regular file. Raises StalltopError if it cannot be written.
    """
    return write(dump(window), path, overwrite=overwrite)


def dump(window: Window) -> bytes:
    """Return the bytes of a file in which ``window`` is saved. Equal windows have equal bytes. Raises
    StalltopError if the window is too large."""
    if hasattr(sqlite3.Connection, "serialize"):
        with contextlib.closing(_made(window, ":memory:")) as connection:
            return connection.serialize()
    # The SQLite of this Python has no ``serialize``, so a file is made and read.
    with tempfile.TemporaryDirectory(prefix="stalltop-") as folder:
        path = Path(folder) / "window"
        _made(window, path).close()
        return path.read_bytes()


def _made(window: Window, path: str | Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    # The file is not read before it is complete, so it needs neither a journal nor fsync.
    for pragma in (f"page_size = {_PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    create(connection, "window")
    Writer(connection).add(window)
    connection.execute("COMMIT")
    return connection
