"""The list of problems and warnings on the main screen: its content, what is silenced, and its height."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stalltop.model.chain import Chain
from stalltop.model.window import Window
from stalltop.tui.keys.actions import bindings
from stalltop.tui.problems.chains import STANDING, Listed, listed
from stalltop.widgets.alerts import AlertList, AlertRow

QUIET = "no warnings: nothing is slow without a reason, nothing hangs, every call is counted"
QUIET_NOW = "no warnings now; the lines below are past problems or information"
QUIET_BUT = "no warnings except silenced ones"


class AlertPanel(AlertList, can_focus=True):
    """The list of problems with the key bindings of ``tui.keys``."""

    BINDINGS = bindings("table")

    def __init__(self, widget_id: str) -> None:
        super().__init__(widget_id)
        self._least = 0
        """The largest number of lines that the list took since it got the focus; 0 without the focus."""
        self._height: int | str = 1
        self.found = Listed((), (), 0)
        """The lines of the list."""
        self.silenced: set[Hashable] = set()
        """Keys of hidden lines. The key of a problem's line is the chain's id."""
        self._silenced_shown = False

    def update_from(self, window: Window | None, notes: Sequence[str], starting: str = "") -> None:
        """Show the problems of ``window`` and ``notes``, or the text ``starting`` while there is no
        window."""
        found = self.found = listed(
            window,
            notes,
            before=self.found.sorted_by,
            held=self.found.held,
            silenced=self.silenced,
            show_silenced=self._silenced_shown,
            glyphs=self.glyphs,
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
        """Return the chain of the line under the cursor; None if that line has none."""
        return next((chain for chain in self.found.chains if chain.id == self.cursor_key), None)

    def silence(self, chain: Chain) -> str:
        """Hide ``chain`` from now on; show it again if it is hidden. Returns a message for the user."""
        self.silenced ^= {chain.id}
        return (
            f"silenced: {chain.title}" if chain.id in self.silenced else f"no longer silenced: {chain.title}"
        )

    @property
    def stands_here(self) -> bool:
        """Return whether the line under the cursor is about something that holds since the start and does not
        change."""
        return _stands(self.cursor_key)

    def silence_here(self) -> str:
        """Hide the line under the cursor from now on; show it again if it is hidden. Returns a message for
        the user."""
        self.silenced ^= {self.cursor_key}
        return "silenced: this line" if self.cursor_key in self.silenced else "no longer silenced: this line"

    def show_silenced(self) -> str:
        """Show hidden problems too, or hide them again. Returns a message for the user."""
        self._silenced_shown = not self._silenced_shown
        return "silenced lines are shown" if self._silenced_shown else "silenced lines are hidden"

    def forget_height(self) -> None:
        """Forget the height of the list, because the size of the terminal changed."""
        self._least = 0

    def fit(self, most: int) -> None:
        """Take ``most`` lines even if fewer are needed, so that what is below does not move when problems
        come and go. With the focus, take the lines that are needed, and never fewer than before."""
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
