"""The list of problems and warnings on the main screen: its content, and how many lines it takes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stalltop.model.telling import NO_TELLINGS, Tellings
from stalltop.model.window import Window
from stalltop.tui.keys.actions import bindings
from stalltop.tui.problems.answer import Answering
from stalltop.tui.problems.chains import Listed, listed, stands
from stalltop.tui.problems.folding import together
from stalltop.tui.problems.silenced import Silenced
from stalltop.tui.screens.steady import Steady
from stalltop.widgets.alerts import AlertList, AlertRow
from stalltop.widgets.answer import AnswerState

QUIET = "No problems detected"
QUIET_NOW = "No active problems; past ones and information below"
QUIET_BUT = "No problems except silenced ones"

_LINES_EACH = 8
"""If the terminal has fewer lines than this for each problem, one line stands for all victims of a
culprit."""
QUIET_LINE, COVERAGE_LINE = "quiet", "coverage"
"""Keys of the line that says that no problem is open, and of the line that opens the page about coverage."""


class AlertPanel(AlertList, can_focus=True):
    """The list of problems with the key bindings of ``tui.keys.actions``."""

    BINDINGS = bindings("table")

    def __init__(self, widget_id: str) -> None:
        super().__init__(widget_id)
        self.room = AlertRoom(self)
        self.found = Listed((), (), 0)
        """The lines of the list."""
        self.silenced = Silenced()
        self._gone: str | None = None
        """The id of the chain that was under the cursor when the list lost it; None after the next key."""
        self.answering = Answering()
        """Chooses the problem that the first lines of the screen show."""

    def watch_has_focus(self, has_focus: bool) -> None:
        """Keep the cursor on the line that was the worst when the list got the focus."""
        super().watch_has_focus(has_focus)
        self._gone = None
        if has_focus:
            self.action_move(0)

    def action_move(self, rows: int) -> None:
        """Move the cursor by ``rows``."""
        self._gone = None
        super().action_move(rows)

    def put_cursor(self, key: Hashable) -> None:
        """Move the cursor to the row ``key``, now or as soon as it is shown."""
        self._gone = None
        super().put_cursor(key)

    def action_choose(self) -> None:
        """Post ``LineChosen``: for the line under the cursor, or for the one that has just left the list."""
        if self._gone is None:
            super().action_choose()
        else:
            self.post_message(self.LineChosen(self._gone))
            self.action_move(0)

    def _follow_cursor(self, before: Listed) -> None:
        """Keep the cursor on the chain under it: after the chain ended, its line may show several chains. If
        the chain left the list, remember its id."""
        under = self.cursor_key
        if not self.has_focus or before.chain(under) is None:
            return
        if str(under) not in self.found.lines:
            self._gone = str(under)
        elif under not in {row.key for row in self.found.rows}:
            self.put_cursor(self.found.lines[str(under)])

    def update_from(
        self,
        window: Window | None,
        notes: Sequence[str],
        starting: str = "",
        *,
        tellings: Tellings = NO_TELLINGS,
        still: bool = False,
        verdict_in: float = 0.0,
        told_above: bool = False,
    ) -> AnswerState:
        """Show the problems of ``window`` and ``notes``, or the text ``starting`` while there is no window.
        Returns what the first lines of the screen show.

        ``tellings``, ``still`` and ``verdict_in`` are those of ``Answering.update``. With ``told_above`` the
        list leaves out what the first lines show already. While the list has the focus, it has a line for
        each problem.
        """
        before = self.found
        found = self.found = listed(
            window,
            notes,
            before=before.sorted_by,
            held=before.held,
            silenced=self.silenced.keys,
            show_silenced=self.silenced.shown,
            glyphs=self.glyphs,
        )
        self._follow_cursor(before)
        rows = list(found.rows)
        if not rows or (rows[0].ended and not any(stands(row.key) for row in rows)):
            text = QUIET_BUT if found.silenced else QUIET_NOW if found.chains else QUIET
            rows.insert(0, AlertRow(QUIET_LINE, " ", "dim", text if window is not None else starting))
        silenced = f"{found.silenced} silenced" if found.silenced else ""
        coverage = AlertRow(COVERAGE_LINE, "-", "dim", "coverage: what is traced, what is not, and the cost")
        answer = self.answering.update(
            window,
            found,
            silenced=self.silenced.keys,
            tellings=tellings,
            still=still,
            verdict_in=verdict_in,
            starting=starting,
            glyphs=self.glyphs,
        )
        told = self.answering.chain
        first = self.answering.warned if told is None else told.id
        above = {QUIET_LINE, first} if told_above else ()
        others = [(found.chain(row.key), row) for row in rows if row.key not in above]
        if told is not None or verdict_in > 0:  # what is no fault can wait
            others = [(one, row) for one, row in others if one is None or one.severity != "info"]
        brief = [row for _, row in others]
        if window is not None and len(brief) > self.app.size.height // _LINES_EACH:
            brief = together(others, window, self.glyphs)
        self.show(rows, [*found.aside, coverage], silenced, brief)
        return answer


class AlertRoom:
    """Computes how many lines ``panel`` needs."""

    def __init__(self, panel: AlertPanel) -> None:
        self._panel = panel
        self._least = 0
        """The largest number of lines that the list needed since it got the focus; 0 without the focus."""
        self._steady = Steady()

    def forget_height(self) -> None:
        """Forget the height of the list, because the size of the terminal changed."""
        self._least = 0
        self._steady.forget()

    def need(self, at: object) -> int:
        """Return the number of lines that the list needs. ``at`` identifies the window.

        The list shrinks only after it was shorter for some time, so that the panels below seldom move when
        problems come and go. With the focus it never shrinks.
        """
        needed = self._steady.need(self._panel.needed, at)
        if not self._panel.has_focus:
            self._least = 0
            return needed
        self._least = max(self._panel.wanted, self._least)
        return self._least
