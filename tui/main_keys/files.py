"""The keys that save what is shown, or copy it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from rich.cells import cell_len

from stalltop.model.text import figures
from stalltop.tui.keys.actions import key
from stalltop.tui.main.view import MainView
from stalltop.tui.saving.saving import Saved
from stalltop.tui.terminal.textual_internals import drawn
from stalltop.widgets.drawing.strips import printable

READ_SECONDS = 6.0
"""Seconds that a message about a saved file, a copied text or an error stays."""

PAGE_TITLE = 30
"""Cells of a page's title that stay visible next to a message."""


class FileKeys:
    """Handles the keys of ``main`` for files and the clipboard."""

    def __init__(self, main: MainView) -> None:
        self._main = main
        self._say = main.speech.say
        self._saved: tuple[Path, int, float] | None = None
        """The last saved file, the number of the message about it, and the time at which that message ends
        (``time.monotonic``)."""

    def save(self) -> None:
        """Open the dialogue that saves what is shown now."""
        from stalltop.tui.saving.formats import ShownScreen

        window = self._main.shown
        if window is None:
            self._say("there is nothing to save yet", "warn", READ_SECONDS)
            return
        there = self._main.tables.window
        if there is not None and not window.normals:
            # A window of several seconds has no baselines; the tables show those of the newest window.
            window = replace(window, normals=there.normals)
        self._main.speech.hush()  # a saved picture of the screen must not contain a message
        picture = drawn(self._main.app.screen)
        shown = ShownScreen(
            window,
            self._main.tables.here[1],
            self._main.tables.against,
            self._main.tables.past,
            self._main.panel.found.open,
            tuple(strip.simplify().discard_meta() for strip in picture),
            self._main.app.size.width,
            self._main.stalltop.glyphs,
        )
        self._main.opens.save(shown, self._say)

    def saved(self, message: Saved) -> None:
        """Show where a file was saved, or why it was not."""
        if message.path is None:
            self._say(f"not saved: {message.text}", "bad", READ_SECONDS)
            return
        hint = f"  ({key('copy')} copies it)"
        beside = 0 if self._main.app.screen is self._main else PAGE_TITLE
        room = max(self._main.app.size.width - len(f" saved {hint}") - beside, 20)
        path = printable(str(message.path))
        if cell_len(path) > room:
            path = figures.middle(path, room, self._main.stalltop.glyphs).rstrip()
        self._say(f"saved {path}{hint}", "good", READ_SECONDS)
        self._saved = message.path, self._main.speech.count, time.monotonic() + READ_SECONDS

    def copy_path(self) -> bool:
        """Copy the path of the file that the current message names. Returns False if no message about a file
        is shown."""
        if self._saved is None:
            return False
        saved, message, until = self._saved
        if message != self._main.speech.count or time.monotonic() > until:
            return False
        path = str(saved)
        self._say(f"{self._main.stalltop.copy(path)}: {path}", "label", READ_SECONDS)
        return True

    def copy_row(self) -> None:
        """Copy the row under the cursor with the column heads, or the line under the cursor in the list of
        problems."""
        from stalltop.tui.saving.copying import alert_text, row_text

        window = self._main.shown
        if self._main.panel.has_focus:
            row = next(
                (row for row in self._main.panel.found.rows if row.key == self._main.panel.cursor_key), None
            )
            text = alert_text(row) if row is not None else ""
        else:
            table, view = self._main.tables.here
            at = table.data.find(table.cursor_key)
            text = ""
            if window is not None and at is not None:
                text = row_text(table.data, at, window, view, self._main.panel.found.open)
        if not text:
            self._say("there is no row to copy", "dim", READ_SECONDS)
            return
        where = self._main.stalltop.copy(text)
        shown = " ".join(text.splitlines()[-1].split())
        self._say(f"{where}: {shown}", "label", READ_SECONDS)

    def record(self) -> None:
        """Start recording what is read from the host, or stop recording."""
        recorded = self._main.stalltop.options.recorded
        if recorded is None:
            self._say(
                "cannot record: this screen shows a file, or it runs in a browser",
                "label",
            )
        elif recorded.state is None:
            recorded.begin_beside()
        else:
            state = recorded.end()
            if state is not None:
                self._say(f"recorded to {state.path}", "good", READ_SECONDS)
        self._main.drawing.header()
