"""The app: carries data from the collector to the screen, saves windows, and leaves in good order."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType

from rich.console import RenderableType
from textual import events, on
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.screen import Screen

from stalltop.model.chain import Chain
from stalltop.model.errors import Told, described
from stalltop.model.progress import Progress
from stalltop.model.source import Source
from stalltop.recordings.past.opened import Recording
from stalltop.recordings.write.recorded_source import RecordedSource
from stalltop.tui.collector import Collector, Failed, Reader, Tick
from stalltop.tui.keys import bindings, choose, keymap
from stalltop.tui.latest import Latest
from stalltop.tui.main.screen import MainScreen
from stalltop.tui.pages.screens import HelpScreen
from stalltop.tui.palette import Palette
from stalltop.tui.past.follower import Follower
from stalltop.tui.past.moments import Asked, Picture
from stalltop.tui.saving.saving import Saved, Saving
from stalltop.tui.settings.settings import Settings
from stalltop.tui.settings.theme import LETTERED, NAMES, THEMES, chosen
from stalltop.tui.terminal.abilities import require_screen, speaks_unicode
from stalltop.tui.terminal.interrupts import INTERRUPTED
from stalltop.tui.terminal.last_words import explain, print_last, print_saved
from stalltop.tui.terminal.lean_driver import LeanDriver
from stalltop.tui.terminal.leaving import Leaving
from stalltop.tui.terminal.streams import drop_output
from stalltop.widgets.lines import Lines
from stalltop.widgets.strips import printable

CLOSE_SECONDS = 1.0
"""How long leaving waits for the source to close; what takes longer ends with the process."""
QUEUED_WRITES = 3
"""Writes that may wait for the terminal before pictures are left out: about one picture."""
RESIZED_SECONDS = 1.0
"""How long everything is painted after a change of the terminal's size: until what was under way is over."""
SAVE_SECONDS = 5.0
"""How long leaving waits for files that are being saved."""


@dataclass(frozen=True, slots=True)
class RunOptions(Settings):
    """How the screen runs: its settings, and what the command that starts it knows."""

    notes: tuple[str, ...] = ()
    """What the program has to say beyond the windows, such as why they are simulated; one line each."""
    demo: bool = False
    """The tenants are samples that were started to be looked at: the first line says so."""
    still: bool = False
    """The source has one window only, such as a saved one."""
    recorded: RecordedSource | None = None
    """The source, where its windows can be recorded, too."""
    at: float | None = None
    """The moment of a recording that is shown first, Unix time; None: the newest."""
    progress: Progress | None = None
    """What is done until there is a first window; None where that takes no time."""
    print_last: bool = True
    """Print the last table on stdout after leaving."""
    keep: Callable[[Mapping[str, object]], object] | None = None
    """Gets, on leaving, the settings that keys can change, as they are then."""


class Made(Message):
    """A picture that was asked for at ``turn`` is there."""

    def __init__(self, turn: int, picture: Picture) -> None:
        super().__init__()
        self.turn, self.picture = turn, picture


