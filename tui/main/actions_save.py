"""Keys that save what is shown, or copy it to the terminal's clipboard."""

from __future__ import annotations

import time
from pathlib import Path

from rich.cells import cell_len

from stalltop.model.text import figures
from stalltop.tui.keys import key
from stalltop.tui.main.main_view import MainView
from stalltop.tui.saving.copying import alert_text, row_text
from stalltop.tui.saving.formats import Shown
from stalltop.tui.saving.saving import Saved
from stalltop.tui.saving.screen import SaveScreen
from stalltop.widgets.strips import printable

READ_SECONDS = 6.0
"""How long it says where a file was saved, what was copied, or what went wrong."""

PAGE_TITLE = 30
"""Cells that the title of a page keeps beside what is said."""


class SaveActions(MainView):
    """The keys for files and the clipboard."""

    _saved: tuple[Path, float] | None = None
    """The file that the screen speaks of, and until when (``time.monotonic``)."""

    def say(self, text: str, role: str = "good", seconds: float | None = None) -> None:
        """Say what a key has done; a file that was spoken of is no longer meant."""
        self._saved = None
        super().say(text, role, seconds)

    def action_save(self) -> None:
        """Choose a format and a path for what is shown now."""
        window = self.shown
        if window is None:
            self.say("there is nothing to save yet", "warn", READ_SECONDS)
            return
        self.hush()  # a picture shows what is wrong, not what a key did
        picture = self.app.screen._compositor.render_strips()
        shown = Shown(
            window,
            self.tables.here[1],
            self.tables.against,
            self.tables.past,
            self.panel.found.open,
            tuple(strip.simplify().discard_meta() for strip in picture),
            self.app.size.width,
            self.stalltop.unicode,
        )
        self.app.push_screen(SaveScreen(shown, still=self.stalltop.options.still))

    def saved(self, message: Saved) -> None:
        """Say where a file was saved, or why not."""
        if message.path is None:
            self.say(f"not saved: {message.text}", "bad", READ_SECONDS)
            return
        hint = f"  ({key('copy')} copies it)"
        beside = 0 if self.app.screen is self else PAGE_TITLE
        room = max(self.app.size.width - len(f" saved {hint}") - beside, 20)
        path = printable(str(message.path))
        if cell_len(path) > room:
            path = figures.middle(path, room, unicode=self.stalltop.unicode).rstrip()
        self.say(f"saved {path}{hint}", "good", READ_SECONDS)
        self._saved = message.path, time.monotonic() + READ_SECONDS

    def copy_path(self) -> bool:
        """Copy the path of the file that the screen speaks of; False where it speaks of none."""
        if self._saved is None or time.monotonic() > self._saved[1]:
            return False
        path = str(self._saved[0])
        self.app.copy_to_clipboard(path)
        self.say(f"copied: {path}", "label", READ_SECONDS)
        return True

    def action_copy_row(self) -> None:
        """Copy the row under the cursor with its heads, or the line of the warnings."""
        window = self.shown
        if self.panel.has_focus:
            row = next((row for row in self.panel.found.rows if row.key == self.panel.cursor_key), None)
            text = alert_text(row) if row is not None else ""
        else:
            table, view = self.tables.here
            at = table.data.find(table.cursor_key)
            text = ""
            if window is not None and at is not None:
                text = row_text(table.data, at, window, view, self.panel.found.open)
        if not text:
            self.say("there is no row to copy", "dim", READ_SECONDS)
            return
        self.app.copy_to_clipboard(text)
        shown = " ".join(text.splitlines()[-1].split())
        self.say(f"copied: {shown}", "label", READ_SECONDS)
