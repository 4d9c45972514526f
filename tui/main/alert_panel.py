"""The list of what is wrong on the main screen: its order, what is silenced, how many lines it takes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stalltop.model.chain import Chain
from stalltop.model.window import Window
from stalltop.tui.chain.chains import STANDING, Listed, listed
from stalltop.tui.keys import bindings
from stalltop.widgets.alerts import AlertList, AlertRow

QUIET = "no warnings: nothing is slow without a reason, nothing hangs, every call is counted"
QUIET_NOW = "no warnings now; what is listed is over, or no fault"
QUIET_BUT = "no warnings but what is silenced"


class AlertPanel(AlertList, can_focus=True):
    """The list with the keys of ``tui.keys``."""

    BINDINGS = bindings("table")

    def __init__(self, widget_id: str, *, unicode: bool) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._least = 0
        """Lines that it had since it has the focus."""
        self._height: int | str = 1
        self.found = Listed((), (), 0)
        """What is listed."""
        self.silenced: set[Hashable] = set()
        """Keys of lines that are hidden; those of chains are their ids."""
        self._silenced_shown = False

    def update_from(self, window: Window | None, notes: Sequence[str], starting: str = "") -> None:
        """Show what is wrong in ``window``, and ``notes``; before the first, what is done until then."""
        found = self.found = listed(
            window,
            notes,
            before=self.found.sorted_by,
            held=self.found.held,
            silenced=self.silenced,
            show_silenced=self._silenced_shown,
            unicode=self.unicode,
        )
        rows = list(found.rows)
        if not rows or (rows[0].ended and not any(_stands(row.key) for row in rows)):
            text = QUIET_BUT if found.silenced else QUIET_NOW if found.chains else QUIET
            rows.insert(0, AlertRow("quiet", " ", "dim", text if window is not None else starting))
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

    @property
    def stands_here(self) -> bool:
        """Whether the line under the cursor says what is so from the start and stays so."""
        return _stands(self.cursor_key)

    def silence_here(self) -> str:
        """Hide the line under the cursor from now on, or show it again; gives what is to be said about it."""
        self.silenced ^= {self.cursor_key}
        return "silenced: this line" if self.cursor_key in self.silenced else "speaks again: this line"

    def show_silenced(self) -> str:
        """Show hidden chains too, or hide them again; gives what is to be said about it."""
        self._silenced_shown = not self._silenced_shown
        return "what is silenced is shown" if self._silenced_shown else "what is silenced is hidden"

    def forget_height(self) -> None:
        """The size of the terminal has changed."""
        self._least = 0

    def fit(self, most: int) -> None:
        """Take ``most`` lines, needed or not: what lies below does not move as chains come and go. With the
        focus take the lines that are needed, and never fewer than before."""
        height = self.app.size.height
        if most >= height:
            wanted: int | str = "1fr"
        elif self.has_focus:
            wanted = self._least = max(min(self.wanted, height // 2 - 4), self._least, most, 3)
        else:
            wanted, self._least = most, 0
        if wanted != self._height:
            self._height = self.styles.height = wanted


def _stands(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[0] == STANDING
