"""Writes a window as a text report: facts, problems with their fixes, the table that the screen shows, and
other tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stalltop.formats.tables.sheet import Sheet, others, sheet_lines
from stalltop.formats.text import chains as chain_text
from stalltop.formats.text.window import facts, remarks
from stalltop.model.chain import worst_first
from stalltop.model.text.figures import moment, printable
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.style import Style
from stalltop.model.window import Window

LEAST_WIDTH: Final = 80
"""Least width of a report, in cells."""
MOST_ROWS: Final = 40
"""Maximum number of rows of a table. Only the table that the screen shows has all its rows."""


def report(window: Window, shown: Sheet | None = None, *, width: int = LEAST_WIDTH, glyphs: Glyphs) -> str:
    """Return the report of ``window``, about ``width`` cells wide. It ends in a newline. ``shown`` is the
    table that the screen shows. With ``ASCII`` glyphs the report is ASCII."""
    style = Style(max(width, LEAST_WIDTH), False, glyphs)
    parts = [[*facts(window, style), f"began {moment(window.start)}"]]
    chains = sorted(window.chains, key=worst_first)
    parts += [chain_text.explained(chain, window, style) for chain in chains]
    parts += [_table(shown, style)] if shown is not None else []
    for table in others(window, shown):
        more = len(table.rows) - MOST_ROWS
        parts.append(_table(replace(table, rows=table.rows[:MOST_ROWS]), style))
        parts[-1] += [f"and {more} more"] if more > 0 else []
    parts += remarks(window, style)
    text = "\n\n".join("\n".join(printable(line) for line in part) for part in parts if part)
    return text + "\n"


def _table(table: Sheet, style: Style) -> list[str]:
    return [style.plain(table.title), *(sheet_lines(table, style) if table.rows else ["no row"])]
