"""Where a filter is typed."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import Input


class FilterEntry(Input):
    """One line of text; Enter keeps it (``Submitted``), Esc clears it."""

    class Cleared(Message):
        """Esc was pressed."""

    def __init__(self, widget_id: str) -> None:
        hint = "word /regex/ key:value -not   Enter keeps, Esc clears"
        super().__init__(id=widget_id, placeholder=hint, compact=True)
        self.cursor_blink = False

    def on_key(self, event: events.Key) -> None:
        """Esc clears instead of going a step back."""
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.Cleared())
