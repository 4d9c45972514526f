"""Where a moment is typed: one line over that of the keys, on whatever screen asks for it."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from stalltop.tui.past.when import EXAMPLES, moment, when

HINT = "Enter goes  Esc closes"
_HINT_FROM = 60
"""Cells from which there is room for it."""


class WhenScreen(ModalScreen[float | None]):
    """Gives the moment that was typed, Unix time; None where it was closed."""

    BINDINGS = [Binding("escape", "close", show=False)]
    ALLOW_SELECT = False

    def __init__(self, start: float, end: float, shown: float) -> None:
        """What is kept is from ``start`` to ``end``; ``shown`` is looked at. All are Unix times."""
        super().__init__()
        self._start, self._end, self._shown = start, end, shown

    def compose(self) -> ComposeResult:
        """What can be typed, or what is wrong with it, above the line."""
        yield Label(self._range, id="when-said", markup=False)
        with Horizontal(id="when-entry"):
            yield Label("time", id="when-prompt")
            yield Input(id="when", placeholder=EXAMPLES, compact=True, max_length=40)
            yield Label(HINT, id="when-hint")

    @property
    def _range(self) -> str:
        return f"kept: {when(self._start, self._end)} to {when(self._end, self._end)}"

    def on_mount(self) -> None:
        """Nothing blinks; the hint stays where there is room."""
        self.query_one(Input).cursor_blink = False
        self.query_one("#when-hint").display = self.app.size.width >= _HINT_FROM

    def on_resize(self, event: events.Resize) -> None:
        """Leave the hint out where there is no room for it."""
        self.query_one("#when-hint").display = event.size.width >= _HINT_FROM

    @on(Input.Changed)
    def _typed(self) -> None:
        self.query_one("#when-said", Label).update(self._range)

    @on(Input.Submitted)
    def _entered(self, message: Input.Submitted) -> None:
        if not message.value.strip():
            self.dismiss(None)
            return
        try:
            at = moment(message.value, start=self._start, end=self._end, shown=self._shown)
        except ValueError as error:
            self.query_one("#when-said", Label).update(str(error))
        else:
            self.dismiss(at)

    async def on_key(self, event: events.Key) -> None:
        """Keys that came before there was a line to type in, as those of a paste do, are typed there."""
        entry = self.query_one(Input)
        if entry.has_focus:
            return
        if event.key == "enter":
            event.stop()
            await entry.action_submit()
        elif event.character is not None and event.is_printable:
            event.stop()
            entry.insert_text_at_cursor(event.character)

    def action_close(self) -> None:
        """Stay where we are."""
        self.dismiss(None)
