"""Classes that describe a table of a file and its columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

INTEGER, REAL, TEXT, BLOB = "INTEGER", "REAL", "TEXT", "BLOB"


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a table."""

    name: str
    type: str
    about: str
    null: bool = False
    """Whether the value may be NULL. NULL means not measured or not known."""
    refers: str = ""
    """Name of a shared table if the value is the number of a row of that table; otherwise ''."""
    fields: tuple[str, ...] = ()
    """Fields of the record that are stored in the column. Empty if there is only one, and it has the name of
    the column."""

    @property
    def names(self) -> tuple[str, ...]:
        """Fields of the record that are stored in the column."""
        return self.fields or (self.name,)


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table of a file."""

    name: str
    about: str
    columns: tuple[SqlColumn, ...]
    kind: type | None = None
    """Class of the records that are stored as rows; None if rows are not records of one class."""
    key: tuple[str, ...] = ()
    """Columns of the primary key. Tables in ``SHARED`` have one such column."""
    names: tuple[str, ...] = field(init=False)
    """Names of all columns, in their order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(column.name for column in self.columns))

    @property
    def ddl(self) -> str:
        """The SQL statement that creates the table."""
        lines = []
        for column in self.columns:
            line = f"{column.name} {column.type}"
            if self.key == (column.name,):
                line += " PRIMARY KEY"
            elif not column.null:
                line += " NOT NULL"
            lines.append(f"{line} REFERENCES {column.refers}" if column.refers else line)
        if len(self.key) > 1:
            lines.append(f"PRIMARY KEY ({', '.join(self.key)})")
        rowid = "" if self.columns[0].type == INTEGER and len(self.key) == 1 else " WITHOUT ROWID"
        return f"CREATE TABLE {self.name} (\n  " + ",\n  ".join(lines) + f"\n){rowid}"


def column(
    name: str, type_: str, about: str, *fields: str, null: bool = False, refers: str = ""
) -> SqlColumn:
    """Return a column. All positional arguments after the description are names of fields
    (``SqlColumn.fields``)."""
    return SqlColumn(name, type_, about, null, refers, fields)


CHECKSUM: Final = column("checksum", INTEGER, "CRC-32 of the row")


def shared(name: str, about: str, *columns: SqlColumn, kind: type | None = None) -> SqlTable:
    """Return a table of ``SHARED``. Its columns are the number of the row, then ``columns``, then the
    checksum of the row."""
    number = column(f"{name.removesuffix('s') if name not in _IDS else _IDS[name]}_id", INTEGER, "its number")
    return SqlTable(name, about, (number, *columns, CHECKSUM), kind, (number.name,))


_IDS: Final = {"processes": "process", "series": "series", "coverage": "coverage", "limits": "limits"}
"""Name of the key column without ``_id``, by table. For a table that is not listed, it is the name of the
table without the final s."""


def part(name: str, about: str, *columns: SqlColumn, kind: type | None = None) -> SqlTable:
    """Return a table of ``PARTS``. Its columns are the number of the window, the place of the row in the
    window, and then ``columns``."""
    window = column("window_id", INTEGER, "the window", refers="windows")
    place = column("place", INTEGER, "from 0: its place in the window")
    return SqlTable(name, about, (window, place, *columns), kind, ("window_id", "place"))
