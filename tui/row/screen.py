"""The page about one row of a table."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding

from stalltop.model.merge.packing import Packed
from stalltop.model.window import Window
from stalltop.tui.chain.screen import ChainScreen
from stalltop.tui.keys.actions import own_bindings
from stalltop.tui.pages.live import Drawn, LivePage
from stalltop.tui.pages.sections import Frame
from stalltop.tui.row import calls as row_calls
from stalltop.tui.row import cuda_kernels as row_kernels
from stalltop.tui.row import owner as row_owner
from stalltop.tui.row import page as row_page
from stalltop.tui.row import stacks as row_stacks
from stalltop.tui.row.facts import RowFacts, facts
from stalltop.tui.row.past import RowPast
from stalltop.tui.views.path import Path
from stalltop.widgets.distribution import DurationAxis, axis_of
from stalltop.widgets.drawing.strips import printable

AT_ONCE = 30
"""Number of earlier windows that are computed before keys are handled again."""

TWO_COLUMNS_FROM = 150
"""Least width in cells at which the sections below the histogram are in two columns."""


class RowScreen(LivePage):
    """Shows what is known about the row at ``path``."""

    BINDINGS = [
        *own_bindings(chains="chains", commands="commands", devices="devices", stacks="stacks"),
        Binding("enter", "chains", show=False),
        Binding("I", "close", show=False),
    ]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._past = RowPast(path)
        self._facts: RowFacts | None = None
        self._axis: DurationAxis | None = None
        self._parts: set[str] = set()
        """Parts of the split that the page has shown since it was opened. They keep their lines."""

    def draw(self, window: Window, past: Sequence[Packed], frame: Frame) -> Drawn:
        """Return the page of the row."""
        found = self._facts = facts(window, self._path)
        self._axis = axis_of(found.groups.histograms, int(found.groups.max_ns[0]), self._axis)
        self._parts |= row_page.shown_parts(found)
        two = frame.width >= TWO_COLUMNS_FROM
        half = frame.half if two else frame
        samples = self._past.look(past[-row_page.past_columns(half) :], AT_ONCE)
        first = (
            row_page.title(found, frame),
            row_page.chains(found, frame),
            row_page.durations(found, frame, self._axis),
        )
        time = (
            row_page.split(found, half, self._parts),
            row_page.past(samples, half, self._parts, calls=not found.between),
            row_page.takers(found, half),
            row_page.wakers(found, half),
            row_kernels.kernels(found, half),
            row_stacks.where_from(found, half),
            row_calls.kept_calls(found, half),
            row_page.open_calls(found, half),
        )
        owner = (
            row_owner.processes(found, half),
            row_owner.devices(found, half),
            row_owner.owner(found, half),
            row_owner.unknown(found, half),
        )
        return Drawn(
            title=f"Row  {printable(found.name)}",
            hint=f"Enter problem  {self.keys_hint}" if found.chains else self.keys_hint,
            sections=first if two else (*first, *time, *owner),
            beside=(time, owner) if two else ((), ()),
            unfinished=None in samples,
        )

    def action_chains(self) -> None:
        """Open the problems that name the row."""
        if self._facts is not None and self._facts.chains:
            self.app.push_screen(ChainScreen(self._facts.chains))
        else:
            self.say("No problem involves this row")

    def action_commands(self) -> None:
        """Open the commands for the row."""
        self.main.problems.commands_of_row(self._path)

    def action_stacks(self) -> None:
        """Open the page with the lines of code of the row."""
        self.main.opens.stacks(self._path)

    def action_devices(self) -> None:
        """Open the page of a device, or the list of devices, on top of this page (``RowKeys.devices``)."""
        self.main.rows.devices()
