"""The rows of an answer as a table for people, as JSON or as CSV; read as they are written."""

from __future__ import annotations

import base64
import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TextIO

from rich.cells import cell_len

from stalltop.model.text.csv_cells import number_cell, text_cell
from stalltop.model.text.figures import fit, printable

_MEASURED: Final = 500
"""Rows of a table whose widths decide those of its columns."""
_NARROWEST: Final = 8
"""No column of text is cut to less."""
_BETWEEN: Final = "  "

Rows = Iterable[Sequence[Any]]


def write(
    out: TextIO, style: str, columns: Sequence[str], rows: Rows, *, width: int | None, unicode: bool
) -> int:
    """Write ``rows`` as ``style`` (table, json, jsonl or csv) and return how many they were.

    A table is at most ``width`` columns wide where its texts can be cut so far; None: as wide as it is.
    """
    counted = _Counted(rows)
    if style == "table":
        _table(out, columns, counted, width, unicode)
    elif style == "csv":
        _csv(out, columns, counted)
    else:
        _json(out, columns, counted, lines=style == "jsonl")
    return counted.number


class _Counted:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.number = 0

    def __iter__(self) -> Iterator[Sequence[Any]]:
        for row in self._rows:
            self.number += 1
            yield row


def _json(out: TextIO, columns: Sequence[str], rows: Rows, *, lines: bool) -> None:
    """An object for each row: one a line, and without ``lines`` as one list."""
    before = ("[\n", ",\n") if not lines else ("", "\n")
    at = -1
    for at, row in enumerate(rows):
        plain = {name: _plain(value) for name, value in zip(columns, row, strict=True)}
        out.write(before[at > 0] + json.dumps(plain, allow_nan=False))
    out.write(("\n" if at >= 0 else "") if lines else ("\n]\n" if at >= 0 else "[]\n"))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(out: TextIO, columns: Sequence[str], rows: Rows) -> None:
    line = csv.writer(out, lineterminator="\n").writerow
    line([text_cell(name) for name in columns])
    for row in rows:
        cells = (_plain(value) for value in row)
        line([text_cell(cell) if isinstance(cell, str) else number_cell(cell) for cell in cells])  # type: ignore[arg-type]


def _table(out: TextIO, columns: Sequence[str], rows: Rows, width: int | None, unicode: bool) -> None:
    rows = iter(rows)
    first = list(islice(rows, _MEASURED))
    heads = [printable(name) for name in columns]
    right = [
        all(isinstance(row[at], (int, float)) or row[at] is None for row in first) for at in range(len(heads))
    ]
    cell = _cell(unicode)
    widths = [
        max(cell_len(head), *(cell_len(cell(row[at])) for row in first), 1) for at, head in enumerate(heads)
    ]
    if width is not None:
        widths = _narrowed(widths, right, width)
    rule = "─" if unicode else "-"
    for cells in chain(
        [heads, [rule * width_ for width_ in widths]],
        ([cell(value) for value in row] for row in chain(first, rows)),
    ):
        fitted = (
            _fitted(text, width_, right=aligned, whole=aligned or width is None, unicode=unicode)
            for text, width_, aligned in zip(cells, widths, right, strict=True)
        )
        out.write(_BETWEEN.join(fitted).rstrip() + "\n")


def _fitted(text: str, width: int, *, right: bool, whole: bool, unicode: bool) -> str:
    """``text`` in its column. A figure is never cut, and nothing is where there is no end of a line."""
    missing = width - cell_len(text)
    if missing < 0 and not whole:
        return fit(text, width, unicode=unicode)
    return " " * missing + text if right else text + " " * missing


def _cell(unicode: bool) -> Callable[[Any], str]:
    nothing = "–" if unicode else "-"

    def cell(value: Any) -> str:
        if value is None:
            return nothing
        if isinstance(value, float):
            return _real(value)
        if isinstance(value, bytes):
            return f"({len(value)} bytes)"
        text = printable(str(value))
        return text if unicode else text.encode("ascii", "replace").decode("ascii")

    return cell


def _real(value: float) -> str:
    """Three decimals; four digits of what is too small for that, or too large."""
    return f"{value:.3f}" if 0.1 <= abs(value) < 1e12 or value == 0 else f"{value:.4g}"


def _narrowed(widths: list[int], right: Sequence[bool], width: int) -> list[int]:
    """Cut columns of text, the widest first, until all fit."""
    widths = list(widths)
    over = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - width
    while over > 0:
        texts = [at for at, aligned in enumerate(right) if not aligned and widths[at] > _NARROWEST]
        if not texts:
            return widths
        widest = max(texts, key=lambda at: widths[at])
        others = [widths[at] for at in texts if at != widest]
        next_ = max([*(other for other in others if other < widths[widest]), _NARROWEST])
        cut = max(min(over, widths[widest] - next_), 1)
        widths[widest] -= cut
        over -= cut
    return widths
