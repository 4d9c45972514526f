"""Where a filter is typed."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import Input

ENDS = "Enter keeps  Esc clears"
"""The keys that end it, told beside it where there are so many columns:"""
ENDS_FROM = 60
LONGEST = 1000
"""Characters of a filter. What is pasted by mistake where pastes are not marked is not all tried as one."""


class FilterEntry(Input):
    """One line of text; Enter keeps it (``Submitted``), Esc clears it."""

    class Cleared(Message):
        """Esc was pressed."""

    def __init__(self, widget_id: str) -> None:
        super().__init__(
            id=widget_id, placeholder="word /regex/ key:value -not", compact=True, max_length=LONGEST
        )
        self.cursor_blink = False

    def on_key(self, event: events.Key) -> None:
        """Esc clears instead of going a step back."""
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.Cleared())
