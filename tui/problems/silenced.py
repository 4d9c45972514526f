"""The lines of the list of problems that the user has silenced: they are hidden until the user shows them."""

from __future__ import annotations

from collections.abc import Hashable

from stalltop.model.chain import Chain
from stalltop.tui.keys.actions import key


class Silenced:
    """Remembers the silenced lines. Its methods return messages for the user."""

    def __init__(self) -> None:
        self.keys: set[Hashable] = set()
        """Keys of silenced lines. The key of a problem's line is the chain's id."""
        self.shown = False
        """Whether silenced lines are shown."""

    def toggle(self, chain: Chain) -> str:
        """Silence ``chain`` from now on. If it is silenced already, show it again."""
        self.keys ^= {chain.id}
        return _said(f": {chain.title}", silenced=chain.id in self.keys)

    def toggle_line(self, line: Hashable) -> str:
        """Silence the line with the key ``line``, which is not about a problem. If it is silenced already,
        show it again."""
        self.keys ^= {line}
        return _said(": this line", silenced=line in self.keys)

    def toggle_shown(self) -> str:
        """Show silenced lines too, or hide them again."""
        self.shown = not self.shown
        return "silenced lines are shown" if self.shown else "silenced lines are hidden"


def _said(what: str, *, silenced: bool) -> str:
    """Return the message about a line; that about a silenced one says how to get it back."""
    if not silenced:
        return f"no longer silenced{what}"
    return f"silenced{what}; to undo: {key('silenced')}, then {key('silence')} on its line"
