"""Draws the lines of a table: the title, the column heads and the rows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from stalltop.model.text.figures import fit, middle
from stalltop.model.text.glyphs import Glyphs
from stalltop.widgets.drawing.frame import FrameEdge
from stalltop.widgets.drawing.magnitude import UNSURE, coarser
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import PLAIN, Line, Part, cells, line_of, printable
from stalltop.widgets.table_data import Cell, Column, Role, TableData, TableRow

Head = tuple[int, int, str]
"""The head of a column on the screen: its first cell, the cell after its last one, and the column's id."""


@dataclass(frozen=True, slots=True)
class ColumnsInView:
    """The columns that fit into the width of a table."""

    columns: Sequence[tuple[int, Column, int]]
    """(index, column, width) of each visible column, left to right."""
    side: int
    """How many columns are scrolled out of view at the left."""
    more_left: bool
    """Whether columns are hidden at the left."""
    more_right: bool
    """Whether columns are hidden at the right."""


def in_view(data: TableData, width: int, side: int, *, reveal: bool = False) -> ColumnsInView:
    """Return the columns that fit into ``width`` cells after scrolling sideways by ``side`` columns.

    With ``reveal`` scroll as far as needed to show the column by which the rows are sorted.
    """
    columns = list(enumerate(data.columns))
    fixed = [(i, c, c.width) for i, c in columns if c.fixed]
    others = [(i, c, c.width) for i, c in columns if not c.fixed]
    room = width - 1 - sum(w + 1 for _, _, w in fixed)
    # Scrolling ends where the last column becomes visible.
    last = len(others) - 1
    needed = 0
    while last >= 0 and needed + others[last][2] + 1 <= room:
        needed += others[last][2] + 1
        last -= 1
    if reveal:
        side = _seen(others, data.sort, side, room)
    side = min(side, last + 1)
    fitting: list[tuple[int, Column, int]] = []
    for index, column, wide in others[side:]:
        if room < wide + 1:
            break
        fitting.append((index, column, wide))
        room -= wide + 1
    more_right = side + len(fitting) < len(others)
    if fixed:
        index, column, wide = fixed[0]
        wide += max(room, 0)
        fixed[0] = (index, column, min(wide, column.most) if column.most else wide)
    return ColumnsInView(fixed + fitting, side, side > 0, more_right)


