"""What a table shows: columns, and rows of cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, overload

# fmt: off
Role = Literal[
    "", "text", "dim", "label", "accent", "good", "warn", "bad", "head", "critical",
    "running", "runqueue", "disk", "memory", "lock", "gpu", "network", "process", "sleep", "other",
]
# fmt: on
"""Names of styles in the palette; empty: plain."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``width`` in cells; the first column of a table also takes what is left over."""

    id: str
    title: str
    width: int
    right: bool = True
    fixed: bool = False
    """Stays in place while the others scroll sideways; only leading columns may."""
    most: int = 0
    """Cells that the first column may grow to; 0: no limit."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What a row shows in a column, and the role of its style (empty: plain)."""

    text: str
    role: Role = ""
    parts: tuple[tuple[str, Role], ...] = ()
    """In place of both: pieces of one text, each with a role of its own, as wide as the column together."""
    found: tuple[tuple[int, int], ...] = ()
    """(start, end) of the letters of ``text`` that somebody looks for: they stand out."""
    unsure: bool = False
    """Little supports it: ``dim`` says so, and a sign where a theme has no grey."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row; ``key`` names it through all changes of its values."""

    key: Hashable
    cells: tuple[Cell, ...]
    label: str = ""
    """What the row is called elsewhere, without marks."""
    mark: Cell | None = None
    """Stands at the end of the first column."""


class TableRows(Sequence[TableRow]):
    """Rows that are made when they are looked at: of a thousand a screen shows forty."""

    def __init__(self, keys: Sequence[Hashable], make: Callable[[int], TableRow]) -> None:
        """``make`` gives the row at a position; ``keys`` are those of all rows."""
        self.keys = keys
        self._make = make
        self._made: dict[int, TableRow] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> TableRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[TableRow]: ...

    def __getitem__(self, at: int | slice) -> TableRow | Sequence[TableRow]:
        """The row at a position, or those of a slice. Raises IndexError."""
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        row = self._made.get(at)
        if row is None:
            row = self._made[at] = self._make(at)
        return row


@dataclass(frozen=True, slots=True)
class TableData:
    """All that a table shows. Rows are sorted already."""

    title: tuple[tuple[str, Role], ...] = ()
    columns: tuple[Column, ...] = ()
    rows: Sequence[TableRow] = ()
    sort: str = ""
    """Id of the column that the rows are sorted by."""
    descending: bool = True
    empty: tuple[str, ...] = ()
    """What is said in place of rows."""
    legend: tuple[tuple[str, Role], ...] = ()
    """At the right of the title, where there is room for all of it."""

    def key(self, at: int) -> Hashable:
        """Key of the row at a position."""
        return self.rows.keys[at] if isinstance(self.rows, TableRows) else self.rows[at].key

    def find(self, key: Hashable) -> int | None:
        """Position of the row ``key``; None where there is none."""
        keys = self.rows.keys if isinstance(self.rows, TableRows) else [row.key for row in self.rows]
        return next((at for at, one in enumerate(keys) if one == key), None)
