"""The page of one chain, with the others of its list to the left and right."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding
from textual.timer import Timer

from model.chain import Chain
from tui.chain_page import chain_page
from tui.keys import bindings
from tui.pages_screen import PageScreen
from widgets.page import Page

SAID_SECONDS = 3.0
"""How long the first line says what a key has done."""


class ChainScreen(PageScreen):
    """Shows one of ``chains`` as it is in the window on the main screen."""

    TITLE_TEXT = "Why"
    BINDINGS = [
        *bindings("screen", "chains", "copy_fix", "silence", "save", "freeze"),
        Binding("escape,q,a", "close", show=False),
        Binding("left", "step(-1)", show=False, priority=True),
        Binding("right", "step(1)", show=False, priority=True),
    ]

    def __init__(self, chains: Sequence[Chain], at: int = 0) -> None:
        super().__init__()
        self._chains = list(chains)
        self._at = at
        self._said: Timer | None = None
        self._text = ""

    def on_mount(self) -> None:
        """Show the text, and again each second."""
        self._show()
        self.set_interval(1.0, self._show)

    @property
    def chain(self) -> Chain:
        """The chain that is shown, as it was last known."""
        return self._chains[self._at]

    def _show(self) -> None:
        window = self.stalltop.main.shown
        if window is None:
            return
        known = {chain.id: chain for chain in window.chains}
        self._chains = [known.get(chain.id, chain) for chain in self._chains]
        unicode = self.stalltop.unicode
        number = f"{self._at + 1} of {len(self._chains)}  Left Right  " if len(self._chains) > 1 else ""
        silenced = "  (silenced)" if self.chain.id in self.stalltop.main.panel.silenced else ""
        self.query_one("#page", Page).show(
            chain_page(self.chain, window, unicode=unicode, letters=self.app.no_color),
            title=f"{self.TITLE_TEXT}{silenced}",
            hint=self._text or f"{number}i row  y copy fix  z silence  Esc closes",
        )

    def say(self, text: str) -> None:
        """Say on the first line, for some seconds, what was done."""
        if self._said is not None:
            self._said.stop()
        self._said = self.set_timer(SAID_SECONDS, lambda: self.say("")) if text else None
        self._text = text
        self._show()

    # ---- keys

    def action_step(self, step: int) -> None:
        """The previous or next chain."""
        self._at = min(max(self._at + step, 0), len(self._chains) - 1)
        self.query_one("#page", Page).action_end(-1)
        self._show()

    def action_chains(self) -> None:
        """To the row that the chain speaks of."""
        self.to_main()
        self.stalltop.main.to_row(self.chain)

    def action_copy_fix(self) -> None:
        """Copy the command that helps; just after a file was saved, its path."""
        if self.stalltop.main.copy_path():
            return
        self.say(self.stalltop.copy_fix(self.chain))

    def action_silence(self) -> None:
        """Hide the chain on the main screen, or show it again."""
        self.say(self.stalltop.main.silence(self.chain))

    def action_freeze(self) -> None:
        """Hold the picture, or let it go."""
        self.say(self.stalltop.main.action_freeze())
