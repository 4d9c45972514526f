"""The content of a table: columns, and rows of cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

from stalltop.model.window import PartName

Role = (
    Literal[
        "",
        "text",
        "dim",
        "bright",
        "label",
        "accent",
        "meter",
        "good",
        "low",
        "warn",
        "bad",
        "head",
        "critical",
    ]
    | Literal["running_line", "runqueue_line", "disk_line", "memory_line", "lock_line"]
    | Literal["gpu_line", "network_line", "process_line", "sleep_line", "other_line"]
    | PartName
)
"""The name of a style of the palette; empty: plain."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, ``width`` cells wide. The first column of a table also takes the cells that are left over."""

    id: str
    title: str
    width: int
    right: bool = True
    fixed: bool = False
    """Whether the column stays in place when others scroll sideways. Fixed columns come before all others."""
    most: int = 0
    """The width to which the first column may grow, in cells; 0: no limit."""
    ends_differ: bool = False
    """Whether the texts of the first column differ at their ends, like names with a PID. A text that is too
    long is then cut in the middle."""


class Cell(NamedTuple):
    """The text of a row in a column, and the role of its style (empty: plain). A named tuple, because
    hundreds are made for each window."""

    text: str
    role: Role = ""
    parts: tuple[tuple[str, Role], ...] = ()
    """Pieces with their own roles, together as wide as the column. If not empty, they replace ``text`` and
    ``role``."""
    found: tuple[tuple[int, int], ...] = ()
    """The (start, end) of the letters of ``text`` that match the filter; they stand out."""
    unsure: bool = False
    """Whether few calls support the figure, or chance can explain it. ``~`` stands before it."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row. Its ``key`` stays the same when its values change."""

    key: Hashable
    cells: tuple[Cell, ...]
    label: str = ""
    """The name of the row in texts outside the table, without marks."""
    mark: Cell | None = None
    """A mark of one character at the end of the first column."""
    second_mark: Cell | None = None
    """A mark of one character between the first column and the second one."""
    told: Cell | None = None
    """Text at the right end of the first column, before the marks; shown only if all of it fits."""
    across: Cell | None = None
    """Text in place of cells without a figure (``Glyphs.missing``) after the first column, if there is room
    for it."""


class TableRows(Sequence[TableRow]):
    """A sequence that makes a row only when the row is read: of a thousand rows a screen shows about
    forty."""

    def __init__(
        self,
        keys: Sequence[Hashable],
        make: Callable[[int], TableRow],
        see: Callable[[range], object] = lambda rows: None,
    ) -> None:
        """``keys`` are the keys of all rows; ``make`` returns the row at a position. ``see`` is called with
        positions before their rows are drawn, to compute for all of them what each needs."""
        self.keys = keys
        self._make = make
        self.see = see
        self._made: dict[int, TableRow] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> TableRow: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[TableRow]: ...

    def __getitem__(self, at: int | slice) -> TableRow | Sequence[TableRow]:
        """Return the row at a position, or the rows of a slice. Raises IndexError."""
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
    """The content of a table. Its rows are sorted."""

    title: tuple[tuple[str, Role], ...] = ()
    columns: tuple[Column, ...] = ()
    rows: Sequence[TableRow] = ()
    sort: str = ""
    """Id of the column by which the rows are sorted."""
    descending: bool = True
    empty: tuple[str, ...] = ()
    """Lines to show if there are no rows."""
    legend: tuple[tuple[str, Role], ...] = ()
    """Text at the right end of the title line; shown only if all of it fits."""
    filling: int = 0
    """The number of rows that are shown only because the table has lines for them."""
    could_fill: int = 0
    """The number of rows that would be shown if there were enough lines for them, ``filling`` included."""

    def key(self, at: int) -> Hashable:
        """Return the key of the row at a position."""
        return self.rows.keys[at] if isinstance(self.rows, TableRows) else self.rows[at].key

    def find(self, key: Hashable) -> int | None:
        """Return the position of the row ``key``; None if there is no such row."""
        keys = self.rows.keys if isinstance(self.rows, TableRows) else [row.key for row in self.rows]
        return next((at for at, one in enumerate(keys) if one == key), None)
