"""Draws the widgets of the main screen for the chosen moment."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from stalltop.formats.text.answer import UNSURE_SECONDS
from stalltop.model.devices.device import Devices
from stalltop.model.telling import NO_TELLINGS
from stalltop.model.window import Window
from stalltop.tui.graphs.panels import GraphPanels
from stalltop.tui.keys.footer import footer
from stalltop.tui.main.arrangement import Arrangement
from stalltop.tui.main.opens import Opens
from stalltop.tui.main.selection import selected
from stalltop.tui.main.status import header_state, recording_text, silent_seconds, starting_text
from stalltop.tui.past.moments import Moments
from stalltop.tui.past.recall import timespan
from stalltop.tui.problems.alert_panel import AlertPanel
from stalltop.tui.screens.bases import AppScreen
from stalltop.tui.screens.steady import Steady
from stalltop.tui.settings.settings import AUTO, NONE
from stalltop.tui.tables.sizes import DETAIL, NO_DETAIL, DetailNeeds, detail_cells
from stalltop.tui.tables.tables import Tables
from stalltop.tui.views.path import Path
from stalltop.widgets.answer import AnswerLines, AnswerState
from stalltop.widgets.bars import DiskRates, SystemBars
from stalltop.widgets.caption import CaptionLines
from stalltop.widgets.devices import PAST_CELLS, DeviceRows
from stalltop.widgets.footer import KeyLine
from stalltop.widgets.header import Header, HeaderState
from stalltop.widgets.page import TextPanel
from stalltop.widgets.timeline import Timeline


class Drawing:
    """Fills the widgets of ``screen`` with the data of ``moments``."""

    def __init__(
        self,
        screen: AppScreen,
        moments: Moments,
        arrangement: Arrangement,
        graphs: GraphPanels,
        opens: Opens,
        *,
        file: bool,
    ) -> None:
        """``opens`` makes the text of the panel about the first problem. ``file``: the data comes from a
        recording."""
        self._screen = screen
        self._moments = moments
        self._arrangement = arrangement
        self._graphs = graphs
        self._opens = opens
        self._file = file
        self._detail_whole, self._detail_chain = Steady(), Steady()
        self._detail_path: Path = ()
        """The path to the row under the cursor when the tables were last drawn."""
        self._alerts_of: Window | None = None
        """The window for which the list of problems was made last."""
        self._told_state = AnswerState()
        """What the first lines show."""
        self._told = ""
        """The id of the problem that the first lines told last; empty if they told none."""

    @property
    def whole(self) -> bool:
        """Return whether all widgets exist. A window may arrive while the screen is being built or
        removed."""
        screen = self._screen
        return screen.is_mounted and screen.display and screen.query_one_optional("#keys") is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return messages of the program that are not about the window, one line each."""
        newest = self._moments.newest
        return self._screen.stalltop.options.notes + (() if newest is None else newest.kept.notes)

    @property
    def _panel(self) -> AlertPanel:
        return self._screen.query_one("#alerts", AlertPanel)

    @property
    def _tables(self) -> Tables:
        return self._screen.query_one("#tables", Tables)

    def everything(self) -> None:
        """Draw all widgets for the chosen moment, unless another screen covers this one."""
        app = self._screen.stalltop
        if not self.whole or app.screen is not self._screen:
            return
        self.alerts()
        self.time()
        self.keys()
        moments, window = self._moments, self._moments.window
        if window is None:
            self._arrangement.fit()
            return
        app.slow_line.drawn()
        ports = window.evidence.network_ports
        bars = self._screen.query_one("#system", SystemBars)
        bars.show(window.system, ports, window.seconds, _disk_rates(window))
        self._screen.query_one("#devices", DeviceRows).show(window.devices, self._devices_before(window))
        arrangement = self._arrangement
        arrangement.at, arrangement.devices = window.end, len(window.devices.devices)
        arrangement.graphs = self._graphs_chosen()
        self._fit_anew_for_another_problem()
        arrangement.detail = self._detail_needs(window)
        past = () if app.options.still else moments.past
        normals = moments.newest.newest.normals if moments.newest is not None else {}
        self._tables.tellings = app.options.tellings()
        # This calls ``Arrangement.fit`` when the tables have their new content.
        self._tables.show(window, self._panel.found.open, moments.against, past, normals, moments.present)
        self.graphs()
        self._show_detail(window)

    def _fit_anew_for_another_problem(self) -> None:
        """Forget the heights that panels had, if the first lines tell another problem than before: the panels
        now show something else, and the way to its cause must not wait for their lines."""
        chain = self._panel.answering.chain
        told = "" if chain is None else chain.id
        if told and told != self._told:
            self._tables.room.forget_lines()
            self._panel.room.forget_height()
            self._detail_whole.forget()
            self._detail_chain.forget()
        self._told = told

    def _detail_needs(self, window: Window) -> DetailNeeds:
        """Return what the panel about the first problem needs. Its needs shrink only after some time, so that
        the panels around it seldom move."""
        app = self._screen.stalltop
        wanted, problem = self._graphs.wanted, self._panel.answering.chain is not None
        # Who chooses figures wants graphs in place of a row's figures, but not of what is wrong.
        if not (app.pictures and window.rows and (AUTO in wanted or (problem and NONE not in wanted))):
            return NO_DETAIL
        width, frames = app.size.width, self._arrangement.layout.frames
        sides = 2 * (frames == "box")
        chain = selected(self._panel, self._tables, window)
        whole, least = self._opens.detail_lines(
            window, chain, self._detail_path, width - sides, detail_cells(width) - sides
        )
        return DetailNeeds(
            True, self._detail_whole.need(whole, window.end), self._detail_chain.need(least, window.end)
        )

    def _show_detail(self, window: Window) -> None:
        """Fill the panel about the first or the selected problem if it is visible; without a problem, it is
        about the row under the cursor."""
        place = next((one for one in self._arrangement.layout.tables.places if one.name == DETAIL), None)
        if place is None:
            return
        chain, path = selected(self._panel, self._tables, window), self._tables.path_here()
        self._detail_path = path
        if chain is not None or path:
            width, height = place.width - place.frame.columns, place.height - place.frame.lines
            first = self._panel.answering.chain
            told = chain is not None and first is not None and chain.id == first.id
            text = self._opens.detail(window, chain, path, width, height, told=told)
            self._screen.query_one("#detail", TextPanel).show(text)

    def follow_cursor(self) -> None:
        """Show the problem of the row or line to which the user moved the cursor."""
        if self.whole and self._moments.window is not None:
            self._show_detail(self._moments.window)
            self._show_answer(self._moments.window)

    def _graphs_chosen(self) -> int:
        """Choose the figures of the graphs for the moment that is shown. Returns their number."""
        app = self._screen.stalltop
        if app.options.still or not app.pictures:
            return 0
        told = self._panel.answering.chain
        if told is None:
            told = next((chain for chain in self._panel.found.open if chain.severity != "info"), None)
        return self._graphs.choose(self._moments.past, told, live=not self._moments.frozen)

    def graphs(self) -> None:
        """Fill the graphs that are visible."""
        moments, places = self._moments, self._arrangement.layout.tables.places
        self._graphs.fill(
            moments.past,
            {place.name: place.width - place.frame.columns for place in places},
            moments.at,
            self._row_here,
            self._screen.stalltop.glyphs,
            file=self._file,
        )

    def _row_here(self) -> tuple[Path, str]:
        """Return the path to the row under the cursor, and its name."""
        path = self._tables.path_here()
        named = [step for step in path if step.dimension != "layer"] or list(path)
        return path, named[-1].label if named else ""

    def _devices_before(self, window: Window) -> list[Devices]:
        """Return the devices of earlier windows, oldest first. Return an empty list if the screen shows no
        history of the devices."""
        if not (self._arrangement.layout.history and self._screen.stalltop.pictures):
            return []
        if "gpu" in self._graphs.shown:
            return []  # a graph shows their history
        past = reversed(self._moments.past)
        before = (part.window for part in past if part.window.end <= window.end + 1e-3)
        return [one.devices for one in islice(before, PAST_CELLS)][::-1]

    def keys(self) -> None:
        """Draw the line of keys with the keys that are useful now."""
        moments, tables = self._moments, self._tables
        shown = footer(
            width=self._screen.app.size.width,
            warnings=self._panel.has_focus,
            frozen=moments.frozen,
            still=self._screen.stalltop.options.still,
            file=self._file,
            out="Back" if moments.comparing else tables.way_out,
            enlarged=bool(self._arrangement.enlarged),
        )
        self._screen.query_one("#keys", KeyLine).show(shown)

    def alerts(self) -> None:
        """Draw the list of problems, or the progress of the start while there is no data."""
        window = self._alerts_of = self._moments.window
        app = self._screen.stalltop
        progress = app.options.progress
        step = progress.step if progress is not None and window is None else None
        options = app.options
        newest = self._moments.newest
        verdict_in = 0.0
        if window is not None and newest is not None and not (self._file or options.still):
            verdict_in = UNSURE_SECONDS - (window.end - newest.began)
        told = self._panel.update_from(
            window,
            self.notes,
            starting_text(step, app.glyphs),
            tellings=options.tellings() if window is not None else NO_TELLINGS,
            still=options.still or self._moments.frozen,
            verdict_in=verdict_in,
            told_above=self._arrangement.layout.answer > 0,
        )
        self._told_state = told
        self._show_answer(window)

    def _show_answer(self, window: Window | None) -> None:
        """Show the first lines. While the user selects another problem, they do not say that a key copies
        their command: it copies that of the selected problem."""
        told, shown = self._panel.answering.chain, self._told_state
        if window is not None and told is not None and self._tables.window is not None:
            chosen = selected(self._panel, self._tables, window)
            if chosen is not None and chosen.id != told.id:
                shown = replace(shown, copy_key="")
        self._screen.query_one("#answer", AnswerLines).show(shown)

    def header_now(self) -> HeaderState:
        """Return what the first line shows, on this screen and on pages that cover it."""
        moments, window = self._moments, self._moments.window
        if self._alerts_of is not window:
            self.alerts()  # a page covers this screen, so ``everything`` did not update the list
        app = self._screen.stalltop
        options, newest = app.options, moments.newest
        silent = silent_seconds(newest, app.began, options.interval)
        if window is None and options.progress is not None and options.progress.step is not None:
            silent = 0.0  # the list of problems shows the step of the start instead
        state = header_state(
            window,
            moments.length,
            frozen_at=moments.at,
            age=moments.age,
            pending=moments.wanted is not None,
            began=newest.began if newest is not None else None,
            silent=0.0 if options.still or self._file else silent,
            still=options.still,
            file=self._file,
            grows=newest is not None and newest.grows,
            playing=moments.playing,
            demo=options.demo,
            chains=self._panel.found.open,
            silenced=0 if self._panel.silenced.shown else self._panel.found.silenced_problems,
            glyphs=app.glyphs,
        )
        if options.own_cost is not None and not (self._file or options.still):
            state = replace(state, own=options.own_cost.read())
        if options.recorded is None:
            return state
        return replace(state, recording=recording_text(options.recorded.state, app.glyphs))

    def header(self) -> None:
        """Draw the first line, and the caption of a demonstration."""
        self._screen.query_one("#header", Header).show(self.header_now())
        caption = self._screen.stalltop.options.caption
        if caption is not None:
            self._screen.query_one("#caption", CaptionLines).show(caption.lines)
            if len(caption.lines) != self._arrangement.caption:
                self._arrangement.caption = len(caption.lines)
                self._arrangement.fit()

    def time(self) -> None:
        """Draw the time line and the first line. They change even while the screen is frozen."""
        if not self.whole:
            return
        self.header()
        line = self._screen.query_one("#timeline", Timeline)
        moments, newest = self._moments, self._moments.newest
        self._arrangement.timeline = ""
        if newest is not None and not self._screen.stalltop.options.still:
            needed = moments.frozen or moments.comparing or self._file
            self._arrangement.timeline = "needed" if needed else "roomy"
        self._arrangement.fit()
        if line.display and newest is not None:
            mark = moments.mark.at if moments.mark is not None else None
            line.show(timespan(newest.kept.stretch, moments.at, mark, moments.span, all_of_it=self._file))


def _disk_rates(window: Window) -> DiskRates | None:
    """Return what the disks of the host moved per second; None if that is not traced."""
    if window.coverage.tracing or not window.seconds:
        return None
    moved = {False: 0, True: 0}
    for io in window.evidence.block_io:
        moved[io.write] += io.bytes
    return DiskRates(moved[False] / window.seconds, moved[True] / window.seconds)
