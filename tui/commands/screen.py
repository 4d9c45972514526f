"""The page with the commands for a row or a problem, from which the user copies one."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.binding import Binding

from stalltop.model.actions.offers import Offer
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.tui.commands.page import entries
from stalltop.tui.keys.actions import bindings, key
from stalltop.tui.pages.live import LiveScreen
from stalltop.widgets.drawing.strips import printable
from stalltop.widgets.entries import EntryList


class OfferList(EntryList, can_focus=True):
    """The list of commands, with the keys of tables."""

    BINDINGS = bindings("table", "move", "page", "end", "choose")


class CommandsScreen(LiveScreen):
    """Shows commands and copies the selected one. Runs none of them.

    The commands stay as they were when the page was opened, so that their figures do not change while the
    user reads them. If the problem that they are for ends, the page says so.
    """

    BINDINGS = [Binding("A", "close", show=False)]

    def __init__(self, name: str, offers: Sequence[Offer], window: Window, problem: str = "") -> None:
        """``name`` is that of the row or problem; ``offers`` were made from ``window``. ``problem`` is the id
        of the chain that they are for; empty: of none."""
        super().__init__()
        self._about = name
        self._offers = tuple(offers)
        self._window = window
        self._problem = problem

    def content(self) -> OfferList:
        """Return the list of commands, which fills the screen."""
        return OfferList("page")

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one("#page").focus()

    def show_page(self) -> None:
        """Draw the commands."""
        if not self.whole:
            return
        self._drawn_of = self.main.shown
        self.query_one("#page", OfferList).show(
            entries(self._offers, self._window, self._text, ended=self._ended()),
            title=f"Commands  {self._about}",
            hints=(
                f"{key('copy')} or Enter copies the selected one  Esc closes",
                f"{key('copy')} copy  Esc closes",
            ),
        )

    def _ended(self) -> str:
        """Return a line that says that the problem has ended; empty if it has not."""
        window = self.main.shown
        if window is None or not self._problem:
            return ""
        chain = next((chain for chain in window.chains if chain.id == self._problem), None)
        if chain is not None and chain.open:
            return ""
        when = "" if chain is None else f" at {figures.clock(chain.seen)}"
        return f"This problem ended{when}: check first whether a command is still needed."

    # ---- keys

    @on(EntryList.EntryChosen)
    def action_copy(self) -> None:
        """Copy the selected command. Shortly after a file was saved, copy the path of that file instead."""
        at = self.query_one("#page", OfferList).cursor_key
        if self.main.files.copy_path():
            return
        if not isinstance(at, int):
            self.say("there is no command to copy")
            return
        # On one line, so that pasting it does not run it.
        self.say(self.stalltop.copy(printable(self._offers[at].command)))
