"""The app as its screens see it: options, theme, and requests to the app."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from textual.await_complete import AwaitComplete
from textual.message import Message
from textual.screen import Screen, ScreenResultType

from stalltop.model.chain import Chain
from stalltop.model.progress import Progress
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.source import Source
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.recordings.write.recorded_source import RecordedSource
from stalltop.tui.collector import Collector, SourceReader
from stalltop.tui.latest import Latest
from stalltop.tui.main.slow_line import SlowLine
from stalltop.tui.past.moments import Asked, Picture
from stalltop.tui.saving.saving import Saving
from stalltop.tui.settings.colours import Colours
from stalltop.tui.settings.settings import Settings
from stalltop.tui.tables.compare import Pair
from stalltop.tui.terminal.abilities import speaks_unicode
from stalltop.tui.terminal.app import TerminalApp

if TYPE_CHECKING:
    from stalltop.recordings.past.opened import OpenedRecording
    from stalltop.tui.row.facts import Path
    from stalltop.tui.saving.formats import ShownScreen


@dataclass(frozen=True, slots=True)
class RunOptions(Settings):
    """The settings of the screen, and what the command that starts it adds."""

    notes: tuple[str, ...] = ()
    """Messages of the program that are not about a window, such as why data is simulated; one line each."""
    demo: bool = False
    """Whether the tenants are samples that were started as a demo; the first line tells it."""
    still: bool = False
    """Whether the source has only one window, such as a saved one."""
    recorded: RecordedSource | None = None
    """The source if it can be recorded; else None."""
    at: float | None = None
    """The moment of a recording to show first, Unix time; None: the newest."""
    progress: Progress | None = None
    """The progress of the start; None if the start takes no time."""
    print_last: bool = True
    """Whether to print the last table on stdout at the end."""
    keep: Callable[[Mapping[str, object]], object] | None = None
    """Called at the end with the current values of the settings that keys can change."""


class PictureMade(Message):
    """Tells that the picture that was asked for at ``turn`` was computed."""

    def __init__(self, turn: int, picture: Picture) -> None:
        super().__init__()
        self.turn, self.picture = turn, picture


class PictureNotMade(Message):
    """Tells that a picture could not be computed. Later requests may succeed."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class Opens(Protocol):
    """Opens pages that cover the main screen, which does not import them."""

    def row(self, path: Path) -> None:
        """Open the page of the row at ``path``."""

    def pair(self, pair: Pair) -> None:
        """Show two rows side by side."""

    def columns(
        self,
        by: Dimension,
        chosen: Sequence[str],
        usual: Sequence[str],
        tell: Callable[[tuple[str, ...]], None],
    ) -> None:
        """Open the dialogue that chooses the columns of tables grouped ``by``; ``tell`` gets each choice."""

    def chains(self, chains: Sequence[Chain], at: int = 0) -> None:
        """Open the page of chain number ``at``, from which the user can turn to the others."""

    def warnings(self) -> None:
        """Open all warnings and the coverage."""

    def device(self, at: int = 0) -> None:
        """Open the page of GPU number ``at``."""

    def devices(self, on: Sequence[int]) -> None:
        """Open the list of GPUs with the cursor on the first of ``on``."""

    def save(self, shown: ShownScreen, tell: Callable[[str, str, float], None]) -> None:
        """Open the dialogue that saves ``shown``; ``tell`` gets a message, its role and its seconds."""

    def moment(self, start: float, end: float, at: float, went: Callable[[float | None], None]) -> None:
        """Open the line in which the user types a moment; ``went`` gets its Unix time, or None if the user
        gave up."""


class ScreenApp(TerminalApp):
    """Holds the options, the theme and the background work for the screens."""

    opens: Opens

    def __init__(self, source: Source | OpenedRecording, options: RunOptions) -> None:
        if not os.environ.get("NO_COLOR", "x"):
            # An empty NO_COLOR has no meaning, but Textual takes it for a request for no colours.
            del os.environ["NO_COLOR"]
        # Textual honours NO_COLOR only in a theme that uses the terminal's own (ANSI) colours.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.options = options
        self.glyphs = ASCII if options.ascii or not speaks_unicode() else UNICODE
        self.colours = Colours(self, options.theme)
        self.slow_line = SlowLine(low=options.low_bandwidth)
        self.began = time.monotonic()
        self.saving = Saving(self.post_message)
        self.collector = _reader(source, self.post_message, options)
        self._making = Latest("stalltop-past", lambda error: self.post_message(PictureNotMade(error)))
        if options.low_bandwidth:
            self.colours.few(True)

    def choose_length(self, length: float | None) -> None:
        """Read windows of this length, in seconds, from now on; None: since the start."""
        self.collector.choose(length)

    def make(self, asked: Asked) -> None:
        """Compute the picture that is ``asked`` for in the background; it arrives as a message. An earlier
        request that was not started is dropped."""

        def work(stale: Callable[[], bool]) -> None:
            for picture in asked.make(stale):
                self.post_message(PictureMade(asked.turn, picture))

        self._making.ask(work)

    @property
    def letters(self) -> bool:
        """Return whether parts of a bar need letters, because the colours do not differ enough."""
        return self.colours.letters

    @property
    def pictures(self) -> bool:
        """Return whether bars and charts are drawn. They take many bytes on a slow connection."""
        return not self.slow_line.low


class TopScreen(Screen[ScreenResultType]):
    """A screen that only the topmost one of the app can close.

    Keys that arrive quickly can reach a screen that is closed already, or that another one covers. Textual
    would then close the screen on top instead, or fail.
    """

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the screen with ``result``. Does nothing if it is not on top."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


class AppScreen(TopScreen[None]):
    """A screen of this app."""

    @property
    def stalltop(self) -> ScreenApp:
        """Return the app as a ``ScreenApp``."""
        return cast("ScreenApp", self.app)


def _reader(
    source: Source | OpenedRecording, post: Callable[[Message], object], options: RunOptions
) -> SourceReader:
    """Return what reads ``source`` in the background."""
    interval, length = options.interval, options.window
    if not isinstance(source, Source):
        # imported here, because it imports all modules that read files
        from stalltop.tui.past.follower import Follower

        return Follower(source, post, interval=interval, length=length)
    return Collector(source, post, interval=interval, length=length, still=options.still)
