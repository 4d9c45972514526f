"""Screens and pages that follow the window of the main screen while they are open."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.timer import Timer

from stalltop.model.merge.packing import Packed
from stalltop.model.text.words import numbered
from stalltop.model.window import Window
from stalltop.tui.keys.actions import bindings, key, own_bindings
from stalltop.tui.main.view import MainView
from stalltop.tui.pages.page_screen import PageScreen
from stalltop.tui.pages.sections import Frame, Places, Section, plain
from stalltop.widgets.page import Page, PageLine

SAID_SECONDS = 3.0
"""Seconds that the first line shows a message about a key."""
LOOK_SECONDS = 0.25
"""Seconds between two checks for a new window."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a page shows."""

    title: str
    hint: str
    """The text about the keys of the page, at the right end of its title."""
    sections: Sequence[Section]
    beside: tuple[Sequence[Section], Sequence[Section]] = ((), ())
    """More sections, below ``sections``, in two columns."""
    unfinished: bool = False
    """Whether more remains to be computed, so that the page must be drawn again soon."""


class LiveScreen(PageScreen):
    """A screen that covers the main screen and is drawn again for each window that the main screen shows."""

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
        """The text that is shown, without styles."""

    @abstractmethod
    def show_page(self) -> None:
        """Draw the current window. Assign it to ``_drawn_of``, unless more of the page remains to be
        computed."""

    def on_mount(self) -> None:
        """Draw, and check for new windows from now on."""
        self.show_page()
        self.set_interval(LOOK_SECONDS, self._look)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self.show_page)

    def _look(self) -> None:
        if self.main.shown is not self._drawn_of and not self.stalltop.line_is_behind:
            self.show_page()

    @property
    def keys_hint(self) -> str:
        """Return the keys that all pages have, as text. What Space does depends on the state."""
        main, freeze = self.main, key("freeze")
        if main.moments.playing:
            held = f"{freeze} pauses  "
        elif main.moments.frozen:
            held = f"{freeze} newest  " if main.file else f"{freeze} live  "
        else:
            held = "" if main.file or self.stalltop.options.still else f"{freeze} freeze  "
        return f"{key('copy')} copy  {key('save')} save  {held}Esc closes"

    def say(self, text: str) -> None:
        """Show ``text`` on the first line for some seconds."""
        if self._said is not None:
            self._said.stop()
        self._said = self.set_timer(SAID_SECONDS, lambda: self.say("")) if text else None
        self._text = text
        self.show_page()

    # ---- keys

    def action_copy(self) -> None:
        """Copy the page as text. Shortly after a file was saved, copy the path of
        that file instead."""
        if self.main.files.copy_path():
            return
        where = self.stalltop.copy(self._plain)
        self.say(f"{where}: {numbered(len(self._plain.splitlines()), 'line')}")

    def action_do(self, what: str, *parameters: object) -> None:
        """Run the method PART.METHOD of the main screen that ``what`` names, and draw again."""
        self.main.action_do(what, *parameters)
        self.show_page()


class LivePage(LiveScreen):
    """A page that is drawn again for each window. Its sections keep their places."""

    def __init__(self) -> None:
        super().__init__()
        self._places = Places()

    @abstractmethod
    def draw(self, window: Window, past: Sequence[Packed], frame: Frame) -> Drawn:
        """Return what to show of ``window``. ``past`` holds the kept windows up to that window, oldest
        first."""

    def on_resize(self, event: events.Resize) -> None:
        """Forget the places of sections, because the size changed."""
        self._places = Places()

    def show_page(self) -> None:
        """Draw the page of the current window."""
        main = self.main
        window = main.shown
        if window is None or not self.whole:
            return
        frame = Frame(
            width=self.app.size.width - 2,
            height=self.app.size.height,
            glyphs=self.stalltop.glyphs,
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
        """Show another page from its first line."""
        self._places = Places()
        self.query_one("#page", Page).action_end(-1)
        self.show_page()


def past_of(main: MainView, window: Window) -> Sequence[Packed]:
    """Return the kept windows that began before ``window`` ended, oldest first."""
    return [part for part in main.past if part.window.start < window.end]
