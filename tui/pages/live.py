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
from stalltop.tui.keys import bindings, key, own_bindings
from stalltop.tui.main.view import MainView
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
        *own_bindings(copy="copy", save="save"),
        *bindings("screen", "playing.freeze", "playing.play"),
        *bindings("screen", "time.window", "time.step", "time.minutes", "time.fault", "time.when"),
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
        if self.main.shown is not self._drawn_of and not self.stalltop.line_is_behind:
            self.show_page()

    @property
    def keys_hint(self) -> str:
        """The keys of every page; Space by what it does now."""
        main, freeze = self.main, key("freeze")
        if main.moments.playing:
            held = f"{freeze} pauses  "
        elif main.moments.frozen:
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

    def action_copy(self) -> None:
        """Copy the page as text, or the path of a file that was saved just now, to the clipboard (OSC 52)."""
        if self.main.files.copy_path():
            return
        self.app.copy_to_clipboard(self._plain)
        self.say(f"copied: {len(self._plain.splitlines())} lines")

    def action_do(self, what: str, *parameters: object) -> None:
        """Do on the main screen what a key stands for there, and show what became of it."""
        self.main.action_do(what, *parameters)
        self.show_page()


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
        main = self.main
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