class NotMade(Message):
    """It cannot be made; there will be others."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class StalltopApp(App[None]):
    """The live screen on one source."""

    CSS_PATH = "stalltop.tcss"
    BINDINGS = bindings("app")
    TITLE = "stalltop"
    ALLOW_SELECT = False

    def __init__(self, source: Source | Recording, options: RunOptions) -> None:
        if not os.environ.get("NO_COLOR", "x"):
            del os.environ["NO_COLOR"]  # set but empty means nothing; Textual takes it for a yes
        theme = chosen(options.theme)
        choose(options.keys)
        self._many_colours = ""
        """The theme from before few colours were wanted; empty: there was none."""
        # Asked for no colours, Textual leaves those out that a theme in the terminal's own colours has.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.animation_level = "none"
        self.options = options
        self.unicode = not options.ascii and speaks_unicode()
        self.began = time.monotonic()
        self.failure: BaseException | None = None
        self.failed_itself = False
        self.choices: Mapping[str, object] = {}
        """The settings as they were on leaving."""
        self._leaving = False
        self.interrupted = False
        self._loop_of_screen: asyncio.AbstractEventLoop | None = None
        self.saving = Saving(self.post_message)
        for ours in THEMES:
            self.register_theme(ours)
        for name in list(self.available_themes):
            if name not in NAMES:
                self.unregister_theme(name)
        self.theme = theme
        file = isinstance(source, Recording)
        self.collector = _reader(source, self.post_message, options)
        self._making = Latest("stalltop-past", lambda error: self.post_message(NotMade(error)))
        self.main = MainScreen(options.window, file=file)
        if options.low_bandwidth:
            self.few_colours(True)

    def get_driver_class(self) -> type[Driver]:
        """Ours where Textual would write to a terminal itself."""
        chosen = super().get_driver_class()
        return LeanDriver if chosen is LinuxDriver else chosen

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return self.main

    def on_mount(self) -> None:
        """Start reading once there is a screen to show it on."""
        self._loop_of_screen = asyncio.get_running_loop()
        self.set_keymap(keymap())
        if self.interrupted:
            self.exit(return_code=INTERRUPTED)
            return
        self._guard_resume()
        self.app_resume_signal.subscribe(self, lambda _: self.action_repaint())
        self.began = time.monotonic()
        self.collector.start()

    def _guard_resume(self) -> None:
        """Resume after Ctrl-Z only.

        Textual takes every SIGCONT for the end of a Ctrl-Z and starts its threads again. The kernel sends one
        after SIGHUP too; a second thread that reads a dead terminal would then never end.
        """
        resume = signal.getsignal(signal.SIGCONT)
        driver, loop = self._driver, self._loop_of_screen
        if not callable(resume) or driver is None or loop is None:
            return

        def on_continue(number: int, frame: FrameType | None) -> None:
            if self.interrupted or loop.is_closed():
                return
            if getattr(driver, "_must_signal_resume", True):
                resume(number, frame)
            else:
                loop.call_soon_threadsafe(self.action_repaint)

        signal.signal(signal.SIGCONT, on_continue)

    # ---- from other threads

    @on(Tick)
    def _tick(self, message: Tick) -> None:
        self.main.take(message.snapshot)

    @on(Made)
    def _made(self, message: Made) -> None:
        self.main.made(message.turn, message.picture)

    @on(NotMade)
    def _not_made(self, message: NotMade) -> None:
        self.main.say(f"no picture of that moment: {described(message.error)}", "bad")

    @on(Saved)
    def _saved(self, message: Saved) -> None:
        self.main.saved(message)

    @on(Failed)
    def _failed(self, message: Failed) -> None:
        """There will be no more data: leave, and say why where it can be read."""
        if self.failure is None:
            self.failure = message.error
        self.exit(return_code=message.error.exit_code if isinstance(message.error, Told) else 1)

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave."""
        if not self._leaving:
            self.choices = self.main.choices()  # while there are widgets to ask
        self._leaving = True
        super().exit(result, return_code, message)

    def pop_screen(self) -> AwaitComplete:
        """Close the screen on top. One that is being closed still handles keys that wait for it: a second Esc
        closes what lies below, and on the main screen nothing."""
        return super().pop_screen() if len(self.screen_stack) > 1 else AwaitComplete()

    def _handle_exception(self, error: Exception) -> None:
        if self._leaving:  # parts of the screen miss each other while it is taken apart, or was not yet whole
            self._close_messages_no_wait()
            return
        if self.failure is None:
            self.failure, self.failed_itself = error, True
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual would print its own insides, with the values of variables; one line is said after leaving.
        self._close_messages_no_wait()

    def interrupt(self) -> None:
        """Leave because of a signal; may be called from any thread."""
        self.interrupted = True
        loop = self._loop_of_screen
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: self.exit(return_code=INTERRUPTED))

    # ---- what the screen asks for

    @property
    def line_is_behind(self) -> bool:
        """Whether the terminal takes less than is written: Textual's queue of output fills up.

        On a full queue (30 writes) keys would wait for all of it; so no picture is drawn while there is one.
        """
        writer = getattr(self._driver, "_writer_thread", None)
        queue = getattr(writer, "_queue", None)
        return queue is not None and queue.qsize() > QUEUED_WRITES

    def choose_length(self, length: float | None) -> None:
        """New windows have this length."""
        self.collector.choose(length)

    def make(self, asked: Asked) -> None:
        """Make a picture of the past, or of another length, beside the screen; it comes as a message. What
        was asked for before and was not begun yet is given up."""

        def work(stale: Callable[[], bool]) -> None:
            for picture in asked.make(stale):
                self.post_message(Made(asked.turn, picture))

        self._making.ask(work)

    def copy_fix(self, chain: Chain) -> str:
        """Put the first command that helps against ``chain``, or else one that shows more about it, into the
        terminal's clipboard (OSC 52).

        Gives what is to be said about it: the command too, as not every terminal takes it.
        """
        typed = sorted((fix for fix in chain.fixes if fix.command), key=lambda fix: fix.look)
        if not typed:
            return f"no command to copy; {chain.fixes[0].text}" if chain.fixes else "no fix is known"
        command = printable(typed[0].command)  # one line: nothing is run by pasting it
        self.copy_to_clipboard(command)
        return f"copied, only to look: {command}" if typed[0].look else f"copied: {command}"

    @property
    def letters(self) -> bool:
        """Whether colours alone tell too little, so that parts of a bar have letters."""
        return self.no_color or self.theme in LETTERED

    @property
    def theme_choice(self) -> str:
        """The theme as a setting: the one that was asked for, unless a key has changed it."""
        wanted = self.options.theme
        theme = self._many_colours or self.theme
        return wanted if theme == chosen(wanted) else theme

    @property
    def pictures(self) -> bool:
        """Whether bars are drawn, and what else takes more to send than it tells."""
        return not self.main.slow_line.low

    def few_colours(self, few: bool) -> None:
        """Change to the terminal's own 16 colours, which take few bytes, or back to those from before."""
        if few and self.theme not in LETTERED and not self.no_color:
            self._many_colours, self.theme = self.theme, "terminal"
        elif not few and self._many_colours:
            self.theme, self._many_colours = self._many_colours, ""

    def next_theme(self) -> str:
        """Change to the next colours and return their name."""
        if not self.no_color:
            self.choose_theme(NAMES[(NAMES.index(self.theme) + 1) % len(NAMES)])
        return self.theme

    def choose_theme(self, name: str) -> None:
        """Change to the colours ``name``."""
        self._many_colours, self.theme = "", name

    def action_repaint(self) -> None:
        """Paint every cell again: another program may have written on the terminal."""
        self._forget_terminal()
        for widget in self.screen.query(Lines):
            widget.repaint()
        self.screen.refresh(layout=True)

    def on_resize(self) -> None:
        """What is left on a terminal whose size changes differs: paint everything for a while."""
        self._forget_terminal(RESIZED_SECONDS)

    def _forget_terminal(self, seconds: float = 0.0) -> None:
        if isinstance(self._driver, LeanDriver):
            self._driver.forget(seconds)

    def action_interrupt(self) -> None:
        """Ctrl-C."""
        self.interrupted = True
        self.exit(return_code=INTERRUPTED)

    def action_command_palette(self) -> None:
        """Find an action by its name."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(self.screen))

    def action_help(self) -> None:
        """All keys; from every screen."""
        self.push_screen(HelpScreen(type(self.screen).__name__))

    async def on_event(self, event: events.Event) -> None:
        """Any key ends the line for newcomers, and does what it does."""
        if isinstance(event, events.Key):
            self.main.end_tour()
        await super().on_event(event)

    def finish(self, close_seconds: float = CLOSE_SECONDS, save_seconds: float = SAVE_SECONDS) -> None:
        """Wait, each no longer than so many seconds, for the source to close and for files to be written."""
        until = time.monotonic() + save_seconds
        self.collector.stop(close_seconds)
        self.saving.join(until)


def _reader(source: Source | Recording, post: Callable[[Message], object], options: RunOptions) -> Reader:
    """What reads ``source`` beside the screen."""
    interval, length = options.interval, options.window
    if isinstance(source, Recording):
        return Follower(source, post, interval=interval, length=length)
    return Collector(source, post, interval=interval, length=length, still=options.still)


def run(source: Source | Recording, options: RunOptions | None = None) -> int:
    """Show ``source`` until it is left and return the exit code; the source is closed.

    Raises BadUsage where the terminal cannot show a screen.
    """
    options = options or RunOptions()
    try:
        require_screen()
    except Told:
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
        app.finish(save_seconds=CLOSE_SECONDS if app.interrupted else SAVE_SECONDS)
        if options.keep is not None:
            options.keep(app.choices)
        if leaving.lost():
            drop_output()
            return INTERRUPTED
    print_last(app)
    print_saved(app)
    if app.failure is not None:
        return explain("the screen" if app.failed_itself else "reading", app.failure)
    return INTERRUPTED if app.interrupted else int(app.return_code or 0)
