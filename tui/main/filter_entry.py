"""The line in which the user types a filter."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import Input

ENDS = "Enter keeps  Esc clears"
"""The keys that end the input, shown beside it on wide terminals."""
ENDS_FROM = 60
"""Least width of the terminal, in cells, at which ``ENDS`` is shown."""
LONGEST = 1000
"""The most characters of a filter, so that a long text pasted by mistake is not applied to all rows."""


class FilterEntry(Input):
    """One line of text. Enter keeps it (``Submitted``), Esc clears it."""

    class Cleared(Message):
        """Reports that Esc was pressed."""

    def __init__(self, widget_id: str) -> None:
        super().__init__(
            id=widget_id, placeholder="word /regex/ key:value -not", compact=True, max_length=LONGEST
        )
        self.cursor_blink = False

    def on_key(self, event: events.Key) -> None:
        """Post ``Cleared`` on Esc. The screen does not get this Esc, which would go back one step."""
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.Cleared())
