"""The tables of the main screen: what each shows, and which of them are shown."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from stalltop.model.chain import Chain
from stalltop.model.merge.packing import Packed
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.telling import NO_TELLINGS, Tellings
from stalltop.model.window import Window
from stalltop.tui.columns.choice import sort_of
from stalltop.tui.columns.held_needs import HeldNeeds
from stalltop.tui.keys import actions
from stalltop.tui.keys.footer import GROUPED_BY, SPELT_FROM
from stalltop.tui.past.moments import Picture
from stalltop.tui.past.times import changes_text
from stalltop.tui.problems.culprit_rows import culprit_rows
from stalltop.tui.problems.rows import row_losses
from stalltop.tui.screens.steady import Steady
from stalltop.tui.tables.picking import Pair, Picking
from stalltop.tui.tables.room import GroupTable, Panel, TableRoom
from stalltop.tui.tables.sizes import TableNeeds, TablesLayout
from stalltop.tui.tables.table import CULPRIT, available, steps_to, table
from stalltop.tui.tables.table_views import TableViews
from stalltop.tui.tables.worst_first import WorstFirst
from stalltop.tui.views.path import PathStep
from stalltop.tui.views.trends import NO_TRENDS, RowTrends
from stalltop.tui.views.view import PLURAL, View
from stalltop.widgets.table import Role, Table, TableData

NAMED_FROM: Final = 76
"""Least width in cells of a first table whose frame names what its keys group by, unless the line of keys
does."""
_CAUSES: Final = " culprit"
"""What the title of a table with culprits says about their mark."""
_STARTING: Final = ("calls are counted from the next second on", "the first verdict takes some seconds more")
"""What the first table shows before there is data."""
_GROWN: Final = 1.3
"""If a window is this many times as long as the one before, as in the first seconds of tracing, the lines
that tables needed before do not count: rows of so few calls come and go."""
_NO_NORMALS: Mapping[RowKey, tuple[int, int]] = {}


class Tables(Panel):
    """Shows a window in one to three tables. Other widgets may stand among them."""

    @dataclass
    class MessageWanted(Message):
        """Asks the main screen to show a message about a pressed key."""

        text: str

    class ViewChanged(Message):
        """Reports that the view of a table, or its picked row, changed."""

    def __init__(self, widget_id: str, among: Sequence[Widget] = ()) -> None:
        """``among`` are widgets that ``lay_out`` places among the tables, by their ids."""
        super().__init__(id=widget_id)
        self._among = tuple(among)
        self.main, self.second, self.third = GroupTable("main"), GroupTable("second"), GroupTable("third")
        """The tables in order. The second and the third one may be hidden."""
        self.room = TableRoom(self, self.main, self.second, self.third)
        self.fit: Callable[[], object] = lambda: None
        """Called after the content of tables changed; calls ``lay_out`` with the sizes that they need now."""
        self.keys_elsewhere = False
        """Whether the user types into a line of text, which keeps the focus."""
        self.views = TableViews()
        self.picking = Picking()
        self.window: Window | None = None
        self._present: Window | None = None
        """The window that is shown; None if there is no data yet."""
        self.tellings: Tellings = NO_TELLINGS
        """The words for each cause."""
        self._worst = WorstFirst()
        self._needs = HeldNeeds()
        self._chains: tuple[Chain, ...] = ()
        self._several = Steady()
        self._alike = False
        """Whether a table of processes would repeat a table of containers."""
        self._past = RowTrends()
        self._looks_back = False
        self.against: Picture | None = None
        """The moment that rows are compared with; None if rows are not compared."""
        self._behind: tuple[View, Hashable, int] | None = None
        """Set while the second or the third table is enlarged in place of the first: the view and the cursor
        of the first table, and the index of the enlarged one in ``others``."""

    def compose(self) -> ComposeResult:
        """Yield the tables in order, and the other widgets."""
        yield from self.all
        yield from self._among

    def on_mount(self) -> None:
        """Hide all but the first table until there is room for them, and say what the first one waits for."""
        self.main.show(TableData((("containers", "head"),), empty=_STARTING))
        for widget in (*self.others, *self._among):
            widget.display = False

    @property
    def all(self) -> tuple[GroupTable, GroupTable, GroupTable]:
        """Return the three tables, hidden ones too."""
        return self.main, self.second, self.third

    @property
    def others(self) -> tuple[GroupTable, GroupTable]:
        """Return the second and the third table."""
        return self.second, self.third

    # ---- drawing

    def show(
        self,
        window: Window | None,
        chains: Sequence[Chain],
        against: Picture | None = None,
        past: Sequence[Packed] = (),
        normals: Mapping[RowKey, tuple[int, int]] = _NO_NORMALS,
        present: Window | None = None,
    ) -> None:
        """Show ``window``, or with ``against`` what changed since that moment.

        Rows of ``chains`` (the worst first) are marked. ``past``: earlier windows, oldest first. ``normals``:
        the baselines of rows; a window of the past does not contain them. ``present``: the newest part of
        ``window``; None: ``window`` itself.
        """
        if (against is None) != (self.against is None):
            # The order of the rows changes. In tables without the focus the cursor moves to the new first
            # row.
            for widget in self.all:
                if not widget.has_focus:
                    widget.put_cursor(None)
        if window is not None and not window.normals:
            window = replace(window, normals=normals)
        if window is not None and self.window is not None and window.seconds > _GROWN * self.window.seconds:
            self.room.forget_lines()
        self.window, self._chains, self.against = window, tuple(chains), against
        self._present = present
        self.views.comparing = against is not None
        self._looks_back = bool(past)
        if window is not None:
            self._past.follow(past, window.end)
            self._alike = not self._several.need(_have_several(window), window.end)
        self.redraw()

    def lay_out(self, layout: TablesLayout) -> None:
        """Show the tables for which ``layout`` has room.

        If the tables take the whole screen while the second or the third one has the focus, that table takes
        the place of the first one until the other panels are shown again.
        """
        back = self._bring_back() if not layout.alone else None
        besides = self._besides()
        shown = layout.names
        at = next((at for at, widget in enumerate(self.others) if widget.has_focus), None)
        if at is not None and str(self.others[at].id) not in shown:
            if at < len(besides) and layout.alone:
                self._behind = (self.views.first, self.main.chosen_key, at)
                self.views.first = self.views.of_other(at, besides[at])
                self.main.put_cursor(self.others[at].chosen_key)
                self.room.forget_lines()
            self.main.focus()
        changed = self.room.place(layout)
        if self.window is not None:
            for widget, view in self.shown():
                if widget in changed:
                    widget.show(self.data(widget, view))
        if back is not None and self.others[back].display:
            self.others[back].focus()

    def needs(self) -> tuple[TableNeeds, TableNeeds, TableNeeds]:
        """Return what the tables need to show all of their content."""
        at = None if self.window is None else self.window.end
        # Without rows the other tables would only repeat why the first one has none.
        besides = self._besides() if self.main.data.rows else ()
        others = len(besides)
        for widget, (at, by) in zip(self.others, enumerate(besides), strict=False):
            if not widget.data.columns:  # it was never shown: what it needs must not be a guess
                widget.show(self.data(widget, self.views.of_other(at, by)))
        wanted = (True, *(number < others for number in range(len(self.others))))
        first, second, third = (
            self.room.needs(widget, at, wanted=one) for widget, one in zip(self.all, wanted, strict=True)
        )
        return first, second, third

    def _bring_back(self) -> int | None:
        """Undo the enlarging of the second or the third table.

        Returns the index of that table in ``others``; None if none was enlarged, or if its view has changed
        meanwhile.
        """
        if self._behind is None:
            return None
        (view, cursor, at), self._behind = self._behind, None
        if self.views.first.path != view.path or self.views.first.by not in self._besides(view)[at : at + 1]:
            return None
        self.views.others[at] = self.views.first
        self.others[at].put_cursor(self.main.chosen_key)
        self.views.first = replace(view, filter=self.views.first.filter, only=self.views.first.only)
        self.main.put_cursor(cursor)
        self.room.forget_lines()
        return at

    def _besides(self, view: View | None = None) -> tuple[Dimension, ...]:
        """Return the dimensions by which the second and the third table are grouped."""
        view = view or self.views.first
        devices = self.window.devices.devices if self.window is not None else ()
        known = any(device.processes for device in devices)
        found = view.besides(devices=known)
        if self._alike and {"container", "process"} <= {view.by, *found}:
            return found[:1]
        return found

    def redraw(self) -> None:
        """Fill the tables again."""
        if self.window is None:
            return
        pairs = self.shown()
        for widget, view in pairs:
            widget.show(self.data(widget, view))
        self._hint()
        self.fit()

    def _hint(self) -> None:
        """Show on the frame of the first table the keys that group its rows, the current one marked."""
        named = self.room.cells_of(self.main) >= NAMED_FROM and self.app.size.width < SPELT_FROM
        hints: list[tuple[str, Role]] = []
        for by in GROUPED_BY:
            hints += [("  " if named else " ", "")] if hints else []
            key, name = actions.key(by), PLURAL[by]
            hints.append((key, "head" if by == self.views.first.by else "accent"))
            if named:
                hints.append((name.removeprefix(key) if name.startswith(key) else f" {name}", "dim"))
        self.main.hints = tuple(hints)

    def data(self, widget: GroupTable, view: View) -> TableData:
        """Return the content that ``widget`` has when it shows ``view``."""
        assert self.window is not None
        against, view = self.against, self.views.in_order(view)
        found = row_losses(self._chains, self.window, view, self.tellings)
        culprits = culprit_rows(self._chains, self.window, view, self.main.glyphs) if against is None else {}
        past = self._past if self._looks_back else NO_TRENDS
        compared = None if against is None else against.window
        have = available(self.window, compared, past, loses=any(found.lost_ms_per_s.values()))
        data = table(
            self.window,
            view,
            width=self.room.cells_of(widget),
            glyphs=self.main.glyphs,
            letters=getattr(self.app, "letters", False),
            pictures=getattr(self.app, "pictures", True),
            # The mark of the picked row replaces that of a loss.
            marks=found.marks | self.picking.marks(view),
            lost=found.lost_ms_per_s,
            worst=self._worst,
            added=culprits,
            legend_shown=widget is self.room.for_legend() and against is None,
            against=compared,
            chosen=self.views.columns.get(view.by, ()),
            past=past,
            have=self._needs.hold(view.by, have, self.window.end),
            lines_free=self.room.rows_of(widget),
            loud=found.parts,
            present=self._present if against is None else None,
        )
        if against is None:
            if not culprits:
                return data
            worst = next(iter(culprits.values())).role
            return replace(data, title=(*data.title, (f"   {CULPRIT}", worst), (_CAUSES, "dim")))
        return replace(data, title=(*data.title, (changes_text(against), "warn")), legend=())

    @property
    def past(self) -> RowTrends:
        """Return the earlier figures of rows; ``NO_TRENDS`` if there is no past."""
        return self._past.copy() if self._looks_back else NO_TRENDS

    def shown(self) -> list[tuple[GroupTable, View]]:
        """Return the visible tables with their views."""
        pairs = [(self.main, self.views.first)]
        for at, by in enumerate(self._besides()):
            if self.others[at].display:
                pairs.append((self.others[at], self.views.of_other(at, by)))
        return pairs

    # ---- the views

    @property
    def way_out(self) -> str:
        """Return what a step back does, in a word; empty if there is none."""
        return "Unpick" if self.picking.unpicks(self.views.first) else self.views.way_out

    def look(self, view: View, *, cursor: object = None, top: bool = False) -> None:
        """Show ``view`` in the first table. Put the cursor on the row ``cursor``, or on the first row if
        ``top``."""
        self.views.first = view
        self.post_message(self.ViewChanged())
        self.room.forget_lines()
        if cursor is not None or top:
            self.main.put_cursor(cursor)
        self.redraw()

    def put_order(self, sort: str, descending: bool) -> None:
        """Sort the first table by the column ``sort``."""
        self.views.first = replace(self.views.first, sort=sort, descending=descending)
        self.redraw()

    def focus_main(self) -> None:
        """Focus the first table, unless the user types into a line of text."""
        if not self.keys_elsewhere:
            self.screen.set_focus(self.main)

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        column = sort_of(message.column)
        if column:
            self.change(lambda view: view.sorted_by(column), message.table)

    def change(self, change: Callable[[View], View], widget: Widget | None = None) -> None:
        """Apply ``change`` to the view of ``widget``, by default of the table that has the focus."""
        wanted = widget or self.screen.focused
        views = enumerate(self.shown())
        at, before = next(
            ((at, view) for at, (shown, view) in views if shown is wanted), (0, self.views.first)
        )
        self.views.change(at, before, change)
        self.room.forget_lines()
        self.redraw()

    def other(self) -> None:
        """Focus the next table."""
        shown = [widget for widget, _ in self.shown()]
        at = next((at for at, widget in enumerate(shown) if widget.has_focus), -1)
        shown[(at + 1) % len(shown)].focus()

    # ---- the row under the cursor

    def path_here(self) -> tuple[PathStep, ...]:
        """Return the path to the row under the cursor, with the row as its last step; empty if there are no
        rows."""
        widget, view = self.here
        key = widget.cursor_key
        if not isinstance(key, tuple):
            return ()
        path = steps_to(widget.data, view, key)
        parts = view.levels()[view.level_of(key)].by
        if "layer" in parts and all(step.dimension != "layer" for step in path):
            # operations of the same name in different layers have one row each
            layer = key[parts.index("layer")]
            path = (*path, PathStep("layer", layer, layer))
        return path

    @property
    def here(self) -> tuple[GroupTable, View]:
        """Return the table that has the focus, or else the first one, with its view."""
        views = self.shown()
        widget, view = next((pair for pair in views if pair[0].has_focus), views[0])
        return widget, self.views.in_order(view)

    def pick(self) -> Pair | None:
        """Pick the row under the cursor for a comparison. Returns the pair if this is the second row picked
        in its dimension, else None."""
        widget, view = self.here
        key = widget.cursor_key
        if not isinstance(key, tuple):
            return None
        found = self.picking.pick(steps_to(widget.data, view, key), view, key)
        if isinstance(found, str) and found:
            self.post_message(self.MessageWanted(found))
        self.post_message(self.ViewChanged())
        self.redraw()
        return None if isinstance(found, str) else found


def _have_several(window: Window) -> bool:
    """Return whether several processes of a container make calls. Otherwise a table of processes would repeat
    that of containers. Culprits do not count: they come and go, and the table with them."""
    made = {(key.tenant, key.pid) for key in window.rows.keys}
    made.update((call.tenant, call.pid) for call in window.open_calls if not call.ended)
    return len(made) > len({tenant for tenant, _ in made})
