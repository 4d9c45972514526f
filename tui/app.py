"""The app: passes data to the main screen, handles the keys of all screens, and ends in good order."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from textual import events, on
from textual.screen import Screen

from stalltop.model.errors import StalltopError
from stalltop.model.source import Source
from stalltop.model.text.style import Style
from stalltop.tui.keys.actions import bindings, choose, keymap
from stalltop.tui.main_keys.screen import MainScreen
from stalltop.tui.opens import PagesOf
from stalltop.tui.reading.collector import Failed, Tick
from stalltop.tui.saving.saving import Saved, Saving
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.screens.screen_app import ScreenApp
from stalltop.tui.terminal.abilities import require_screen
from stalltop.tui.terminal.interrupts import INTERRUPTED
from stalltop.tui.terminal.last_words import explain, print_last, print_saved
from stalltop.tui.terminal.leaving import Leaving
from stalltop.tui.terminal.streams import drop_output

if TYPE_CHECKING:
    from stalltop.recordings.past.opened import OpenedRecording

CLOSE_SECONDS = 1.0
"""Seconds that the app waits at its end for the source to close. A source that is not closed by then ends
with the process."""
SAVE_SECONDS = 5.0
"""Seconds to wait at the end for files that are being saved."""


class StalltopApp(ScreenApp):
    """The app that shows one source."""

    CSS_PATH = Path(__file__).with_name("stalltop.tcss")
    BINDINGS = bindings("app")
    TITLE = "stalltop"
    ALLOW_SELECT = False

    def __init__(self, source: Source | OpenedRecording, options: RunOptions) -> None:
        choose(options.keys)
        super().__init__(source, options)
        self.animation_level = "none"
        self.choices: Mapping[str, object] = {}
        """The settings as they were when the app ended; ``run`` passes them to ``RunOptions.keep``."""
        self.saving = self.new_saving()
        opens = PagesOf(self, self.saving)
        self.main = MainScreen(options.window, opens, file=not isinstance(source, Source))

    def new_saving(self) -> Saving:
        """Return the object that saves files; called once."""
        return Saving(self.post_message)

    def get_default_screen(self) -> Screen[None]:
        """Return the main screen."""
        return self.main

    def on_mount(self) -> None:
        """Start to read the source. Called when the screen is set up."""
        self.set_keymap(keymap())
        self.watch_terminal()
        if self.interrupted:
            self.exit(return_code=INTERRUPTED)
            return
        self.began = time.monotonic()
        self.collector.start()

    # ---- messages from other threads

    @on(Tick)
    def _tick(self, message: Tick) -> None:
        self.main.updates.take(message.snapshot)

    @on(Saved)
    def _saved(self, message: Saved) -> None:
        self.main.files.saved(message)

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        """End the app, because no more data will come. The reason is printed after the screen ends."""
        if self.failure is None:
            self.failure = message.error
        self.exit(return_code=message.error.exit_code if isinstance(message.error, StalltopError) else 1)

    # ---- keys, and the end

    def action_command_palette(self) -> None:
        """Open the list of all actions, in which the user searches by name."""
        from stalltop.tui.palette import ActionPalette

        if not isinstance(self.screen, ActionPalette):
            self.push_screen(ActionPalette(self.screen))

    def action_help(self) -> None:
        """Open the help about all keys, from any screen."""
        from stalltop.tui.pages.help_screen import HelpScreen

        self.push_screen(HelpScreen(type(self.screen).__name__))

    async def on_event(self, event: events.Event) -> None:
        """At any key remove the line that shows the most important keys (``Tour``). Then handle the event."""
        if isinstance(event, events.Key):
            self.main.updates.tour.end()
        await super().on_event(event)

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """End the app."""
        if not self.leaving:
            self.choices = self.main.choices()  # the widgets still exist here
        super().exit(result, return_code, message)


def finish(
    app: StalltopApp, close_seconds: float = CLOSE_SECONDS, save_seconds: float = SAVE_SECONDS
) -> None:
    """Wait up to ``close_seconds`` until the source of ``app`` is closed. Also wait for files that are being
    saved, up to ``save_seconds`` from the call of this function."""
    until = time.monotonic() + save_seconds
    app.collector.stop(close_seconds)
    app.saving.join(until)


def run(source: Source | OpenedRecording, options: RunOptions | None = None) -> int:
    """Show ``source`` until the user quits, close it, and return the exit code.

    Raises UsageError if the terminal cannot show a screen.
    """
    options = options or RunOptions()
    try:
        require_screen()
    except StalltopError:
        source.close()
        raise
    app = StalltopApp(source, options)
    with Leaving(app.interrupt, lambda: app.collector.stop(CLOSE_SECONDS)) as leaving:
        try:
            app.run(mouse=options.mouse)
        except OSError:
            if not leaving.lost():
                raise
        finally:
            signal.signal(signal.SIGCONT, signal.SIG_DFL)
        leaving.screen_ended()
        finish(app, save_seconds=CLOSE_SECONDS if app.interrupted else SAVE_SECONDS)
        if options.keep is not None:
            options.keep(app.choices)
        asked = leaving.exit_code
        if leaving.lost():
            drop_output()
            return asked or INTERRUPTED
    if options.print_last:
        colour = not app.no_color and sys.stdout.isatty()
        printed = Style(shutil.get_terminal_size().columns, colour, app.glyphs)
        print_last(app.main.shown, printed, options.tellings)
    print_saved(app.saving.paths)
    if app.failure is not None:
        return explain("the screen" if app.failed_itself else "reading", app.failure)
    return asked or INTERRUPTED if app.interrupted else int(app.return_code or 0)
