"""The dialogue in which the user chooses the graphs of the main screen."""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding

from stalltop.model.text.glyphs import Glyphs
from stalltop.tui.graphs.choice import toggled
from stalltop.tui.graphs.figures import FIGURES, MOST
from stalltop.tui.keys.actions import bindings
from stalltop.tui.screens.bases import AppScreen
from stalltop.tui.settings.settings import AUTO, NONE
from stalltop.widgets.drawing.frame import PanelFrame
from stalltop.widgets.table import Cell, Column, Table, TableData, TableRow

WIDTH = 80
"""Cells of the dialogue, with its frame."""
ENTRIES = (
    (AUTO, "automatic", "Why the first problem happens, or a row; graphs that fit"),
    *((figure.id, figure.title, figure.about) for figure in FIGURES),
    (NONE, "none", "No graphs: tables take all lines"),
)
"""The id, the name and the description of each entry, in the order of the list."""


def listed(chosen: tuple[str, ...], glyphs: Glyphs, *, width: int) -> TableData:
    """Return the list of all entries for ``width`` cells, those that are ``chosen`` marked."""
    rows = []
    for name, title, about in ENTRIES:
        sign, role = (glyphs.chosen, "text") if name in chosen else (" ", "dim")
        rows.append(TableRow(name, (Cell(f"{sign} {title}", role), Cell(about, role)), title))  # type: ignore[arg-type]
    return TableData(
        title=((f"Graphs, at most {MOST}", "head"),),
        columns=(
            Column("graph", "GRAPH", 26, right=False, fixed=True, most=26),
            Column("about", "WHAT IT SHOWS", max(width - 29, 8), right=False, fixed=True),
        ),
        rows=tuple(rows),
        legend=(("Space choose  Enter close", "dim"),),
    )


class GraphList(Table, can_focus=True):
    """The list of figures, with the keys of tables."""

    BINDINGS = bindings("table", "move", "page", "end", "choose")


class GraphScreen(AppScreen):
    """Shows all figures that a graph can have. Each change takes effect at once."""

    ALLOW_SELECT = False
    BINDINGS = [
        Binding("escape,q,7", "close", show=False),
        Binding("space", "switch", show=False),
    ]

    def __init__(self, chosen: tuple[str, ...], tell: Callable[[tuple[str, ...]], None]) -> None:
        """After each change, ``tell`` is called with the current choice: ids of figures, ``AUTO`` or
        ``NONE``. ``chosen`` is the first choice."""
        super().__init__()
        self._chosen = chosen
        self._tell = tell

    @property
    def list(self) -> GraphList:
        """Return the list on this screen."""
        return self.query_one(GraphList)

    def compose(self) -> ComposeResult:
        """Yield the list."""
        yield GraphList("graph-list")

    def on_mount(self) -> None:
        """Show the list. The cursor is on the first entry that is chosen."""
        self.list.frame = PanelFrame("corner", sides=True, bottom=True)
        self.list.styles.height = len(ENTRIES) + 3
        self.list.focus()
        self._show()
        self.list.put_cursor(self._chosen[0] if self._chosen else None)

    def _show(self) -> None:
        width = min(self.app.size.width, WIDTH) - self.list.frame.columns
        self.list.show(listed(self._chosen, self.stalltop.glyphs, width=width))

    def action_switch(self) -> None:
        """Choose the entry under the cursor; if it is chosen already, undo that."""
        self._chosen = toggled(self._chosen, str(self.list.cursor_key))
        self._tell(self._chosen)
        self._show()

    @on(Table.RowChosen)
    def action_close(self) -> None:
        """Return to the main screen."""
        self.dismiss()