class TableDrawing:
    """Draws ``data`` in lines of ``width`` cells."""

    def __init__(self, data: TableData, width: int, glyphs: Glyphs, paint: Palette, *, focused: bool) -> None:
        """``focused``: the table has the keyboard focus."""
        self._data = data
        self._width = width
        self._glyphs = glyphs
        self._paint = paint
        self._focused = focused
        self._known: dict[tuple[Role, bool], tuple[Style | None, Style | None]] = {}
        """The results of ``_looks``; by role, and whether the row is without the cursor."""

    def edge(self, badge: str, hints: Sequence[tuple[str, Role]], top: int, page: int) -> FrameEdge:
        """Return the texts on the top edge of the table's frame: ``badge`` and the title, ``hints``, and the
        legend. If there are more than ``page`` rows, also return which rows are in view: those from number
        ``top`` on."""
        paint, rows = self._paint, len(self._data.rows)
        title: list[Part] = [(badge, paint.label)] if badge else []
        for text, role in self._data.title:
            style = paint.label if role == "head" and not self._focused else self._style(role)
            title.append((text, style))
        legend = [(text, self._style(role)) for text, role in self._data.legend if text != " "]
        keys = [(text, self._style(role)) for text, role in hints]
        of = "/" if legend else " of "  # with a legend there is less room
        position = f"{top + 1}-{min(top + page, rows)}{of}{rows}" if rows > page else ""
        return FrameEdge(title, keys, legend, [(position, paint.dim)] if position else ())

    def title(self, top: int, page: int) -> Line:
        """Return the title. If the table has more than ``page`` rows, the title line shows which rows are in
        view: those from number ``top`` on."""
        width, paint, rows = self._width, self._paint, len(self._data.rows)
        position = ""
        if rows > page:
            position = f" {top + 1}-{min(top + page, rows)} of {rows} "
        parts: list[Part] = [(" ", None)]
        for text, role in self._data.title:
            style = self._style(role)
            if role == "head" and not self._focused:
                style = paint.label
            parts.append((printable(text), style))
        used = sum(cell_len(text) for text, _ in parts)
        if position and used + len(position) > width:
            room = max(width - len(position), 0)
            parts = [(text, style) for text, style in _cut(parts, room, self._glyphs)]
            used = room
        legend = [(text, self._style(role)) for text, role in self._data.legend]
        room = width - used - len(position) - sum(cell_len(text) for text, _ in legend)
        if room >= 3:
            parts += [(" " * room, None), *legend, (position, paint.dim)]
        else:
            parts.append((position.rjust(width - used), paint.dim))
        return line_of(parts, width)

    def head(self, shown: ColumnsInView) -> tuple[Line, list[Head]]:
        """Return the line of column heads, and where each head is."""
        width, paint, glyphs = self._width, self._paint, self._glyphs
        mark = glyphs.down if self._data.descending else glyphs.up
        text_parts: list[Part] = [(glyphs.left if shown.more_left else " ", paint.label)]
        heads: list[Head] = []
        at = 1
        for _, column, wide in shown.columns:
            title, style = column.title, paint.label
            if column.id == self._data.sort:
                title = mark + title if column.right else title + mark
                style = paint.head
            if column.right and cell_len(title) == wide + 1 and text_parts[-1][0] == " " and at > 1:
                text_parts.pop()  # the mark replaces the blank between two columns
                text_parts.append((title, style))
            else:
                title = title[:wide].rjust(wide) if column.right else title[:wide].ljust(wide)
                text_parts.append((title, style))
            text_parts.append((" ", paint.label))
            heads.append((at, at + wide, column.id))
            at += wide + 1
        if shown.more_right:
            text_parts[-1] = (" " * (width - at) + glyphs.right, paint.accent)
        return line_of(text_parts, width, paint.label), heads

    def row(self, row: TableRow, shown: ColumnsInView, *, cursor: bool) -> Line:
        """Return the line of ``row``. ``cursor``: the cursor is on it."""
        width, paint = self._width, self._paint
        marked = cursor and self._focused
        over = paint.cursor if marked else None
        # The row of the cursor begins with an arrow in the table that has the focus, with a dot in other
        # tables.
        glyphs = self._glyphs
        sign = glyphs.cursor if marked else glyphs.place
        parts: list[Part] = [(sign if cursor else " ", over or paint.dim)]
        replaced = self._replaced(row, shown) if row.across is not None else range(0)
        for place, (index, column, wide) in enumerate(shown.columns):
            cell = row.cells[index]
            if place in replaced:
                if place > replaced.start or row.across is None:
                    continue
                room = sum(one + 1 for _, _, one in shown.columns[replaced.start : replaced.stop]) - 1
                text = " " + printable(row.across.text)
                parts.append((text + " " * (room - cell_len(text)), self._under(row.across.role, over)))
            elif cell.parts:
                parts += [(text, self._under_piece(role, over)) for text, role in cell.parts]
            elif place == 0:
                mark = row.mark if wide > 4 else None
                room, whole = wide - 2 if mark else wide, printable(cell.text)
                text = (middle if column.ends_differ else fit)(whole, room, glyphs)
                cut = column.ends_differ and not text.startswith(whole)
                said = "" if row.told is None else f"  {printable(row.told.text)} "
                free = room - cell_len(whole) - cell_len(said)
                if row.told is not None and free >= 0:
                    text = whole + " " * free
                parts += _emphasized(text, () if cut else cell.found, self._looks(cell.role, over)[0])
                if row.told is not None and free >= 0:
                    parts.append((said, self._under(row.told.role, over)))
                if mark is not None:
                    parts.append((" ", over))
                    parts.append((fit(mark.text, 1), self._under(mark.role, over)))
                if (second := row.second_mark) is not None:
                    parts.append((fit(second.text, 1), self._under(second.role, over)))
                    continue
            else:
                self._add(parts, cell, column, wide, over)
                continue
            parts.append((" ", over))
        return line_of(parts, width, over)

    def _replaced(self, row: TableRow, shown: ColumnsInView) -> range:
        """Return the places in ``shown`` of the cells that ``row.across`` replaces: the widest run of cells
        without a figure; none if it is too narrow."""
        assert row.across is not None
        best, width, start, wide_now = range(0), 0, 1, 0
        for place, (index, _, wide) in enumerate(shown.columns):
            cell = row.cells[index]
            empty = place > 0 and cell.text.strip() in ("", self._glyphs.missing)
            if not empty or (cell.parts and "".join(text for text, _ in cell.parts).strip()):
                start, wide_now = place + 1, 0
                continue
            wide_now += wide + 1
            if wide_now > width:
                best, width = range(start, place + 1), wide_now
        return best if cell_len(printable(row.across.text)) + 1 < width else range(0)

    def _add(self, parts: list[Part], cell: Cell, column: Column, wide: int, over: Style | None) -> None:
        """Add the text of ``cell`` to ``parts``, ``wide`` cells wide, and the blank after it. ``cell.parts``
        must be empty."""
        text = printable(cell.text)
        style, blank = self._looks(cell.role, over)
        if cell.unsure:
            text = text.lstrip()
            if cells(text) + len(UNSURE) > wide:
                text = coarser(text)  # few calls do not support three digits
            free = wide - cells(text) - len(UNSURE)
            if free < 0:
                parts.pop()  # the sign replaces the blank between two columns
            # The sign is dim, so that the eye separates two columns without a blank between them.
            parts += [(" " * free, over), (UNSURE, self._looks("dim", over)[0])]
            text = fit(text, min(cells(text), wide), self._glyphs)
        else:
            blanks = wide - cells(text) if column.right else 0
            text = " " * blanks + text if blanks > 0 else fit(text, wide, self._glyphs)
        parts += [(text, style), (" ", blank)]

    def _looks(self, role: Role, over: Style | None) -> tuple[Style | None, Style | None]:
        """Return the styles of ``role`` and of the blank after it (``over`` as in ``_under``)."""
        known = self._known.get((role, over is None))
        if known is None:
            style = self._under(role, over)
            # The blank has the style of its cell, so that both become one piece, unless that style is visible
            # on blanks (a background or a line).
            seen = style is None or style.bgcolor or style.reverse or style.underline
            known = self._known[role, over is None] = style, over if seen else style
        return known

    def _under(self, role: Role, over: Style | None) -> Style | None:
        """Return the style of ``role``, combined with ``over``, the style of the cursor; ``over`` is None in
        a row without the cursor."""
        # Text without a style becomes one segment with the blanks around it.
        style = None if role in ("", "text") else self._style(role)
        if over is None:
            return style
        if style is None or over.reverse:
            return over
        if role == "critical":
            return style
        if role in ("warn", "bad"):
            return over + Style(color=style.color)  # warnings keep their colour under the cursor
        return style + over

    def _under_piece(self, role: Role, over: Style | None) -> Style:
        """Return the style of ``role`` for a piece of a drawing, on the ground of the cursor's row ``over``
        unless the piece has a ground of its own."""
        style = self._style(role)
        if over is None or over.bgcolor is None or style.bgcolor is not None:
            return style
        return style + Style(bgcolor=over.bgcolor)

    def _style(self, role: Role) -> Style:
        style: Style = getattr(self._paint, role or "text")
        return style

    def without_rows(self) -> list[Line]:
        """Return the lines below the heads of a table without rows."""
        lines = without_rows(self._data.empty, self._width)
        return [line_of([(line, self._paint.dim)], self._width) for line in lines]


