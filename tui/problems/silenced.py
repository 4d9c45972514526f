"""The lines of the list of problems that the user has silenced: they are hidden until the user shows them."""

from __future__ import annotations

from collections.abc import Hashable

from stalltop.model.chain import Chain


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
        return f"silenced: {chain.title}" if chain.id in self.keys else f"no longer silenced: {chain.title}"

    def toggle_line(self, key: Hashable) -> str:
        """Silence the line ``key``, which is not about a problem. If it is silenced already, show it
        again."""
        self.keys ^= {key}
        return "silenced: this line" if key in self.keys else "no longer silenced: this line"

    def toggle_shown(self) -> str:
        """Show silenced lines too, or hide them again."""
        self.shown = not self.shown
        return "silenced lines are shown" if self.shown else "silenced lines are hidden"
