"""Files of earlier versions are read as copies that have the tables of now; the files themselves stay.

From version to version tables and columns are only added. So a copy needs no more than what is new: nothing
that is stored is written anew, however large the file is. Its checksums stay as they are, and are compared
with what they were made of (``Layout``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from stalltop.recordings.file import schema, versions
from stalltop.recordings.file.values import Sql
from stalltop.recordings.file.versions import FIRST
from stalltop.recordings.write.writing import sealed


def is_known(version: int) -> bool:
    """Whether files of that version can be read."""
    return FIRST <= version <= schema.VERSION


def tables(version: int) -> Mapping[str, str]:
    """By name what makes each table of a version that is known."""
    if version != schema.VERSION:
        return versions.tables(version)
    return {table.name: table.ddl for table in schema.TABLES}


def migrated(source: sqlite3.Connection, version: int) -> sqlite3.Connection:
    """A private copy of ``source``, whose tables were found to be those of ``version``, as of now.

    It lies in SQLite's temporary folder where it is large, without a name, and goes with its connection.
    Raises sqlite3.Error.
    """
    copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = MEMORY")
        copy.execute("PRAGMA trusted_schema = OFF")
        copy.execute("BEGIN")
        for statement in _additions(version):
            copy.execute(statement)
        copy.execute(f"PRAGMA user_version = {schema.VERSION}")
        copy.execute("COMMIT")
    except BaseException:
        copy.close()
        raise
    return copy


def _additions(version: int) -> list[str]:
    """What makes the tables of ``version`` those of now, but for the order of their columns."""
    before = versions.columns(version)
    made = []
    for table in schema.TABLES:
        if table.name not in before:
            made.append(table.ddl)
            continue
        made += [
            f"ALTER TABLE {table.name} ADD COLUMN {column.added}"
            for column in table.columns
            if column.name not in before[table.name]
        ]
    return made


_Row = Sequence[Sql]


class Layout:
    """What the checksums of a file are made of, whose rows are read with the columns of now."""

    def __init__(self, version: int = schema.VERSION) -> None:
        before = None if version == schema.VERSION else versions.columns(version)
        # A row of its own has neither its number nor its checksum, the row of a part not its window's number.
        self._shared = {table.name: _picked(table, before, slice(0, -1)) for table in schema.SHARED}
        self._window = _picked(schema.WINDOWS, before, slice(1, -1))
        self._parts = {
            table.name: _picked(table, before, slice(1, None))
            for table in schema.PARTS
            if before is None or table.name in before
        }
        self._tables = tuple(table for table in schema.PARTS if table.name in self._parts)

    def shared(self, table: str, row: _Row) -> _Row:
        """Of a shared row with its number, without its checksum, what that is over."""
        return self._shared[table](row)

    def sealed(self, values: _Row, parts: Mapping[str, Sequence[_Row]]) -> int:
        """The checksum of a window: see ``recordings.write.writing.sealed``."""
        known = {name: self._of(pick, parts[name]) for name, pick in self._parts.items()}
        return sealed(self._window(values), known, self._tables)

    @staticmethod
    def _of(pick: Callable[[_Row], _Row], rows: Sequence[_Row]) -> Sequence[_Row]:
        return rows if pick is _all else [pick(row) for row in rows]


def _all(row: _Row) -> _Row:
    return row


def _picked(
    table: schema.Table, before: Mapping[str, tuple[str, ...]] | None, part: slice
) -> Callable[[_Row], _Row]:
    """Gives the columns that a row had, of ``part`` of those that it has."""
    names = table.names[part]
    if before is None or table.name not in before or before[table.name][part] == names:
        return _all
    places = [names.index(name) for name in before[table.name][part]]
    return lambda row: [row[place] for place in places]
