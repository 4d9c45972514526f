"""Steps from one view of the tables to another: into a row, back, to another dimension, to a problem."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from textual.widget import Widget

from stalltop.model.chain import Chain
from stalltop.model.rows.dimensions import Dimension
from stalltop.tui.problems.chains import keys_of
from stalltop.tui.tables.table import steps_to
from stalltop.tui.tables.tables import Tables
from stalltop.tui.tables.way_back import TablesBefore, WayBack
from stalltop.tui.views.path import PathStep, scope
from stalltop.tui.views.view import View
from stalltop.widgets.table import Table


class TableSteps:
    """Changes what ``tables`` show, and remembers the way back."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._way_back = WayBack()

    def pivot(self, by: Dimension) -> None:
        """Group the rows by ``by``."""
        first = self._tables.views.first
        self._tables.focus_main()
        self._tables.views.fold_others()
        self._tables.look(first.pivoted(by), top=first.by != by)

    def enter(self, widget: Table, key: Hashable) -> bool:
        """Go into the row ``key`` of ``widget``. Returns False if there are no rows inside, as in that of a
        culprit that makes no calls."""
        tables = self._tables
        first = tables.views.first
        view = next((view for shown, view in tables.shown() if shown is widget), first)
        if widget.data.find(key) is None or not isinstance(key, tuple):
            return True  # the row has left the table since the user chose it
        path = steps_to(widget.data, view, key)
        view = view.looking_at(path)
        inside = view.entered(path[-1].key, path[-1].label)
        if inside is view or not _has_calls(tables, path):
            return False
        widget.put_cursor(key)
        self._remember(inside.path, widget)
        tables.focus_main()
        tables.look(replace(inside, sort=first.sort, descending=first.descending), top=True)
        return True

    def _remember(self, inside: tuple[PathStep, ...], focused: Widget | None) -> None:
        """Remember the tables as they are before a step to the path ``inside``. ``focused`` is the widget
        that has the focus."""
        widgets, views = self._tables.all, self._tables.views
        first, second, third = (widget.chosen_key for widget in widgets)
        others = (views.others[0], views.others[1])
        focus = next((number for number, widget in enumerate(widgets) if widget is focused), 0)
        self._way_back.remember(TablesBefore(inside, views.first, others, (first, second, third), focus))
        views.fold_others()

    def out(self) -> None:
        """Go back to the tables before the last step; at the top unpick a row, else clear the filter, else
        show all rows again."""
        tables = self._tables
        if tables.picking.unpicks(tables.views.first):
            tables.picking.let_go()
            tables.post_message(tables.ViewChanged())
            tables.redraw()
            return
        path = tables.views.first.path
        place = self._way_back.before(path)
        if place is not None:
            tables.views.others = list(place.other_views)
            view = replace(place.view, filter=tables.views.first.filter, only=tables.views.first.only)
            tables.look(view, cursor=place.cursors[0], top=True)
            for widget, cursor in zip(tables.others, place.cursors[1:], strict=True):
                widget.put_cursor(cursor)
            focused = tables.all[place.focus]
            (focused if focused.display else tables.main).focus()
        elif path:
            step = tables.views.first.path[-1]
            view = tables.views.first.left()
            found: object = None
            if tables.window is not None:
                keys = [row.key for row in tables.data(tables.main, view).rows]
                found = next((key for key in keys if _part(key) == step.key), None)
            tables.look(view, cursor=found, top=found is None)
        elif tables.views.first.filter:
            tables.look(replace(tables.views.first, filter=""))
        elif tables.views.first.only:
            tables.look(replace(tables.views.first, only=""))

    def look_at(self, chain: Chain) -> None:
        """Put the cursor on the row that loses time because of ``chain``. Esc returns to the current
        tables."""
        tables, window = self._tables, self._tables.window
        if window is None:
            return
        key = keys_of(chain, window)[0]
        find = window.tenants.get(key.tenant)
        view = View(sort=tables.views.first.sort, descending=tables.views.first.descending)
        cursor: Hashable = (key.tenant,)
        if key.operation and key.tenant:
            step = PathStep("container", key.tenant, find.name if find else key.tenant)
            view, cursor = replace(view, by="operation", path=(step,)), (key.operation, key.layer)
        if view.path != tables.views.first.path:
            self._remember(view.path, tables.here[0])
        tables.focus_main()
        tables.look(view, cursor=cursor)
        if tables.main.cursor_key != cursor:
            tables.post_message(tables.MessageWanted("the row of the problem is not in this window"))


def _has_calls(tables: Tables, path: tuple[PathStep, ...]) -> bool:
    """Return whether the row at ``path`` has calls, open ones too, in the window or in the one to compare
    with."""
    shown = (tables.window, tables.against.window if tables.against is not None else None)
    parts = (scope(window, path) for window in shown if window is not None)
    return any(len(part.rows) or part.open_calls for part in parts)


def _part(key: Hashable) -> str:
    """Return the first value of a row's key: for a row of the first level, the value of its own dimension."""
    return str(key[0]) if isinstance(key, tuple) else str(key)
