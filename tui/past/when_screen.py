"""The line in which the user types a moment. It covers the line of keys of any screen."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from stalltop.tui.past.when import EXAMPLES, moment, when
from stalltop.tui.screens.bases import TopScreen

HINT = "Enter goes  Esc closes"
_HINT_FROM = 60
"""Least width in cells at which the hint is shown."""


class WhenScreen(ModalScreen[float | None], TopScreen[float | None]):
    """Returns the typed moment, Unix time; None if the user closed the line."""

    BINDINGS = [Binding("escape", "close", show=False)]
    ALLOW_SELECT = False

    def __init__(self, start: float, end: float, shown: float) -> None:
        """The windows from ``start`` to ``end`` are kept; ``shown`` is the moment that is shown. All are Unix
        times."""
        super().__init__()
        self._start, self._end, self._shown = start, end, shown

    def compose(self) -> ComposeResult:
        """Yield the line of text, and above it a label for the times that are kept, or for an error."""
        yield Label(self._range, id="when-said", markup=False)
        with Horizontal(id="when-entry"):
            yield Label("time", id="when-prompt")
            yield Input(id="when", placeholder=EXAMPLES, compact=True, max_length=40)
            yield Label(HINT, id="when-hint")

    @property
    def _range(self) -> str:
        return f"kept: {when(self._start, self._end)} to {when(self._end, self._end)}"

    def on_mount(self) -> None:
        """Stop the blinking of the cursor, and show the hint if there is room."""
        self.query_one(Input).cursor_blink = False
        self.query_one("#when-hint").display = self.app.size.width >= _HINT_FROM

    def on_resize(self, event: events.Resize) -> None:
        """Hide the hint if there is no room for it."""
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
        """Insert keys that arrive before the line has the focus, such as those of a paste."""
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
        """Close the line without a moment."""
        self.dismiss(None)
