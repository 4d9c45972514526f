"""The tables of groups: how they look at the window, and what keys change of that."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from textual import on
from textual.message import Message
from textual.widget import Widget

from stalltop.model.chain import Chain
from stalltop.model.merge.packing import Packed
from stalltop.model.rows.pivot import Dimension
from stalltop.model.window import RowKey, Window
from stalltop.tui.chain.chains import chains_of, keys_of, marks
from stalltop.tui.main.layout import Layout
from stalltop.tui.main.status import changes_text
from stalltop.tui.past.moments import Picture
from stalltop.tui.tables.columns.choice import sort_of, sorts
from stalltop.tui.tables.groups import Key, Step
from stalltop.tui.tables.past import NO_PAST, Past
from stalltop.tui.tables.room import GroupTable, TableRoom
from stalltop.tui.tables.table import steps_to, table
from stalltop.tui.tables.view import View
from stalltop.tui.tables.way_back import Place, Places
from stalltop.widgets.table import Cell, Table, TableData

_NO_NORMALS: Mapping[RowKey, tuple[int, int]] = {}


class Tables(TableRoom):
    """Shows a window in tables."""

    @dataclass
    class Said(Message):
        """Something to tell about what a key did."""

        text: str

    class Looked(Message):
        """Something else is looked at."""

    class Bottom(Message):
        """Enter on a row with nothing below it."""

    def __init__(self, widget_id: str, *, unicode: bool) -> None:
        super().__init__(widget_id, unicode=unicode)
        self.keys_elsewhere = False
        """Keys go to a line that is being typed, and stay there."""
        self._view = View()
        self._other_views = [View(), View()]
        """How the second and the third table are sorted and unfolded; for the rest they go by the first."""
        self._places = Places()
        self._window: Window | None = None
        self._chains: tuple[Chain, ...] = ()
        self._past = Past()
        self._looks_back = False
        self.columns: dict[Dimension, tuple[str, ...]] = {}
        """Ids of the columns that were chosen, by what a table shows; the usual ones where there are none."""
        self._against: Picture | None = None
        self._against_sort = ("lost", True)
        """How tables of what changed are sorted."""
        self._behind: tuple[View, Hashable, int] | None = None
        """The first table, and its cursor, while another one is enlarged in its place; and which of them."""

    # ---- drawing

    def show(
        self,
        window: Window | None,
        chains: Sequence[Chain],
        against: Picture | None = None,
        past: Sequence[Packed] = (),
        normals: Mapping[RowKey, tuple[int, int]] = _NO_NORMALS,
    ) -> None:
        """Show ``window``, or what changed in it ``against`` another one; rows that ``chains`` (the worst
        first) speak of are marked. ``past``: windows to look back at, oldest first, if any; ``normals``: what
        is normal for rows, for a window of the past, which does not say."""
        if (against is None) != (self._against is None):
            # Another order of rows: where nobody is, its top is what matters.
            for widget in (self.main, *self.others):
                if not widget.has_focus:
                    widget.put_cursor(None)
        if window is not None and not window.normals:
            window = replace(window, normals=normals)
        self._window, self._chains, self._against = window, tuple(chains), against
        self._looks_back = bool(past)
        if window is not None:
            self._past.follow(past, window.end)
        self.redraw()

    def lay_out(self, layout: Layout, *, share: int) -> None:
        """Show as many tables as there is room for; the first of two may take ``share`` percent of it.

        Where tables are enlarged and the keys went to another one, it takes the place of the first until they
        no longer are.
        """
        back = self._bring_back() if not layout.enlarged else None
        besides = self._besides()
        two = "second" in layout.shown and bool(besides)
        at = next((at for at, widget in enumerate(self.others) if widget.has_focus), None)
        if not two and at is not None:
            if at < len(besides) and layout.enlarged == "tables":
                self._behind = (self._view, self.main.chosen_key, at)
                self._view = self._other(at, besides[at])
                self.main.put_cursor(self.others[at].chosen_key)
            self.main.focus()
        self._layout, self._share, self._gives = layout, share, self._view.by != "operation"
        self.second.display = two
        self._stand_tables()
        if back is not None and self.others[back].display:
            self.others[back].focus()

    def _bring_back(self) -> int | None:
        """Put the tables back where they were before another one was enlarged, and give which one that was;
        None where none was, or where something else is looked at by now."""
        if self._behind is None:
            return None
        (view, cursor, at), self._behind = self._behind, None
        if self._view.path != view.path or self._view.by not in self._besides(view)[at : at + 1]:
            return None
        self._other_views[at] = self._view
        self.others[at].put_cursor(self.main.chosen_key)
        self._view = replace(view, filter=self._view.filter, only=self._view.only)
        self.main.put_cursor(cursor)
        return at

    def _besides(self, view: View | None = None) -> tuple[Dimension, ...]:
        """What other tables show next to the first one."""
        devices = self._window.devices.devices if self._window is not None else ()
        known = any(device.processes for device in devices)
        return (view or self._view).besides(devices=known)

    def _stand_tables(self) -> None:
        """Give each table its room; a third one comes and goes with what there is of it."""
        third, besides = self.third, self._besides()
        was = third.display
        self.share_room(third=len(besides) > 1)
        if third.display and not was and self._window is not None:
            third.show(self._data(third, self._other(1, besides[1])))
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
        against, view = self._against, self._sorted(view)
        data = table(
            self._window,
            view,
            width=self.cells_of(widget),
            unicode=self.unicode,
            letters=getattr(self.app, "letters", False),
            pictures=getattr(self.app, "pictures", True),
            marks=self.marks(view),
            legend_shown=widget is self.main and against is None,
            against=None if against is None else against.window,
            chosen=self.columns.get(view.by, ()),
            past=self._past if self._looks_back else NO_PAST,
        )
        if against is None:
            return data
        return replace(data, title=(*data.title, (changes_text(against), "warn")), legend=())

    def marks(self, view: View) -> dict[Key, Cell]:
        """The marks of the rows of the table of ``view``."""
        return {} if self._window is None else marks(self._chains, self._window, view)

    @property
    def against(self) -> Picture | None:
        """What rows are compared with, if they are."""
        return self._against

    def _sorted(self, view: View) -> View:
        """``view`` in the order of tables of what changed, where it is one."""
        if self._against is None:
            return view
        sort, descending = self._against_sort
        return replace(view, sort=sort, descending=descending)

    def _views(self) -> list[tuple[GroupTable, View]]:
        """The tables on the screen and how each looks at the window."""
        pairs = [(self.main, self._view)]
        for at, by in enumerate(self._besides()):
            if self.others[at].display:
                pairs.append((self.others[at], self._other(at, by)))
        return pairs

    def _other(self, at: int, by: Dimension) -> View:
        """How the second (0) or third (1) table looks at the window."""
        view = self._view
        return replace(self._other_views[at], by=by, path=view.path, filter=view.filter, only=view.only)

    # ---- what is looked at

    @property
    def order(self) -> tuple[str, bool]:
        """Id of the column that the first table is sorted by, and whether the largest come first."""
        return self._view.sort, self._view.descending

    def put_order(self, sort: str, descending: bool) -> None:
        """Sort by the column ``sort``."""
        self._view = replace(self._view, sort=sort, descending=descending)
        self.redraw()

    @property
    def filter(self) -> str:
        """The filter of the rows."""
        return self._view.filter

    def put_filter(self, text: str) -> None:
        """Show rows that match ``text`` only."""
        self._view = replace(self._view, filter=text)
        self.redraw()

    @property
    def way_out(self) -> str:
        """What ``out`` does, in a word; empty: nothing."""
        view = self._view
        return "Back" if view.path else "Clear" if view.filter else "All rows" if view.only else ""

    def focus_main(self) -> None:
        """Keys go to the first table, unless a line is being typed."""
        if not self.keys_elsewhere:
            self.screen.set_focus(self.main)

    def _look(self, view: View, *, cursor: object = None, top: bool = False) -> None:
        """Look through ``view`` from now on; put the cursor on ``cursor``, or on the first row if ``top``."""
        self._view = view
        self.post_message(self.Looked())
        self.lay_out(self._layout, share=self._share)
        self.forget_lines()
        if cursor is not None or top:
            self.main.put_cursor(cursor)
        self.redraw()
        if self.second.display:
            self.call_after_refresh(self.redraw)

    def pivot(self, by: Dimension) -> None:
        """Group by ``by``."""
        self.focus_main()
        self._fold_others()
        self._look(self._view.pivoted(by), top=self._view.by != by)

    @on(Table.Chosen)
    def _chosen(self, message: Table.Chosen) -> None:
        """Go into a row."""
        view = next((view for widget, view in self._views() if widget is message.table), self._view)
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
        self._look(replace(inside, sort=self._view.sort, descending=self._view.descending), top=True)

    def _remember(self, inside: tuple[Step, ...], focused: Widget | None) -> None:
        """Keep the tables as they are before a step that leads ``inside``; the keys go to ``focused``."""
        widgets = (self.main, *self.others)
        first, second, third = (widget.chosen_key for widget in widgets)
        views = (self._other_views[0], self._other_views[1])
        focus = next((number for number, widget in enumerate(widgets) if widget is focused), 0)
        self._places.remember(Place(inside, self._view, views, (first, second, third), focus))
        self._fold_others()

    def _fold_others(self) -> None:
        self._other_views = [view.folded() for view in self._other_views]

    def out(self) -> None:
        """One step back, to the tables as they were; at the top, clear the filter."""
        path = self._view.path
        place = self._places.before(path)
        if place is not None:
            self._other_views = list(place.other_views)
            view = replace(place.view, filter=self._view.filter, only=self._view.only)
            self._look(view, cursor=place.cursors[0], top=True)
            for widget, cursor in zip(self.others, place.cursors[1:], strict=True):
                widget.put_cursor(cursor)
            focused = (self.main, *self.others)[place.focus]
            (focused if focused.display else self.main).focus()
        elif path:
            step = self._view.path[-1]
            view = self._view.left()
            found: object = None
            if self._window is not None:
                keys = [row.key for row in self._data(self.main, view).rows]
                found = next((key for key in keys if _part(key) == step.key), None)
            self._look(view, cursor=found, top=found is None)
        elif self._view.filter:
            self._look(replace(self._view, filter=""))
        elif self._view.only:
            self._look(replace(self._view, only=""))

    def sort(self, step: int) -> None:
        """Sort the table that has the keys by the next or previous column."""
        focused = self.here[0]
        self.change(lambda view: view.next_sort(step, sorts(focused.data.columns)))

    def reverse(self) -> None:
        """Turn its order round."""
        self.change(lambda view: replace(view, descending=not view.descending))

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        column = sort_of(message.column)
        if column:
            self.change(lambda view: view.sorted_by(column), message.table)

    def change(self, change: Callable[[View], View], widget: Widget | None = None) -> None:
        """Look through another view in ``widget``, or in the table that has the keys."""
        views = self._views()
        wanted = widget or self.screen.focused
        at, before = next(
            ((at, view) for at, (shown, view) in enumerate(views) if shown is wanted), (0, self._view)
        )
        if self._against is None:
            view = change(before)
        else:
            sort, descending = self._against_sort
            view = change(replace(before, sort=sort, descending=descending))
            self._against_sort = (view.sort, view.descending)
            view = replace(view, sort=before.sort, descending=before.descending)
        if at:
            self._other_views[at - 1] = view
        else:
            self._view = view
        self.redraw()

    def other(self) -> None:
        """The keys go to the next table."""
        shown = [widget for widget, _ in self._views()]
        at = next((at for at, widget in enumerate(shown) if widget.has_focus), -1)
        shown[(at + 1) % len(shown)].focus()

    # ---- rows and chains

    def path_here(self) -> tuple[Step, ...]:
        """The way down to the row under the cursor, which is its last step; empty without rows."""
        widget, view = self.here
        key = widget.cursor_key
        if not isinstance(key, tuple):
            return ()
        path = steps_to(widget.data, view, key)
        parts = view.levels()[view.level_of(key)].by
        if "layer" in parts and all(step.dimension != "layer" for step in path):
            layer = key[parts.index("layer")]  # operations of one name have a row for each
            path = (*path, Step("layer", layer, layer))
        return path

    @property
    def here(self) -> tuple[GroupTable, View]:
        """The table that has the keys, else the first one, and how it looks at the window."""
        views = self._views()
        widget, view = next((pair for pair in views if pair[0].has_focus), views[0])
        return widget, self._sorted(view)

    def chains_here(self) -> list[Chain]:
        """The chains that speak of the row under the cursor, the worst first."""
        window = self._window
        if window is None:
            return []
        widget, view = self.here
        return chains_of(widget.cursor_key, self._chains, window, view)

    def look_at(self, chain: Chain) -> None:
        """Put the cursor on the row that ``chain`` loses its time in; Esc goes back to the tables of now."""
        window = self._window
        if window is None:
            return
        key = keys_of(chain, window)[0]
        find = window.tenants.get(key.tenant)
        view = View(sort=self._view.sort, descending=self._view.descending)
        cursor: Hashable = (key.tenant,)
        if key.operation and key.tenant:
            step = Step("container", key.tenant, find.name if find else key.tenant)
            view, cursor = replace(view, by="operation", path=(step,)), (key.operation, key.layer)
        if view.path != self._view.path:
            self._remember(view.path, self.here[0])
        self.focus_main()
        self._look(view, cursor=cursor)
        if self.main.cursor_key != cursor:
            self.post_message(self.Said("its row is not in this window"))


def _part(key: Hashable) -> str:
    """What a row of a table by some dimension is called in it: keys of rows are tuples, that part first."""
    return str(key[0]) if isinstance(key, tuple) else str(key)
