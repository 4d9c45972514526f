"""Measured figures with their unit and whether lower or higher values are better. Tables show them as text,
and programs read their values.

`FigureColumn` and `FigureText` are strings, so that tables treat them like any other text.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Better = Literal["lower", "higher", ""]
"""Which values of a figure are better; '' if neither low nor high values are."""
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


class FigureColumn(str):
    """Heading of a column of figures. If a heading is a plain string, its column names the row."""

    unit: str
    better: Better
    told_only: bool
    """Whether the column's values are given, such as targets, and not measured."""

    def __new__(
        cls, name: str, unit: str = "", better: Better = "lower", *, told_only: bool = False
    ) -> FigureColumn:
        """``unit`` applies to all figures of the column that have no unit of their own."""
        made = super().__new__(cls, name)
        made.unit, made.better, made.told_only = unit, better, told_only
        return made


class FigureText(str):
    """The text of a figure, together with the figure's value in each round."""

    values: tuple[float, ...]
    unit: str | None

    def __new__(cls, text: str, values: Iterable[float], unit: str | None = None) -> FigureText:
        """If ``unit`` is None, the figure has the unit of its column."""
        made = super().__new__(cls, text)
        made.values, made.unit = tuple(values), unit
        return made


def measured(value: float, form: str, unit: str | None = None) -> FigureText:
    """Returns the text of a single value, formatted by ``form``; ``unit`` is needed if the column has
    none."""
    return FigureText(f"{value:{form}}", (value,), unit)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a table."""

    table: str
    """Title of the table up to its colon, such as ``cost, 1 thread``."""
    row: tuple[str, ...]
    """Names of the row, from left to right."""
    name: str
    """Name of the column, such as ``CPU %`` or ``added ns / empty pair``."""
    values: tuple[float, ...]
    """One value per round; a single value if the benchmark has no rounds or computes one value from all."""
    unit: str
    better: Better

    @property
    def value(self) -> float:
        """Returns the median of the rounds."""
        return statistics.median(self.values)

    def plain(self) -> dict[str, Any]:
        """Returns the figure as a dict for JSON."""
        return {**asdict(self), "value": self.value}


def figures(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[Figure]:
    """Yields the figures of a table, row by row. If a cell that names a row is empty, the name in the row
    above counts."""
    names: dict[int, str] = {}
    for row in rows:
        for column, text in enumerate(row):
            if not isinstance(head[column], FigureColumn) and (text or column not in names):
                names[column] = text
        for column, cell in enumerate(row):
            kind = head[column]
            values = values_of(cell)
            if isinstance(kind, FigureColumn) and not kind.told_only and values:
                unit = cell.unit if isinstance(cell, FigureText) and cell.unit is not None else kind.unit
                yield Figure(
                    table=title.partition(":")[0],
                    row=tuple(name for name in names.values() if name != "-"),
                    name=_full_name(head, column),
                    values=values,
                    unit=unit,
                    better=kind.better,
                )


def values_of(cell: str) -> tuple[float, ...]:
    """Returns the values of a cell. If the cell is plain text, returns one value: the number with which the
    text begins, or 100 if the text is ``all``. Returns no value if the text has no number."""
    if isinstance(cell, FigureText):
        return cell.values
    if cell == "all":
        return (100.0,)
    found = _NUMBER.match(cell)
    return (float(found[0].replace(",", "")),) if found else ()


def _full_name(head: Sequence[str], column: int) -> str:
    """Returns a name that identifies a column.

    A heading that begins with ``/`` (such as ``/ off``, the ratio to the figure of 'off') or that occurs more
    than once is ambiguous. The name then begins with the nearest unambiguous heading of a figure to the left.
    """

    def belongs(name: str) -> bool:
        return name.startswith("/") or list(map(str, head)).count(name) > 1

    name = str(head[column])
    before = [str(one) for one in head[:column] if isinstance(one, FigureColumn) and not belongs(str(one))]
    return f"{before[-1]} {name}" if belongs(name) and before else name
