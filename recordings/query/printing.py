"""Prints the rows of an answer as a table, as JSON or as CSV. Reads each row only when it is to be
printed."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TextIO

from rich.cells import cell_len

from stalltop.model.text.csv_lines import Cell, write_lines
from stalltop.model.text.figures import fit, printable
from stalltop.model.text.glyphs import Glyphs

_MEASURED: Final = 500
"""Number of rows at the beginning of an answer. Only these rows determine the widths of the table's
columns."""
_NARROWEST: Final = 8
"""Smallest width to which a column of text is cut, in cells."""
_BETWEEN: Final = "  "

Rows = Iterable[Sequence[Any]]


def write(
    out: TextIO, style: str, columns: Sequence[str], rows: Rows, *, width: int | None, glyphs: Glyphs
) -> int:
    """Write ``rows`` as ``style`` (table, json, jsonl or csv) and return their number.

    Columns of text are cut so that a table fits ``width`` cells, if possible; None does not limit the width.
    """
    counted = _CountedRows(rows)
    if style == "table":
        _table(out, columns, counted, width, glyphs)
    elif style == "csv":
        _csv(out, columns, counted)
    else:
        _json(out, columns, counted, lines=style == "jsonl")
    return counted.number


class _CountedRows:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.number = 0

    def __iter__(self) -> Iterator[Sequence[Any]]:
        for row in self._rows:
            self.number += 1
            yield row


def _json(out: TextIO, columns: Sequence[str], rows: Rows, *, lines: bool) -> None:
    """Write a JSON object for each row. With ``lines``, each object is on a line of its own; otherwise the
    objects are in one JSON list."""
    before = ("[\n", ",\n") if not lines else ("", "\n")
    at = -1
    for at, row in enumerate(rows):
        plain = {name: _plain(value) for name, value in zip(columns, row, strict=True)}
        out.write(before[at > 0] + json.dumps(plain, allow_nan=False))
    out.write(("\n" if at >= 0 else "") if lines else ("\n]\n" if at >= 0 else "[]\n"))


def _plain(value: Any) -> Cell:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(out: TextIO, columns: Sequence[str], rows: Rows) -> None:
    write_lines(out, chain([columns], (map(_plain, row) for row in rows)))


def _table(out: TextIO, columns: Sequence[str], rows: Rows, width: int | None, glyphs: Glyphs) -> None:
    rows = iter(rows)
    first = list(islice(rows, _MEASURED))
    heads = [printable(name) for name in columns]
    right = [
        all(isinstance(row[at], (int, float)) or row[at] is None for row in first) for at in range(len(heads))
    ]
    cell = _cell(glyphs)
    widths = [
        max(cell_len(head), *(cell_len(cell(row[at])) for row in first), 1) for at, head in enumerate(heads)
    ]
    if width is not None:
        widths = _narrowed(widths, right, width)
    for cells in chain(
        [heads, [glyphs.rule * width_ for width_ in widths]],
        ([cell(value) for value in row] for row in chain(first, rows)),
    ):
        fitted = (
            _fitted(text, width_, right=aligned, whole=aligned or width is None, glyphs=glyphs)
            for text, width_, aligned in zip(cells, widths, right, strict=True)
        )
        out.write(_BETWEEN.join(fitted).rstrip() + "\n")


def _fitted(text: str, width: int, *, right: bool, whole: bool, glyphs: Glyphs) -> str:
    """Return ``text``, padded or cut to the width of its column. With ``whole``, it is not cut."""
    missing = width - cell_len(text)
    if missing < 0 and not whole:
        return fit(text, width, glyphs)
    return " " * missing + text if right else text + " " * missing


def _cell(glyphs: Glyphs) -> Callable[[Any], str]:
    def cell(value: Any) -> str:
        if value is None:
            return glyphs.missing
        if isinstance(value, float):
            return _real(value)
        if isinstance(value, bytes):
            return f"({len(value)} bytes)"
        text = printable(str(value))
        return glyphs.plain(text)

    return cell


def _real(value: float) -> str:
    """Return a number with three decimals; a number below 0.1 (except 0) or from 1e12 on with four
    significant digits."""
    return f"{value:.3f}" if 0.1 <= abs(value) < 1e12 or value == 0 else f"{value:.4g}"


def _narrowed(widths: list[int], right: Sequence[bool], width: int) -> list[int]:
    """Return ``widths`` with narrower columns of text. The widest column is made narrower first, until all
    columns fit into ``width`` or no column can be cut further."""
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
