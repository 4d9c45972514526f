"""Converts a saved window into the present tables of the file format: ``python scripts/renew_window.py``. The
saved window is the one that the tests of the screen's pictures show.

A column that the old file does not have gets NULL, 0 or an empty text. The pictures show a saved window so
that they change only if the screen changes.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from stalltop.recordings.file import schema  # noqa: E402
from stalltop.recordings.file.seal import sealed  # noqa: E402
from stalltop.recordings.file.table import TEXT, SqlColumn  # noqa: E402
from stalltop.recordings.file.values import Sql, checksum  # noqa: E402
from stalltop.recordings.read.reading import load  # noqa: E402
from stalltop.recordings.write.saving import dump  # noqa: E402

WINDOW: Final = ROOT / "tests" / "tui" / "pictures" / "snapshots" / "window.stalltop"


def _empty(column: SqlColumn) -> Sql:
    return None if column.null else "" if column.type == TEXT else 0


def _place(row: tuple[Sql, ...]) -> tuple[Sql, ...]:
    """Returns the first two columns of a row: the id of its window, and its place in that window. The
    checksum is computed over the rows in this order."""
    return row[:2]


def copy(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Copies all rows of a file that has one window into a new file, with new checksums."""
    for statement in schema.statements():
        new.execute(statement)
    parts: dict[str, list[tuple[Sql, ...]]] = {}
    for table in schema.TABLES:
        known = {name for _, name, *_ in old.execute(f"PRAGMA table_info({table.name})")}
        names = [name for name in table.names if name in known]
        found = old.execute(f"SELECT {', '.join(names)} FROM {table.name}").fetchall() if names else []
        rows = [dict(zip(names, row, strict=True)) for row in found]
        full = [tuple(row.get(one.name, _empty(one)) for one in table.columns) for row in rows]
        if table in schema.SHARED:
            full = [(*row[:-1], checksum([row[:-1]])) for row in full]
        parts[table.name] = full
    [(number, *values, _)] = parts[schema.WINDOWS.name]
    of_window = {
        table.name: [row[1:] for row in sorted(parts[table.name], key=_place)] for table in schema.PARTS
    }
    parts[schema.WINDOWS.name] = [(number, *values, sealed(values, of_window))]
    for table in schema.TABLES:
        marks = ", ".join("?" * len(table.columns))
        new.executemany(f"INSERT INTO {table.name} VALUES ({marks})", parts[table.name])
    new.commit()


if __name__ == "__main__":
    renewed = WINDOW.with_suffix(".new")
    uri = f"file:{WINDOW}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as old, closing(sqlite3.connect(renewed)) as new:
        copy(old, new)
    window = load(renewed)
    renewed.unlink()
    WINDOW.write_bytes(dump(window))
