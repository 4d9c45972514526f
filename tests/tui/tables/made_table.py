"""Makes the table of a window, and reads the figures in the table."""

from __future__ import annotations

from stalltop.model.window import Window
from stalltop.tui.columns.catalogue import IDS
from stalltop.tui.tables.table import table
from stalltop.tui.views.groups import Key
from stalltop.tui.views.view import View
from stalltop.widgets.table import TableData


def look(one: Window, view: View, width: int = 240, **rest: object) -> TableData:
    return table(one, view, width=width, **rest)  # type: ignore[arg-type]


def look_at_all(one: Window, view: View) -> TableData:
    """Return the table with all columns whose data exists."""
    return look(one, view, chosen=IDS)


def figures(data: TableData) -> list[tuple[Key, dict[str, str]]]:
    """Return the key of each row, and the figures of the row that do not depend on other rows."""
    found = []
    for row in data.rows:
        texts = {column.id: cell.text for column, cell in zip(data.columns, row.cells, strict=True)}
        assert isinstance(row.key, tuple)
        found.append(
            (row.key, {name: texts[name] for name in ("calls", "p50", "p99", "total", "errors", "n")})
        )
    return found
