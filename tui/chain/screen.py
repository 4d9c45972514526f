"""The page about one problem, from which the user can turn to the other problems of the list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.binding import Binding

from stalltop.model.chain import Chain
from stalltop.tui.chain.page import chain_page
from stalltop.tui.keys.actions import key, own_bindings
from stalltop.tui.pages.live import LiveScreen
from stalltop.widgets.page import Page


class ChainScreen(LiveScreen):
    """Shows one of ``chains`` as it is in the window on the main screen."""

    TITLE_TEXT = "Why"
    BINDINGS = [
        *own_bindings(chains="chains", commands="commands", silence="silence"),
        Binding("a", "close", show=False),
        Binding("left", "turn(-1)", show=False, priority=True),
        Binding("right", "turn(1)", show=False, priority=True),
    ]

    def __init__(self, chains: Sequence[Chain], at: int = 0) -> None:
        super().__init__()
        self._chains = list(chains)
        self._at = at

    @property
    def chain(self) -> Chain:
        """Return the chain that is shown, as it was in the last window that contained it."""
        return self._chains[self._at]

    def show_page(self) -> None:
        """Draw the page of the chain, with the state of the chain in the window that is shown."""
        window = self.main.shown
        if window is None or not self.whole:
            return
        self._drawn_of = window
        known = {chain.id: chain for chain in window.chains}
        # The list keeps a severity for some time: it is the same here.
        held = {chain.id: chain.severity for chain in self.main.panel.found.open}
        found = [known.get(chain.id, chain) for chain in self._chains]
        self._chains = [
            replace(chain, severity=held.get(chain.id, chain.severity)) if chain.open else chain
            for chain in found
        ]
        number = f"{self._at + 1} of {len(self._chains)}  Left Right  " if len(self._chains) > 1 else ""
        silenced = "  (silenced)" if self.chain.id in self.main.panel.silenced.keys else ""
        self.query_one("#page", Page).show(
            chain_page(self.chain, window, glyphs=self.stalltop.glyphs, letters=self.stalltop.letters),
            title=f"{self.TITLE_TEXT}{silenced}",
            # On 80 cells there is no room for the first of these.
            hint=f"{key('save')} save  {key('chains')} row  {key('copy')} copy fix"
            f"  {key('commands')} actions  {key('silence')} silence  {number}Esc closes",
            said=self._text,
        )

    # ---- keys

    def action_turn(self, step: int) -> None:
        """Show the previous (-1) or next (1) chain."""
        self._at = min(max(self._at + step, 0), len(self._chains) - 1)
        self.query_one("#page", Page).action_end(-1)
        self.show_page()

    def action_chains(self) -> None:
        """Go to the row that the chain names."""
        self.to_main()
        self.main.problems.to_row(self.chain)

    def action_copy(self) -> None:
        """Copy the command that fixes the problem. Shortly after a file was saved, copy the path of that file
        instead."""
        if not self.main.files.copy_path():
            self.main.problems.copy_fix_of(self.chain)

    def action_commands(self) -> None:
        """Open the commands for the problem."""
        self.main.problems.commands_of(self.chain)

    def action_silence(self) -> None:
        """Silence the problem on the main screen, or show it again."""
        self.main.problems.silence_chain(self.chain)