def without_rows(empty: Sequence[str], width: int) -> list[str]:
    """Return the lines below the heads of a table of ``width`` cells that has no rows, with the text
    ``empty``."""
    parts = (part for line in empty for part in textwrap.wrap(printable(line), max(width - 6, 10)))
    return ["", *("   " + part for part in parts)]


_FOUND = Style(bold=True, underline=True)
"""Added to the style of letters that the filter found. It is visible without colours too."""


def _emphasized(text: str, spans: Sequence[tuple[int, int]], style: Style | None) -> list[Part]:
    """Split ``text`` into parts in ``style``; the letters in ``spans`` stand out."""
    parts: list[Part] = []
    at = 0
    for start, end in spans:
        parts += [(text[at:start], style), (text[start:end], (style or PLAIN) + _FOUND)]
        at = end
    parts.append((text[at:], style))
    return parts


def _seen(columns: Sequence[tuple[int, Column, int]], wanted: str, side: int, room: int) -> int:
    """Return the first column to show, as near to ``side`` as possible, so that column ``wanted`` fits in
    ``room`` cells."""
    at = next((at for at, (_, column, _) in enumerate(columns) if column.id == wanted), None)
    if at is None:
        return side
    first, used = at, columns[at][2] + 1
    while first > 0 and used + columns[first - 1][2] + 1 <= room:
        first -= 1
        used += columns[first][2] + 1
    return min(max(side, first), at)


def _cut(parts: Sequence[Part], room: int, glyphs: Glyphs) -> list[Part]:
    """Cut ``parts`` to ``room`` cells, or fill them up with blanks."""
    kept: list[Part] = []
    for text, style in parts:
        length = cell_len(text)
        if length > room:
            kept.append((fit(text, room, glyphs), style))
            return kept
        kept.append((text, style))
        room -= length
    kept.append((" " * room, None))
    return kept
