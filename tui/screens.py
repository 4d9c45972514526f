"""The main screen: what is shown where, and what each key changes. Everything it knows comes by messages."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Label

from model.pivot import Dimension
from model.window import Window
from tui.collector import LENGTHS, Snapshot
from tui.filter_entry import FilterEntry
from tui.keys import bindings, footer
from tui.pages_screen import HelpScreen, WarningsScreen
from tui.status import header_state, length_text, silent_seconds
from tui.view import Step, View, table
from tui.warnings import warnings
from widgets.alert import AlertLine
from widgets.bars import SystemBars
from widgets.devices import DeviceRows
from widgets.footer import KeyLine
from widgets.header import Header
from widgets.table import HEAD_LINES, Table

if TYPE_CHECKING:
    from tui.app import StalltopApp

TWO_TABLES_FROM = 40
"""Rows of the terminal from which a second table is shown."""
LEAST_WIDTH, LEAST_HEIGHT = 40, 8
"""A smaller terminal shows one line that says so."""
SAID_SECONDS = 2.0
"""How long the screen says what a key has done, in place of the worst warning."""
READ_SECONDS = 6.0
"""How long it says where a file was saved, or what went wrong."""


class GroupTable(Table, can_focus=True):
    """A table of groups with the keys of ``tui.keys``."""

    BINDINGS = bindings("table")


@dataclass(frozen=True, slots=True)
class _Place:
    """The tables as they were before a step down."""

    inside: tuple[Step, ...]
    """The path that the step led to."""
    view: View
    second_sort: tuple[str, bool]
    cursors: tuple[Hashable, Hashable]
    """Of the first and of the second table."""
    in_second: bool
    """The keys went to the second table."""


@dataclass(frozen=True, slots=True, eq=False)
class _Frozen:
    snapshot: Snapshot
    window: Window
    length: float | None


class MainScreen(Screen[None]):
    """Header, host, devices, the worst warning, one or two tables, keys."""

    BINDINGS = bindings("screen")
    AUTO_FOCUS = "#main"
    # What a mouse selects in full-screen programs is the terminal's business (with Shift held).
    ALLOW_SELECT = False

    def __init__(self, length: float | None) -> None:
        super().__init__()
        self._view = View()
        self._second_sort = ("total", True)
        self._places: list[_Place] = []
        self._snapshot: Snapshot | None = None
        self._frozen: _Frozen | None = None
        self._length = length
        self._enlarged = False
        self._late = False
        """There is newer data than is shown: the line was too slow for it."""
        self._main_lines = 0
        self._main_height = ""
        self._said: Timer | None = None

    @property
    def stalltop(self) -> StalltopApp:
        """The app, by its own type."""
        return cast("StalltopApp", self.app)

    def compose(self) -> ComposeResult:
        """Widgets from top to bottom."""
        unicode = self.stalltop.unicode
        yield Header("header", unicode=unicode)
        yield SystemBars("system", unicode=unicode)
        yield DeviceRows("devices", unicode=unicode)
        yield AlertLine("alert", unicode=unicode)
        with Vertical(id="tables"):
            yield GroupTable("main", unicode=unicode)
            yield GroupTable("second", unicode=unicode)
        with Horizontal(id="entry"):
            yield Label("/", id="prompt")
            yield FilterEntry("filter")
        yield KeyLine("keys", unicode=unicode)
        yield AlertLine("small", unicode=unicode)

    def on_mount(self) -> None:
        """Start the clock that notices silence; hide what is not asked for."""
        self._show_entry(False)
        self.set_interval(1.0, self._every_second)
        self._arrange()
        self._refresh()

    # ---- data

    @property
    def shown(self) -> Window | None:
        """The window on the screen: the frozen one or the newest."""
        if self._frozen is not None:
            return self._frozen.window
        return self._snapshot.window if self._snapshot is not None else None

    def take(self, snapshot: Snapshot) -> None:
        """Show new data, unless the picture is frozen."""
        self._snapshot = snapshot
        self._late = self._frozen is None and self.stalltop.line_is_behind
        if self._frozen is None and not self._late:
            self._refresh()

    def computed(self, snapshot: Snapshot, length: float | None, window: Window) -> None:
        """A window of another length is there: show it if it is still the one that is wanted."""
        if self._length != length:
            return
        if self._frozen is not None:
            if self._frozen.snapshot is snapshot:
                self._frozen = _Frozen(snapshot, window, length)
                self._refresh()
        elif self._snapshot is snapshot:
            self._snapshot = replace(snapshot, window=window, length=length)
            self._refresh()

    def say(self, text: str, role: str = "good", seconds: float = SAID_SECONDS) -> None:
        """Say in the line of warnings, for some seconds, what was done."""
        line = self.query_one("#alert", AlertLine)
        if self._said is not None:
            self._said.stop()
        self._said = self.set_timer(seconds, lambda: line.say(""))
        line.say(text, role)

    def _every_second(self) -> None:
        if self.stalltop.line_is_behind:
            return
        if self._late:
            self._late = False
            self._refresh()
        self._refresh_header()

    # ---- drawing

    def on_resize(self, event: events.Resize) -> None:
        """Show what the new size has room for."""
        self._arrange()
        self.call_after_refresh(self._refresh)

    def on_screen_resume(self) -> None:
        """Another screen lay on this one: catch up."""
        self._refresh()

    def _arrange(self) -> None:
        """Decide what is shown at this size."""
        width, height = self.app.size
        small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        for widget in self.query("#header, #tables"):
            widget.display = not small
        self.query_one("#keys").display = not small and not self.query_one("#filter").display
        for widget in self.query("#system, #devices"):
            widget.display = not small and not self._enlarged and height >= 12
        self.query_one("#alert").display = not small
        warning = self.query_one("#small", AlertLine)
        warning.display = small
        warning.show(f"{width}x{height} is too small: {LEAST_WIDTH}x{LEAST_HEIGHT} is the least", "warn", 0)
        two = height >= TWO_TABLES_FROM and not self._enlarged and self._view.beside() is not None
        second = self.query_one("#second", GroupTable)
        second.display = two
        if not two and second.has_focus:
            self.query_one("#main").focus()

    def _views(self) -> list[tuple[GroupTable, View]]:
        """The tables on the screen and how each looks at the window."""
        pairs = [(self.query_one("#main", GroupTable), self._view)]
        second = self.query_one("#second", GroupTable)
        beside = self._view.beside()
        if second.display and beside is not None:
            sort, descending = self._second_sort
            pairs.append((second, replace(self._view, by=beside, sort=sort, descending=descending)))
        return pairs

    def _refresh(self) -> None:
        """Show the window of now everywhere."""
        if not self.is_mounted or self.app.screen is not self:
            return
        window = self.shown
        self._refresh_header()
        self.query_one("#keys", KeyLine).show(footer(frozen=self._frozen is not None))
        self._refresh_alert()
        if window is None:
            return
        self.query_one("#system", SystemBars).show(window.system)
        self.query_one("#devices", DeviceRows).show(window.devices, max(self.app.size.height // 8, 1))
        self._refresh_tables()

    def _refresh_tables(self) -> None:
        window = self.shown
        if window is None:
            return
        pairs = self._views()
        for widget, view in pairs:
            data = table(window, view, width=self.app.size.width, unicode=self.stalltop.unicode)
            widget.show(data)
        self._share_room(len(pairs) > 1)

    def _share_room(self, two: bool) -> None:
        """What a short first table leaves over goes to the second; the border moves down only, and seldom."""
        main = self.query_one("#main", GroupTable)
        lines = -(-(len(main.data.rows) + HEAD_LINES + 1) // 4) * 4
        self._main_lines = max(self._main_lines, lines)
        half = (self.app.size.height - 8) // 2
        wanted = f"{self._main_lines}" if two and self._main_lines < half else "1fr"
        if wanted != self._main_height:
            self._main_height = wanted
            main.styles.height = wanted

    def _refresh_alert(self) -> None:
        found = warnings(self.shown, self.stalltop.options.notes, unicode=self.stalltop.unicode)
        line = self.query_one("#alert", AlertLine)
        if found:
            line.show(found[0].text, found[0].level, len(found) - 1, found[0].name)
        elif self.shown is not None:
            line.show("no warnings: nothing hangs, nothing is lost, all that was found is traced", "dim", 0)
        else:
            line.show("starting: loading probes and looking for CUDA processes", "dim", 0)

    def _refresh_header(self) -> None:
        snapshot = self._frozen.snapshot if self._frozen is not None else self._snapshot
        options = self.stalltop.options
        silent = (
            0.0 if options.still else silent_seconds(self._snapshot, self.stalltop.began, options.interval)
        )
        state = header_state(
            self.shown,
            self._length,
            frozen_at=snapshot.window.end if self._frozen is not None and snapshot is not None else None,
            silent=silent,
            still=options.still,
            demo=options.demo,
        )
        self.query_one("#header", Header).show(state)

    # ---- keys: what is looked at

    def _look(self, view: View, *, cursor: object = None, top: bool = False) -> None:
        """Look through ``view`` from now on; put the cursor on ``cursor``, or on the first row if ``top``."""
        self._view = view
        self._main_lines = 0
        self._arrange()
        main = self.query_one("#main", GroupTable)
        if cursor is not None or top:
            main.put_cursor(cursor)
        self._refresh_tables()
        if self.query_one("#second").display:
            self.call_after_refresh(self._refresh_tables)

    def action_pivot(self, by: Dimension) -> None:
        """Group by ``by``."""
        self._focus_main()
        self._look(self._view.pivoted(by), top=self._view.by != by)

    @on(Table.Chosen)
    def _chosen(self, message: Table.Chosen) -> None:
        """Go into a row."""
        view = next((view for widget, view in self._views() if widget is message.table), self._view)
        row = next((row for row in message.table.data.rows if row.key == message.key), None)
        if row is None:
            return
        inside = view.entered(_part(row.key), row.label)
        if inside is view:
            self.say("there is nothing below this; Esc goes back", "dim")
            return
        main, second = self.query_one("#main", GroupTable), self.query_one("#second", GroupTable)
        cursors = (main.cursor_key, second.cursor_key)
        self._places.append(
            _Place(inside.path, self._view, self._second_sort, cursors, message.table is second)
        )
        self._focus_main()
        self._look(replace(inside, sort=self._view.sort, descending=self._view.descending), top=True)

    def action_out(self) -> None:
        """One step back, to the tables as they were; at the top, clear the filter."""
        path = self._view.path
        while self._places and self._places[-1].inside != path[: len(self._places[-1].inside)]:
            self._places.pop()  # a pivot took that step back
        if self._places and self._places[-1].inside == path:
            place = self._places.pop()
            main, second = self.query_one("#main", GroupTable), self.query_one("#second", GroupTable)
            self._second_sort = place.second_sort
            self._look(replace(place.view, filter=self._view.filter), cursor=place.cursors[0], top=True)
            second.put_cursor(place.cursors[1])
            (second if place.in_second and second.display else main).focus()
        elif path:
            step = self._view.path[-1]
            window = self.shown
            view = self._view.left()
            cursor: object = None
            if window is not None:
                data = table(window, view, width=self.app.size.width, unicode=self.stalltop.unicode)
                keys = [row.key for row in data.rows]
                cursor = next((key for key in keys if _part(key) == step.key), None)
            self._look(view, cursor=cursor, top=cursor is None)
        elif self._view.filter:
            self._look(replace(self._view, filter=""))

    def action_sort(self, step: int) -> None:
        """Sort by the next or previous column."""
        self._sort(lambda view: view.next_sort(step))

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._sort(lambda view: replace(view, descending=not view.descending))

    @on(Table.HeadClicked)
    def _head_clicked(self, message: Table.HeadClicked) -> None:
        column = {"share": "total", "bar": "total", "n": "calls", "beside": "name"}.get(
            message.column, message.column
        )
        self._sort(lambda view: view.sorted_by(column), message.table)

    def _sort(self, change: Callable[[View], View], widget: Widget | None = None) -> None:
        second = self.query_one("#second", GroupTable)
        if (widget or self.focused) is second and second.display:
            view = change(replace(self._view, sort=self._second_sort[0], descending=self._second_sort[1]))
            self._second_sort = (view.sort, view.descending)
        else:
            self._view = change(self._view)
        self._refresh_tables()

    def action_other(self) -> None:
        """The keys go to the other table."""
        main, second = self.query_one("#main"), self.query_one("#second")
        (second if second.display and not second.has_focus else main).focus()

    def action_enlarge(self) -> None:
        """The table alone, or everything again."""
        self._enlarged = not self._enlarged
        if self._enlarged and self.query_one("#second").has_focus:
            beside = self._view.beside()
            if beside is not None:
                sort, descending = self._second_sort
                self._view = replace(self._view, by=beside, sort=sort, descending=descending)
        self._arrange()
        self.call_after_refresh(self._refresh)

    # ---- keys: filter

    def action_filter(self) -> None:
        """Type a filter; the table follows every letter."""
        entry = self.query_one("#filter", FilterEntry)
        entry.value = self._view.filter
        self._show_entry(True)
        # Now, not with the next message: what follows at once, as in a paste, is text and no command.
        self.set_focus(entry)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Within the filter its key is text."""
        return not (action == "filter" and isinstance(self.focused, FilterEntry))

    def _show_entry(self, shown: bool) -> None:
        """Show the line for the filter in place of the line of keys, or the other way round."""
        self.query_one("#entry").display = shown
        self.query_one("#filter").display = shown
        self.query_one("#keys").display = not shown

    def _focus_main(self) -> None:
        """Keys go to the first table, unless a filter is being typed."""
        if not self.query_one("#filter").display:
            self.query_one("#main").focus()

    @on(FilterEntry.Changed, "#filter")
    def _filter_changed(self, message: FilterEntry.Changed) -> None:
        if self.query_one("#filter").display:
            self._view = replace(self._view, filter=message.value.strip())
            self._refresh_tables()

    @on(FilterEntry.Submitted, "#filter")
    def _filter_done(self) -> None:
        self._leave_filter()

    @on(FilterEntry.Cleared)
    def _filter_cleared(self) -> None:
        self._view = replace(self._view, filter="")
        self._leave_filter()

    def _leave_filter(self) -> None:
        self._show_entry(False)
        self.set_focus(self.query_one("#main"))
        self._refresh_tables()

    # ---- keys: time

    def action_freeze(self) -> None:
        """Hold the picture, or let it go."""
        if self._frozen is not None:
            self._frozen = None
            if self._snapshot is not None and self._snapshot.length != self._length:
                self.stalltop.compute(self._snapshot, self._length)
        elif self._snapshot is not None:
            self._frozen = _Frozen(self._snapshot, self._snapshot.window, self._length)
        self._refresh()

    def action_window(self, step: int) -> None:
        """A longer (1) or shorter (-1) window."""
        if self.stalltop.options.still:
            self.say("a saved window has the one length that it was saved with", "label")
            return
        at = LENGTHS.index(self._length) if self._length in LENGTHS else 1
        length = LENGTHS[min(max(at + step, 0), len(LENGTHS) - 1)]
        if length == self._length:
            return
        self._length = length
        self.stalltop.choose_length(length)
        snapshot = self._frozen.snapshot if self._frozen is not None else self._snapshot
        if snapshot is not None:
            self.stalltop.compute(snapshot, length)
        self.say(f"window: {length_text(length)}", "label")
        self._refresh_header()

    # ---- keys: the rest

    def action_save(self) -> None:
        """Save the window on the screen."""
        if self.shown is None:
            self.say("there is nothing to save yet", "warn")
            return
        if self.stalltop.options.still:
            self.say("this window is saved already: it is the file that was opened", "label")
            return
        self.stalltop.save(self.shown)

    def action_help(self) -> None:
        """All keys."""
        self.app.push_screen(HelpScreen())

    def action_warnings(self) -> None:
        """All warnings."""
        self.app.push_screen(WarningsScreen(lambda: self.shown))

    def action_theme(self) -> None:
        """The next colours."""
        if self.app.no_color:
            self.say("NO_COLOR is set: there are no other colours to change to", "warn")
            return
        self.say(f"colours: {self.stalltop.next_theme()}", "label")

    def action_leave(self) -> None:
        """Leave."""
        self.stalltop.exit()


def _part(key: Hashable) -> str:
    """What a row of a table by some dimension is called in it: keys of rows are tuples, that part first."""
    return str(key[0]) if isinstance(key, tuple) else str(key)
