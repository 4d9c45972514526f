"""The one or two tables of groups: how they look at the window, and what keys change of that."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from model.chain import Chain
from model.packing import Packed
from model.pivot import Dimension
from model.window import RowKey, Window
from tui.chains import chains_of, keys_of, marks
from tui.columns.choice import sort_of, sorts
from tui.groups import Key, Step
from tui.keys import bindings
from tui.layout import Layout, first_cells, heights
from tui.moments import Picture
from tui.past import NO_PAST, Past
from tui.places import Place, Places
from tui.status import changes_text
from tui.table import steps_to, table
from tui.view import View
from widgets.table import HEAD_LINES, Cell, Table, TableData

_NO_NORMALS: Mapping[RowKey, tuple[int, int]] = {}


class GroupTable(Table, can_focus=True):
    """A table of groups with the keys of ``tui.keys``."""

    BINDINGS = bindings("table")


class Tables(Vertical):
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
        super().__init__(id=widget_id)
        self.unicode = unicode
        self.keys_elsewhere = False
        """Keys go to a line that is being typed, and stay there."""
        self._view = View()
        self._second_view = View()
        """How the second table is sorted and unfolded; for the rest it goes by the first."""
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
        self._layout = Layout()
        self._share = 50
        self._behind: tuple[View, Hashable] | None = None
        """The first table, and its cursor, while the second is enlarged in its place."""
        self._lines = (0, 0)
        """Lines that the first and the second table have needed since they show what they do."""
        self._heights = ("", "")

    def compose(self) -> ComposeResult:
        """The first table above the second."""
        yield GroupTable("main", unicode=self.unicode)
        yield GroupTable("second", unicode=self.unicode)

    @property
    def main(self) -> GroupTable:
        """The first table."""
        return self.query_one("#main", GroupTable)

    @property
    def second(self) -> GroupTable:
        """The one below it, which may be hidden."""
        return self.query_one("#second", GroupTable)

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
            for widget in (self.main, self.second):
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

        Where tables are enlarged and the keys went to the second, it takes the place of the first until they
        no longer are.
        """
        second = self.second
        back = self._bring_back() if not layout.enlarged else False
        beside = self._view.beside()
        two = "second" in layout.shown and beside is not None
        if not two and second.has_focus:
            if beside is not None and layout.enlarged == "tables":
                self._behind = (self._view, self.main.chosen_key)
                self._view = self._beside(beside)
                self.main.put_cursor(second.chosen_key)
            self.main.focus()
        self._layout, self._share = layout, share
        second.display = two
        self.styles.layout = "horizontal" if layout.beside else "vertical"
        self.main.styles.width = self._first_width if two and layout.beside else "100%"
        second.styles.width = "1fr" if layout.beside else "100%"
        self._heights = ("", "")
        self._share_room(two)
        if back and two:
            second.focus()

    def _bring_back(self) -> bool:
        """Put the tables back where they were before the second was enlarged; False where nothing was, or
        where something else is looked at by now."""
        if self._behind is None:
            return False
        (view, cursor), self._behind = self._behind, None
        if (self._view.by, self._view.path) != (view.beside(), view.path):
            return False
        self._second_view = self._view
        self.second.put_cursor(self.main.chosen_key)
        self._view = replace(view, filter=self._view.filter, only=self._view.only)
        self.main.put_cursor(cursor)
        return True

    @property
    def _first_width(self) -> int:
        """Cells of the first table beside a second."""
        return first_cells(self.app.size.width, self._share, gives=self._view.by != "operation")

    def redraw(self) -> None:
        """Fill the tables again."""
        if self._window is None:
            return
        pairs = self._views()
        for widget, view in pairs:
            widget.show(self._data(view, legend=widget is pairs[0][0]))
        self._share_room(len(pairs) > 1)

    def _data(self, view: View, *, legend: bool = False) -> TableData:
        assert self._window is not None
        against, view = self._against, self._sorted(view)
        data = table(
            self._window,
            view,
            width=self._width(view),
            unicode=self.unicode,
            letters=getattr(self.app, "letters", False),
            pictures=getattr(self.app, "pictures", True),
            marks=self.marks(view),
            legend_shown=legend and against is None,
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

    def _width(self, view: View) -> int:
        """Cells of the table that shows ``view``."""
        width = self.app.size.width
        if not (self._layout.beside and self.second.display):
            return width
        return self._first_width if view.by == self._view.by else width - self._first_width

    def _views(self) -> list[tuple[GroupTable, View]]:
        """The tables on the screen and how each looks at the window."""
        pairs = [(self.main, self._view)]
        beside = self._view.beside()
        if self.second.display and beside is not None:
            pairs.append((self.second, self._beside(beside)))
        return pairs

    def _beside(self, by: Dimension) -> View:
        """How the second table looks at the window."""
        view = self._view
        return replace(self._second_view, by=by, path=view.path, filter=view.filter, only=view.only)

    def _share_room(self, two: bool) -> None:
        """What a short table leaves over goes to the other; the border moves one way only, and seldom."""
        tables = (self.main, self.second)
        needed = (len(widget.data.rows) + HEAD_LINES for widget in tables)
        first, second = map(max, self._lines, needed)
        self._lines = (first, second)
        found = ("1fr", "1fr")
        if two and not self._layout.beside:
            found = heights(self.app.size.height, self._share, first, second)
        if found != self._heights:
            self._heights = found
            for widget, height in zip(tables, found, strict=True):
                widget.styles.height = height

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
        self._lines = (0, 0)
        if cursor is not None or top:
            self.main.put_cursor(cursor)
        self.redraw()
        if self.second.display:
            self.call_after_refresh(self.redraw)

    def pivot(self, by: Dimension) -> None:
        """Group by ``by``."""
        self.focus_main()
        self._second_view = self._second_view.folded()
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
        self._remember(inside.path, in_second=message.table is self.second)
        self.focus_main()
        self._look(replace(inside, sort=self._view.sort, descending=self._view.descending), top=True)

    def _remember(self, inside: tuple[Step, ...], *, in_second: bool) -> None:
        cursors = (self.main.chosen_key, self.second.chosen_key)
        self._places.remember(Place(inside, self._view, self._second_view, cursors, in_second))
        self._second_view = self._second_view.folded()

    def out(self) -> None:
        """One step back, to the tables as they were; at the top, clear the filter."""
        path = self._view.path
        place = self._places.before(path)
        if place is not None:
            self._second_view = place.second_view
            view = replace(place.view, filter=self._view.filter, only=self._view.only)
            self._look(view, cursor=place.cursors[0], top=True)
            self.second.put_cursor(place.cursors[1])
            (self.second if place.in_second and self.second.display else self.main).focus()
        elif path:
            step = self._view.path[-1]
            view = self._view.left()
            cursor: object = None
            if self._window is not None:
                keys = [row.key for row in self._data(view).rows]
                cursor = next((key for key in keys if _part(key) == step.key), None)
            self._look(view, cursor=cursor, top=cursor is None)
        elif self._view.filter:
            self._look(replace(self._view, filter=""))
        elif self._view.only:
            self._look(replace(self._view, only=""))

    def sort(self, step: int) -> None:
        """Sort the table that has the keys by the next or previous column."""
        focused = self.second if self.second.has_focus else self.main
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
        second, beside = self.second, self._view.beside()
        in_second = (widget or self.screen.focused) is second and second.display and beside is not None
        before = self._beside(beside) if in_second and beside is not None else self._view
        if self._against is None:
            view = change(before)
        else:
            sort, descending = self._against_sort
            view = change(replace(before, sort=sort, descending=descending))
            self._against_sort = (view.sort, view.descending)
            view = replace(view, sort=before.sort, descending=before.descending)
        if in_second:
            self._second_view = view
        else:
            self._view = view
        self.redraw()

    def other(self) -> None:
        """The keys go to the other table."""
        second = self.second
        (second if second.display and not second.has_focus else self.main).focus()

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
            self._remember(view.path, in_second=self.second.has_focus)
        self.focus_main()
        self._look(view, cursor=cursor)
        if self.main.cursor_key != cursor:
            self.post_message(self.Said("its row is not in this window"))


def _part(key: Hashable) -> str:
    """What a row of a table by some dimension is called in it: keys of rows are tuples, that part first."""
    return str(key[0]) if isinstance(key, tuple) else str(key)
