"""Figures with their unit and with what is better: what a table shows as text, for programs to read.

`Column` and `Measured` are strings, so that a table of text is made of them as of any others.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Better = Literal["lower", "higher", ""]
"""What is better; empty: neither."""
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


class Column(str):
    """The head of a column of figures. A plain string as head: the column names the row."""

    unit: str
    better: Better
    told_only: bool
    """Not measured: a target, say."""

    def __new__(
        cls, name: str, unit: str = "", better: Better = "lower", *, told_only: bool = False
    ) -> Column:
        """``unit``: of all figures of the column that have none of their own."""
        made = super().__new__(cls, name)
        made.unit, made.better, made.told_only = unit, better, told_only
        return made


class Measured(str):
    """The text of a figure, with the values of its rounds."""

    values: tuple[float, ...]
    unit: str | None

    def __new__(cls, text: str, values: Iterable[float], unit: str | None = None) -> Measured:
        """``unit``: None: that of the column."""
        made = super().__new__(cls, text)
        made.values, made.unit = tuple(values), unit
        return made


def measured(value: float, form: str, unit: str | None = None) -> Measured:
    """One value, as text in the form ``form``."""
    return Measured(f"{value:{form}}", (value,), unit)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a table."""

    table: str
    """The title up to its colon, such as ``cost, 1 thread``."""
    row: tuple[str, ...]
    """The names of the row, from left to right."""
    name: str
    """The column, such as ``CPU %`` or ``added ns / empty pair``."""
    values: tuple[float, ...]
    """One a round; a single one where the bench has no rounds, or adds them up itself."""
    unit: str
    better: Better

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.values)

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "value": self.value}


def figures(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[Figure]:
    """The figures of a table, row by row. A row without a name has the name of the one above."""
    names: dict[int, str] = {}
    for row in rows:
        for column, text in enumerate(row):
            if not isinstance(head[column], Column) and (text or column not in names):
                names[column] = text
        for column, cell in enumerate(row):
            kind = head[column]
            values = values_of(cell)
            if isinstance(kind, Column) and not kind.told_only and values:
                unit = cell.unit if isinstance(cell, Measured) and cell.unit is not None else kind.unit
                yield Figure(
                    table=title.partition(":")[0],
                    row=tuple(name for name in names.values() if name != "-"),
                    name=_full_name(head, column),
                    values=values,
                    unit=unit,
                    better=kind.better,
                )


def values_of(cell: str) -> tuple[float, ...]:
    """The values of a cell; of mere text, the number that it begins with, and 100 % of ``all``."""
    if isinstance(cell, Measured):
        return cell.values
    if cell == "all":
        return (100.0,)
    found = _NUMBER.match(cell)
    return (float(found[0].replace(",", "")),) if found else ()


def _full_name(head: Sequence[str], column: int) -> str:
    """A quotient, and a name that several columns have, follow the name of the column that they belong to."""

    def belongs(name: str) -> bool:
        return name.startswith("/") or list(map(str, head)).count(name) > 1

    name = str(head[column])
    before = [str(one) for one in head[:column] if isinstance(one, Column) and not belongs(str(one))]
    return f"{before[-1]} {name}" if belongs(name) and before else name
