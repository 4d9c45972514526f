"""The list of what is wrong on the main screen: its order, what is silenced, how many lines it takes."""

from __future__ import annotations

from collections.abc import Sequence

from model.chain import Chain
from model.window import Window
from tui.chains import Listed, listed
from tui.keys import bindings
from widgets.alerts import AlertList, AlertRow

QUIET = "no warnings: nothing is slow without a reason, nothing hangs, nothing is lost"
STARTING = "starting: loading probes and looking for CUDA processes"


class AlertPanel(AlertList, can_focus=True):
    """The list with the keys of ``tui.keys``."""

    BINDINGS = bindings("table")

    def __init__(self, widget_id: str, *, unicode: bool) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._least = 1
        self._height: int | str = 1
        self.found = Listed((), (), 0)
        """What is listed."""
        self.silenced: set[str] = set()
        """Ids of chains that are hidden."""
        self._silenced_shown = False

    def update_from(self, window: Window | None, notes: Sequence[str]) -> None:
        """Show what is wrong in ``window``, and ``notes``."""
        found = self.found = listed(
            window,
            notes,
            before=self.found.sorted_by,
            silenced=self.silenced,
            show_silenced=self._silenced_shown,
            unicode=self.unicode,
        )
        rows = list(found.rows)
        if not rows or rows[0].ended:
            rows.insert(0, AlertRow("quiet", " ", "dim", QUIET if window is not None else STARTING))
        silenced = f"{found.silenced} silenced" if found.silenced else ""
        coverage = AlertRow("coverage", "-", "dim", "what is traced, what that costs, and warnings in full")
        self.show(rows, [*found.aside, coverage], silenced)

    @property
    def chain_here(self) -> Chain | None:
        """The chain under the cursor."""
        return next((chain for chain in self.found.chains if chain.id == self.cursor_key), None)

    def silence(self, chain: Chain) -> str:
        """Hide ``chain`` from now on, or show it again; gives what is to be said about it."""
        self.silenced ^= {chain.id}
        return f"silenced: {chain.title}" if chain.id in self.silenced else f"speaks again: {chain.title}"

    def show_silenced(self) -> str:
        """Show hidden chains too, or hide them again; gives what is to be said about it."""
        self._silenced_shown = not self._silenced_shown
        return "silenced chains are shown" if self._silenced_shown else "silenced chains are hidden"

    def forget_height(self) -> None:
        """The size of the terminal has changed."""
        self._least = 1

    def fit(self, most: int) -> None:
        """Take the lines that are needed; without the focus no more than ``most``, and never fewer than
        before: what lies below does not move up and down."""
        height = self.app.size.height
        if most >= height:
            wanted: int | str = "1fr"
        elif self.has_focus:
            wanted = max(min(self.wanted, height // 2 - 4), most, 3)
        else:
            wanted = self._least = min(max(self.wanted, self._least), most)
        if wanted != self._height:
            self._height = self.styles.height = wanted
