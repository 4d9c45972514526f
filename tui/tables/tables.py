"""The tables of the main screen with their views, and the keys that change these views."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from textual import on
from textual.message import Message
from textual.widget import Widget

from stalltop.model.chain import Chain
from stalltop.model.merge.packing import Packed
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.window import Window
from stalltop.tui.chain.chains import keys_of, marks
from stalltop.tui.main.layout import ScreenLayout
from stalltop.tui.main.status import changes_text
from stalltop.tui.past.moments import Picture
from stalltop.tui.tables.columns.choice import sort_of
from stalltop.tui.tables.compare import Pair
from stalltop.tui.tables.groups import PathStep
from stalltop.tui.tables.picking import Picking
from stalltop.tui.tables.room import GroupTable, TableRoom
from stalltop.tui.tables.table import steps_to, table
from stalltop.tui.tables.table_views import TableViews
from stalltop.tui.tables.trends import NO_TRENDS, RowTrends
from stalltop.tui.tables.view import View
from stalltop.tui.tables.way_back import TablesBefore, WayBack
from stalltop.widgets.table import Table, TableData

_NO_NORMALS: Mapping[RowKey, tuple[int, int]] = {}


class Tables(TableRoom):
    """Shows a window in one to three tables."""

    @dataclass
    class MessageWanted(Message):
        """Asks the main screen to show a message about a pressed key."""

        text: str

    class ViewChanged(Message):
        """Tells that the view of a table, or its picked row, changed."""

    class Bottom(Message):
        """Tells that Enter was pressed on a row with no rows inside."""

    def __init__(self, widget_id: str) -> None:
        super().__init__(widget_id)
        self.keys_elsewhere = False
        """Whether the user types into a line of text, which keeps the focus."""
        self.views = TableViews()
        self.picking = Picking()
        self._way_back = WayBack()
        self._window: Window | None = None
        self._chains: tuple[Chain, ...] = ()
        self._past = RowTrends()
        self._looks_back = False
        self.against: Picture | None = None
        """The moment that rows are compared with; None if rows are not compared."""
        self._behind: tuple[View, Hashable, int] | None = None
        """Set while another table than the first is enlarged in place of the first: the view and the cursor
        of the first table, and the number of the enlarged one."""

    # ---- drawing

    def show(
        self,
        window: Window | None,
        chains: Sequence[Chain],
        against: Picture | None = None,
        past: Sequence[Packed] = (),
        normals: Mapping[RowKey, tuple[int, int]] = _NO_NORMALS,
    ) -> None:
        """Show ``window``, or with ``against`` what changed since that moment.

        Rows of ``chains`` (the worst first) are marked. ``past``: earlier windows, oldest first. ``normals``:
        the baselines of rows; a window of the past does not contain them.
        """
        if (against is None) != (self.against is None):
            # The order of the rows changes. In tables without the focus the cursor moves to the new first
            # row.
            for widget in (self.main, *self.others):
                if not widget.has_focus:
                    widget.put_cursor(None)
        if window is not None and not window.normals:
            window = replace(window, normals=normals)
        self._window, self._chains, self.against = window, tuple(chains), against
        self.views.comparing = against is not None
        self._looks_back = bool(past)
        if window is not None:
            self._past.follow(past, window.end)
        self.redraw()

    def lay_out(self, layout: ScreenLayout, *, share: int) -> None:
        """Show as many tables as fit; the first of two may take ``share`` percent of the room.

        If the panel of tables is enlarged while another table than the first has the focus, that table takes
        the place of the first one until the panel is no longer enlarged.
        """
        back = self._bring_back() if not layout.enlarged else None
        besides = self._besides()
        two = "second" in layout.shown and bool(besides)
        at = next((at for at, widget in enumerate(self.others) if widget.has_focus), None)
        if not two and at is not None:
            if at < len(besides) and layout.enlarged == "tables":
                self._behind = (self.views.first, self.main.chosen_key, at)
                self.views.first = self.views.of_other(at, besides[at])
                self.main.put_cursor(self.others[at].chosen_key)
            self.main.focus()
        self._layout, self._share, self._gives = layout, share, self.views.first.by != "operation"
        self.second.display = two
        self._stand_tables()
        if back is not None and self.others[back].display:
            self.others[back].focus()

    def _bring_back(self) -> int | None:
        """Undo the enlarging of a table other than the first.

        Returns the number of that table; None if none was enlarged, or if its view has changed meanwhile.
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
        return at

    def _besides(self, view: View | None = None) -> tuple[Dimension, ...]:
        """Return the dimensions of the tables next to the first one."""
        devices = self._window.devices.devices if self._window is not None else ()
        known = any(device.processes for device in devices)
        return (view or self.views.first).besides(devices=known)

    def _stand_tables(self) -> None:
        """Give each table its room. The third table is shown if there is room for it."""
        third, besides = self.third, self._besides()
        was = third.display
        self.share_room(third=len(besides) > 1)
        if third.display and not was and self._window is not None:
            third.show(self._data(third, self.views.of_other(1, besides[1])))
        elif not third.display and third.has_focus:
            self.main.focus()

    def redraw(self) -> None:
        """Fill the tables again."""
        if self._window is None:
            return
        pairs = self._views()
        for widget, view in pairs:
            widget.show(self._data(widget, view))
        self._stand_tables()

    def _data(self, widget: GroupTable, view: View) -> TableData:
        assert self._window is not None
        against, view = self.against, self.views.in_order(view)
        data = table(
            self._window,
            view,
            width=self.cells_of(widget),
            glyphs=self.main.glyphs,
            letters=getattr(self.app, "letters", False),
            pictures=getattr(self.app, "pictures", True),
            # The mark of the picked row replaces other marks.
            marks=marks(self._chains, self._window, view) | self.picking.marks(view),
            legend_shown=widget is self.main and against is None,
            against=None if against is None else against.window,
            chosen=self.views.columns.get(view.by, ()),
            past=self._past if self._looks_back else NO_TRENDS,
        )
        if against is None:
            return data
        return replace(data, title=(*data.title, (changes_text(against), "warn")), legend=())

    @property
    def past(self) -> RowTrends:
        """Return the earlier figures of rows; ``NO_TRENDS`` if there is no past."""
        return self._past.copy() if self._looks_back else NO_TRENDS

    def _views(self) -> list[tuple[GroupTable, View]]:
        """Return the visible tables with their views."""
        pairs = [(self.main, self.views.first)]
        for at, by in enumerate(self._besides()):
            if self.others[at].display:
                pairs.append((self.others[at], self.views.of_other(at, by)))
        return pairs

    # ---- what is looked at

    @property
    def way_out(self) -> str:
        """Return what ``out`` does, in a word; empty if it does nothing."""
        return "Unpick" if self.picking.unpicks(self.views.first) else self.views.way_out

    def put_order(self, sort: str, descending: bool) -> None:
        """Sort the first table by the column ``sort``."""
        self.views.first = replace(self.views.first, sort=sort, descending=descending)
        self.redraw()

    def focus_main(self) -> None:
        """Focus the first table, unless the user types into a line of text."""
        if not self.keys_elsewhere:
            self.screen.set_focus(self.main)

    def _look(self, view: View, *, cursor: object = None, top: bool = False) -> None:
        """Show ``view`` in the first table. Put the cursor on the row ``cursor``, or on the first row if
        ``top``."""
        self.views.first = view
        self.post_message(self.ViewChanged())
        self.lay_out(self._layout, share=self._share)
        self.forget_lines()
        if cursor is not None or top:
            self.main.put_cursor(cursor)
        self.redraw()
        if self.second.display:
            self.call_after_refresh(self.redraw)

    def pivot(self, by: Dimension) -> None:
        """Group the rows by ``by``."""
        self.focus_main()
        self.views.fold_others()
        self._look(self.views.first.pivoted(by), top=self.views.first.by != by)

    @on(Table.RowChosen)
    def _chosen(self, message: Table.RowChosen) -> None:
        """Go into the row that was chosen."""
        view = next((view for widget, view in self._views() if widget is message.table), self.views.first)
        data = message.table.data
        if data.find(message.key) is None or not isinstance(message.key, tuple):
            return
        path = steps_to(data, view, message.key)
        view = view.looking_at(path)
        inside = view.entered(path[-1].key, path[-1].label)
        if inside is view:
            self.post_message(self.Bottom())
            return
        message.table.put_cursor(message.key)
        self._remember(inside.path, message.table)
        self.focus_main()
        self._look(
            replace(inside, sort=self.views.first.sort, descending=self.views.first.descending), top=True
        )

    def _remember(self, inside: tuple[PathStep, ...], focused: Widget | None) -> None:
        """Remember the tables before a step to the path ``inside``, with the widget that has the focus."""
        widgets = (self.main, *self.others)
        first, second, third = (widget.chosen_key for widget in widgets)
        views = (self.views.others[0], self.views.others[1])
        focus = next((number for number, widget in enumerate(widgets) if widget is focused), 0)
        self._way_back.remember(TablesBefore(inside, self.views.first, views, (first, second, third), focus))
        self.views.fold_others()

    def out(self) -> None:
        """Go back to the tables before the last step; at the top unpick a row, or clear the filter."""
        if self.picking.unpicks(self.views.first):
            self.picking.let_go()
            self.post_message(self.ViewChanged())
            self.redraw()
            return
        path = self.views.first.path
        place = self._way_back.before(path)
        if place is not None:
            self.views.others = list(place.other_views)
            view = replace(place.view, filter=self.views.first.filter, only=self.views.first.only)
            self._look(view, cursor=place.cursors[0], top=True)
            for widget, cursor in zip(self.others, place.cursors[1:], strict=True):
                widget.put_cursor(cursor)
            focused = (self.main, *self.others)[place.focus]
            (focused if focused.display else self.main).focus()
        elif path:
            step = self.views.first.path[-1]
            view = self.views.first.left()
            found: object = None
            if self._window is not None:
                keys = [row.key for row in self._data(self.main, view).rows]
                found = next((key for key in keys if _part(key) == step.key), None)
            self._look(view, cursor=found, top=found is None)
        elif self.views.first.filter:
            self._look(replace(self.views.first, filter=""))
        elif self.views.first.only:
            self._look(replace(self.views.first, only=""))

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        column = sort_of(message.column)
        if column:
            self.change(lambda view: view.sorted_by(column), message.table)

    def change(self, change: Callable[[View], View], widget: Widget | None = None) -> None:
        """Apply ``change`` to the view of ``widget``, by default of the table that has the focus."""
        wanted = widget or self.screen.focused
        views = enumerate(self._views())
        at, before = next(
            ((at, view) for at, (shown, view) in views if shown is wanted), (0, self.views.first)
        )
        self.views.change(at, before, change)
        self.redraw()

    def other(self) -> None:
        """Focus the next table."""
        shown = [widget for widget, _ in self._views()]
        at = next((at for at, widget in enumerate(shown) if widget.has_focus), -1)
        shown[(at + 1) % len(shown)].focus()

    # ---- rows and chains

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
        views = self._views()
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

    def look_at(self, chain: Chain) -> None:
        """Put the cursor on the row that loses time because of ``chain``. Esc returns to the current
        tables."""
        window = self._window
        if window is None:
            return
        key = keys_of(chain, window)[0]
        find = window.tenants.get(key.tenant)
        view = View(sort=self.views.first.sort, descending=self.views.first.descending)
        cursor: Hashable = (key.tenant,)
        if key.operation and key.tenant:
            step = PathStep("container", key.tenant, find.name if find else key.tenant)
            view, cursor = replace(view, by="operation", path=(step,)), (key.operation, key.layer)
        if view.path != self.views.first.path:
            self._remember(view.path, self.here[0])
        self.focus_main()
        self._look(view, cursor=cursor)
        if self.main.cursor_key != cursor:
            self.post_message(self.MessageWanted("the row of the problem is not in this window"))


def _part(key: Hashable) -> str:
    """Return the name that the key of a row stands for: its first value."""
    return str(key[0]) if isinstance(key, tuple) else str(key)
