"""The help of the fleet's screen: its keys, from the table of keys."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding

from stalltop.tui.keys.actions import ACTIONS, bindings
from stalltop.tui.keys.page_keys import PAGES
from stalltop.tui.screens.bases import AppScreen
from stalltop.widgets.page import Page, PageLine

_WIDTH = 14
"""Cells of the column of keys."""
SHARED = (
    *("copy", "freeze", "theme", "out", "help"),
    *("up", "down", "page_up", "page_down", "first", "last", "left", "right"),
)
"""Ids of actions that mean the same as on the screen of a host."""


def fleet_help() -> list[PageLine]:
    """Returns the keys of the fleet's screen, and the signs of its rows."""
    own = next(page for page in PAGES if "FleetScreen" in page.screens)
    lines = [PageLine((("Keys", "head"),))]
    lines += [_line(keys, said) for keys, said in own.lines()]
    lines += [_line(one.key, one.help) for one in ACTIONS if one.id in SHARED]
    lines += [PageLine(), PageLine((("Hosts", "head"),))]
    lines += [
        _line("live", "sends a summary a second"),
        _line("silent", "has sent nothing for 5 s, or more; forgotten after an hour"),
        _line("unreadable", "sends what this program cannot read, or another version of it"),
    ]
    return lines


def _line(name: str, meaning: str) -> PageLine:
    return PageLine((("  " + name.ljust(_WIDTH) + " ", "accent"), (meaning, "text")), indent=_WIDTH + 3)


class _HelpPage(Page, can_focus=True):
    BINDINGS = bindings("table", "move", "page", "end")


class FleetHelp(AppScreen):
    """Lists the keys."""

    BINDINGS = [Binding("escape,q,question_mark", "close", show=False)]

    def compose(self) -> ComposeResult:
        """Yield the page."""
        yield _HelpPage("Help", "Esc closes", "page")

    def on_mount(self) -> None:
        """Show the text."""
        self.query_one("#page", Page).show(fleet_help())

    def action_close(self) -> None:
        """Return to the fleet."""
        self.dismiss()
