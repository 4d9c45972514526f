"""The page of one row of a table."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding

from model.packing import Packed
from model.window import Window
from tui import row_owner, row_page
from tui.chain_screen import ChainScreen
from tui.keys import bindings
from tui.live_page import Drawn, LivePage
from tui.row_facts import Path, RowFacts, facts
from tui.row_past import RowPast
from tui.sections import Frame
from widgets.distribution import Axis, axis_of
from widgets.strips import printable

AT_ONCE = 30
"""Windows of the past that are worked out before keys are looked at again."""


class RowScreen(LivePage):
    """Shows all that is known of the row at ``path``."""

    BINDINGS = [
        *bindings("screen", "chains", "devices"),
        Binding("enter", "chains", show=False),
        Binding("I", "close", show=False),
    ]

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._past = RowPast(path)
        self._facts: RowFacts | None = None
        self._axis: Axis | None = None
        self._parts: set[str] = set()
        """Parts of the split that were seen while the page is open: they keep their lines."""

    def draw(self, window: Window, past: Sequence[Packed], frame: Frame) -> Drawn:
        """The page of the row."""
        found = self._facts = facts(window, self._path)
        self._axis = axis_of(found.groups.histograms, int(found.groups.max_ns[0]), self._axis)
        self._parts |= row_page.shown_parts(found)
        samples = self._past.look(past[-row_page.past_columns(frame) :], AT_ONCE)
        return Drawn(
            title=f"Row  {printable(found.name)}",
            hint="Enter chain  y copy  Space freeze  Esc closes"
            if found.chains
            else "y copy  Space freeze  Esc closes",
            sections=(
                row_page.title(found, frame),
                row_page.chains(found, frame),
                row_page.durations(found, frame, self._axis),
                row_page.split(found, frame, self._parts),
                row_page.past(samples, frame, self._parts),
                row_page.takers(found, frame),
                row_page.wakers(found, frame),
                row_page.open_calls(found, frame),
                row_owner.processes(found, frame),
                row_owner.devices(found, frame),
                row_owner.owner(found, frame),
                row_owner.unknown(found, frame),
            ),
            unfinished=None in samples,
        )

    def action_chains(self) -> None:
        """The chains that speak of the row."""
        if self._facts is not None and self._facts.chains:
            self.app.push_screen(ChainScreen(self._facts.chains))
        else:
            self.say("no chain speaks of this row")

    def action_devices(self) -> None:
        """The devices, upon this page."""
        self.stalltop.main.action_devices()
