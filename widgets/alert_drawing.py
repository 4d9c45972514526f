"""Draws the lines of the list of problems and warnings."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from stalltop.model.text.figures import fit, middle
from stalltop.model.text.glyphs import Glyphs
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Part, printable

LEAST_NAME = 16
"""If a line is too long, ``AlertRow.name`` is cut, but it keeps at least this many cells."""
_LEAST = 8
"""A column that would be cut to fewer cells is left blank, because so few letters mean nothing."""
_CULPRIT = 36
"""Cells of the column with the culprit, in a list that is wide enough to show the fix after it."""
_TIGHT, _NARROW, _WIDE = 70, 100, 150
"""Widths in cells. Below ``_TIGHT`` the list leaves out the tenant that loses time; below ``_NARROW`` it
leaves out when open problems began; from ``_WIDE`` on it also shows the operation."""
_TIME = 14
"""Cells of ``since 12:03:44``."""


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One line: either ``text`` alone, or ``title`` and the fields after it, each in a column of its own."""

    key: Hashable
    mark: str
    """One character that shows the severity without a colour."""
    role: str
    """Name of the palette's style that shows the severity."""
    text: str = ""
    name: str = ""
    """A part of ``text``, such as a path. If the line is too long, this part is cut first, in its middle."""
    title: str = ""
    who: str = ""
    lost: str = ""
    """The time lost, with its unit, such as ``412ms/s``."""
    lost_role: str = "text"
    """Name of the palette's style for ``lost`` (``brightness``). The dim line of a problem that ended does
    not use it."""
    where: str = ""
    """The operation that is slow."""
    culprit: str = ""
    since: str = ""
    fix: str = ""
    """The fix. It shows only where the list is wide enough."""
    ended: str = ""
    """When the problem ended. The line is dim if this is set."""


class AlertDrawing:
    """Draws lines of the list in the styles of ``paint``."""

    def __init__(self, glyphs: Glyphs, paint: Palette) -> None:
        self._glyphs = glyphs
        self._paint = paint

    def line(self, row: AlertRow, width: int, over: Style | None) -> list[Part]:
        """Return the parts of the line of ``row``. ``over`` is the style of the cursor; None: without the
        cursor."""
        paint = self._paint
        role: Style = getattr(paint, row.role)
        mark_style = role if over is None or role.bgcolor else role + over
        parts: list[Part] = [
            (self._glyphs.cursor if over is not None else " ", over),
            (row.mark, mark_style),
            (" ", over),
        ]
        room = max(width - 3, 0)
        if row.text:
            text = _sentence(row, room, self._glyphs)
            return [*parts, (text, (role + over) if over is not None else role)]
        plain = paint.dim if row.ended else paint.text
        dim, loud = paint.dim, (paint.dim if row.ended else role if not role.bgcolor else paint.bad)
        lost: Style = plain if row.ended else getattr(paint, row.lost_role)
        for text, wide, style in _columns(row, room, plain, dim, loud, lost):
            parts.append((fit(printable(text), wide, self._glyphs), style + over if over else style))
            parts.append((" ", over))
        return parts


def _columns(
    row: AlertRow, width: int, plain: Style, dim: Style, loud: Style, lost: Style
) -> list[tuple[str, int, Style]]:
    """Return (text, cells, style) for each column, left to right. Columns and the blanks between them
    take ``width`` cells."""
    if width < _NARROW:
        return _narrow(row, width, plain, dim, loud, lost)
    columns = [(row.title, 36, loud), (row.who, 18, plain), (row.lost, 8, lost)]
    if width >= _WIDE:
        columns.append((row.where, 26, plain))
    since = f"ended {row.ended}" if row.ended else f"since {row.since}" if row.since else ""
    rest = width - sum(wide + 1 for _, wide, _ in columns) - _TIME - 1
    helps = max(rest - 1 - _CULPRIT, 0) if width >= _WIDE else 0
    columns.append((row.culprit, rest - 1 - helps, plain))
    if helps:
        columns.append((row.fix, helps - 1, dim))
    return [*columns, (since, _TIME, dim)]


def _narrow(
    row: AlertRow, width: int, plain: Style, dim: Style, loud: Style, lost: Style
) -> list[tuple[str, int, Style]]:
    """Return (text, cells, style) for each column of a list narrower than ``_NARROW`` cells, left to right.

    From ``_TIGHT`` cells on, the line of a problem that ended shows when it ended, in place of the time lost.
    Below ``_TIGHT`` the tenant is left out; in still fewer cells the culprit is left out too.
    """
    rest = width - 30 - 1 - 8 - 1
    if rest < 8:
        return [(row.title, max(width - 9, 1), loud), (row.lost, 8, lost)]
    if width < _TIGHT:
        return [(row.title, 30, loud), (row.lost, 8, lost), (row.culprit, rest, plain)]
    rest -= 13
    columns = [(row.title, 30, loud), (row.who, 12, plain)]
    if row.ended:
        when = (f"ended {row.ended}", _TIME, dim)
        return [*columns, when, (row.culprit, rest + 8 - _TIME, plain)]
    return [*columns, (row.lost, 8, lost), (row.culprit, rest, plain)]


def _sentence(row: AlertRow, room: int, glyphs: Glyphs) -> str:
    text = printable(row.text)
    if row.name and cell_len(text) > room:
        name = printable(row.name)
        short = max(cell_len(name) - (cell_len(text) - room), LEAST_NAME)
        if short < cell_len(name):
            text = text.replace(name, middle(name, short, glyphs), 1)
    return fit(text, min(cell_len(text), room), glyphs)


def padded(parts: list[Part], width: int, fill: Style | None, glyphs: Glyphs) -> list[Part]:
    """Cut or pad ``parts`` to exactly ``width`` cells. A part that would be cut to fewer than ``_LEAST``
    cells becomes blanks."""
    kept: list[Part] = []
    for text, style in parts:
        length = cell_len(text)
        if length > width:
            kept.append((fit(text if width >= _LEAST else "", width, glyphs), style))
            return kept
        kept.append((text, style))
        width -= length
    return [*kept, (" " * width, fill)]
