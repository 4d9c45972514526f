"""What a table of a file is, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

INTEGER, REAL, TEXT, BLOB = "INTEGER", "REAL", "TEXT", "BLOB"


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """One column."""

    name: str
    type: str
    about: str
    null: bool = False
    """Whether it may be NULL: not measured, or not known."""
    refers: str = ""
    """The table whose rows it names by number."""
    fields: tuple[str, ...] = ()
    """Fields of the record that it stands for; none: the one of its own name."""

    @property
    def names(self) -> tuple[str, ...]:
        """Fields of the record that it stands for."""
        return self.fields or (self.name,)


@dataclass(frozen=True, slots=True)
class SqlTable:
    """One table."""

    name: str
    about: str
    columns: tuple[SqlColumn, ...]
    kind: type | None = None
    """What a row is read as, where it is one of ours."""
    key: tuple[str, ...] = ()
    """Primary key; of one number in ``SHARED``."""
    names: tuple[str, ...] = field(init=False)
    """Of all columns, in order."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(column.name for column in self.columns))

    @property
    def ddl(self) -> str:
        """The statement that makes it."""
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
    """A column, with the fields of the record that it stands for; none: the one of its own name."""
    return SqlColumn(name, type_, about, null, refers, fields)


CHECKSUM: Final = column("checksum", INTEGER, "CRC-32 of the row")


def shared(name: str, about: str, *columns: SqlColumn, kind: type | None = None) -> SqlTable:
    """A table of what is said once, with the number of a row before its columns and a checksum behind."""
    number = column(f"{name.removesuffix('s') if name not in _IDS else _IDS[name]}_id", INTEGER, "its number")
    return SqlTable(name, about, (number, *columns, CHECKSUM), kind, (number.name,))


_IDS: Final = {"processes": "process", "series": "series", "coverage": "coverage", "limits": "limits"}
"""Tables whose number is not called by their name without an s."""


def part(name: str, about: str, *columns: SqlColumn, kind: type | None = None) -> SqlTable:
    """A table of what belongs to one window, with the window and its place in it before its columns."""
    window = column("window_id", INTEGER, "the window", refers="windows")
    place = column("place", INTEGER, "from 0: its place in the window")
    return SqlTable(name, about, (window, place, *columns), kind, ("window_id", "place"))
