"""Screens and pages that follow the window on the main screen while they are open."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.timer import Timer

from stalltop.model.merge.packing import Packed
from stalltop.model.window import Window
from stalltop.tui.keys import bindings, key
from stalltop.tui.main.main_view import MainView
from stalltop.tui.pages.screens import PageScreen
from stalltop.tui.pages.sections import Frame, Places, Section, plain
from stalltop.widgets.page import Page, PageLine

SAID_SECONDS = 3.0
"""How long the first line says what a key has done."""
LOOK_SECONDS = 0.25
"""How often it is asked whether there is another window: nothing is drawn where there is none."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a page shows."""

    title: str
    hint: str
    """The keys that matter on it."""
    sections: Sequence[Section]
    beside: tuple[Sequence[Section], Sequence[Section]] = ((), ())
    """Below them, in two columns."""
    unfinished: bool = False
    """There is more to work out: draw again, soon."""


class LiveScreen(PageScreen):
    """A screen upon the main one that is drawn again for each window that this shows."""

    BINDINGS = [
        *bindings("screen", "copy_fix", "save", "freeze", "window", "step", "minutes"),
        *bindings("screen", "fault", "when", "play"),
        Binding("escape,q", "close", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._drawn_of: Window | None = None
        self._said: Timer | None = None
        self._text = ""
        self._plain = ""
        """What is shown, without styles."""

    @abstractmethod
    def show_page(self) -> None:
        """Draw the window of now; ``_drawn_of`` is it from then on, unless there is more to work out."""

    def on_mount(self) -> None:
        """Show it, and look for another window from now on."""
        self.show_page()
        self.set_interval(LOOK_SECONDS, self._look)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self.call_after_refresh(self.show_page)

    def _look(self) -> None:
        if self.stalltop.main.shown is not self._drawn_of and not self.stalltop.line_is_behind:
            self.show_page()

    @property
    def keys_hint(self) -> str:
        """The keys of every page; Space by what it does now."""
        main, freeze = self.stalltop.main, key("freeze")
        if main.playing:
            held = f"{freeze} pauses  "
        elif main.frozen:
            held = f"{freeze} newest  " if main.file else f"{freeze} live  "
        else:
            held = "" if main.file or self.stalltop.options.still else f"{freeze} freeze  "
        return f"{key('copy')} copy  {held}Esc closes"

    def say(self, text: str) -> None:
        """Say on the first line, for some seconds, what was done."""
        if self._said is not None:
            self._said.stop()
        self._said = self.set_timer(SAID_SECONDS, lambda: self.say("")) if text else None
        self._text = text
        self.show_page()

    # ---- keys

    def action_copy_fix(self) -> None:
        """Copy the page as text, or the path of a file that was saved just now, to the clipboard (OSC 52)."""
        if self.stalltop.main.copy_path():
            return
        self.app.copy_to_clipboard(self._plain)
        self.say(f"copied: {len(self._plain.splitlines())} lines")

    def action_freeze(self) -> None:
        """Hold the picture, or let it go."""
        self.say(self.stalltop.main.action_freeze())

    def action_window(self, step: int) -> None:
        """A longer (1) or shorter (-1) window."""
        self.stalltop.main.action_window(step)
        self.show_page()

    def action_step(self, steps: int) -> None:
        """Look at the window before (-1) or after (1) the one that is shown."""
        self.stalltop.main.action_step(steps)
        self.show_page()

    def action_minutes(self, minutes: int) -> None:
        """Look at what was so many minutes after, or if negative before."""
        self.stalltop.main.action_minutes(minutes)
        self.show_page()

    def action_fault(self, step: int) -> None:
        """Look at the next (1) or previous (-1) moment at which a chain began."""
        self.stalltop.main.action_fault(step)
        self.show_page()

    def action_when(self) -> None:
        """Ask for a moment, and look at it."""
        self.stalltop.main.action_when()

    def action_play(self) -> None:
        """Let the past pass; again: faster."""
        self.stalltop.main.action_play()


class LivePage(LiveScreen):
    """A page that is drawn again for each window; what it shows keeps its place."""

    def __init__(self) -> None:
        super().__init__()
        self._places = Places()

    @abstractmethod
    def draw(self, window: Window, past: Sequence[Packed], frame: Frame) -> Drawn:
        """What to show of ``window``; ``past`` is what is kept of the time before its end, oldest first."""

    def on_resize(self, event: events.Resize) -> None:
        """What was reserved on the old size is given up."""
        self._places = Places()

    def show_page(self) -> None:
        """Draw the page of the window of now."""
        main = self.stalltop.main
        window = main.shown
        if window is None or not self.whole:
            return
        frame = Frame(
            width=self.app.size.width - 2,
            height=self.app.size.height,
            unicode=self.stalltop.unicode,
            letters=self.stalltop.letters,
        )
        drawn = self.draw(window, past_of(main, window), frame)
        self._drawn_of = None if drawn.unfinished else window
        lines = self._places.lines(drawn.sections)
        if any(drawn.beside):
            lines += [PageLine(), *self._places.beside(*drawn.beside, frame.half.width)]
        self._plain = plain(lines)
        self.query_one("#page", Page).show(lines, title=drawn.title, hint=drawn.hint, said=self._text)

    def start_over(self) -> None:
        """Another page from now on: show it from its first line."""
        self._places = Places()
        self.query_one("#page", Page).action_end(-1)
        self.show_page()


def past_of(main: MainView, window: Window) -> Sequence[Packed]:
    """What is kept of the time before ``window`` ended, oldest first."""
    return [part for part in main.past if part.window.start < window.end]
