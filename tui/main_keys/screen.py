"""The main screen with its keys."""

from __future__ import annotations

from textual import on

from stalltop.tui.keys.actions import TYPED_ACTIONS, bindings
from stalltop.tui.main.filter_entry import FilterEntry
from stalltop.tui.main.opens import Opens
from stalltop.tui.main.view import MainView
from stalltop.tui.main_keys.files import FileKeys
from stalltop.tui.main_keys.filter_keys import FilterKeys
from stalltop.tui.main_keys.panels import PanelKeys
from stalltop.tui.main_keys.playing import Playing
from stalltop.tui.main_keys.problems import ProblemKeys
from stalltop.tui.main_keys.program import ProgramKeys
from stalltop.tui.main_keys.reset import Reset
from stalltop.tui.main_keys.rows import RowKeys
from stalltop.tui.main_keys.time_keys import TimeKeys
from stalltop.tui.tables.steps import TableSteps
from stalltop.widgets.alerts import AlertList
from stalltop.widgets.answer import AnswerLines
from stalltop.widgets.table import Table
from stalltop.widgets.timeline import Timeline


class MainScreen(MainView):
    """The main screen. ``tui.keys.actions`` names what a key does as PART.METHOD; the parts are attributes of
    this class."""

    BINDINGS = bindings("screen")

    def __init__(self, length: float | None, opens: Opens, *, file: bool = False) -> None:
        """The arguments are those of MainView."""
        super().__init__(length, opens, file=file)
        self.time = TimeKeys(self)
        self.playing = Playing(self, self.time)
        self.panels = PanelKeys(self)
        self.files = FileKeys(self)
        steps = TableSteps(self.tables)
        self.problems = ProblemKeys(self, steps, self.panels, self.files)
        self.rows = RowKeys(self, steps, self.panels, self.time)
        self.filter = FilterKeys(self)
        self.program = ProgramKeys(self)
        self.reset = Reset(self, self.panels, self.filter, self.time)

    def action_do(self, what: str, *parameters: object) -> None:
        """Run the method PART.METHOD that ``what`` names, with ``parameters``."""
        part, _, method = what.partition(".")
        getattr(getattr(self, part), method)(*parameters)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the user types a filter, disable the keys that open a line of text: they are letters of the
        filter."""
        opens_a_line = action == "do" and parameters[0] in TYPED_ACTIONS
        return not (opens_a_line and isinstance(self.focused, FilterEntry))

    @on(AlertList.LineChosen)
    def _alert_chosen(self, message: AlertList.LineChosen) -> None:
        self.problems.open(message.key)

    @on(AlertList.LineMoved)
    @on(Table.Moved)
    def _cursor_moved(self) -> None:
        self.drawing.follow_cursor()

    @on(AnswerLines.Chosen)
    def _answer_chosen(self) -> None:
        self.problems.open_answer()

    @on(Table.RowChosen)
    def _row_chosen(self, message: Table.RowChosen) -> None:
        self.rows.enter(message.table, message.key)

    @on(Timeline.MomentChosen)
    def _time_chosen(self, message: Timeline.MomentChosen) -> None:
        self.time.go_to(message.at)

    @on(FilterEntry.Changed, "#filter")
    def _filter_changed(self, message: FilterEntry.Changed) -> None:
        self.filter.changed(message.value)

    @on(FilterEntry.Cleared)
    def _filter_cleared(self) -> None:
        self.filter.clear()

    @on(FilterEntry.Submitted, "#filter")
    def _filter_submitted(self) -> None:
        self.filter.close()
