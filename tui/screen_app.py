"""The app as its screens see it: options, colours, and what they ask it for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from textual.message import Message
from textual.screen import Screen

from stalltop.model.chain import Chain
from stalltop.model.progress import Progress
from stalltop.model.rows.pivot import Dimension
from stalltop.model.source import Source
from stalltop.recordings.write.recorded_source import RecordedSource
from stalltop.tui.collector import Collector, SourceReader
from stalltop.tui.latest import Latest
from stalltop.tui.main.slow_line import SlowLine
from stalltop.tui.past.moments import Asked, Picture
from stalltop.tui.row.facts import Path
from stalltop.tui.saving.formats import Shown
from stalltop.tui.saving.saving import Saving
from stalltop.tui.settings.colours import Colours
from stalltop.tui.settings.settings import Settings
from stalltop.tui.tables.compare import Pair
from stalltop.tui.terminal.abilities import speaks_unicode
from stalltop.tui.terminal.app import TerminalApp

if TYPE_CHECKING:
    from stalltop.recordings.past.opened import OpenedRecording


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


class Opens(Protocol):
    """Opens pages on top of the main screen, which knows none of them."""

    def row(self, path: Path) -> None:
        """The page of the row at ``path``."""

    def pair(self, pair: Pair) -> None:
        """Two rows side by side."""

    def columns(
        self,
        by: Dimension,
        chosen: Sequence[str],
        usual: Sequence[str],
        tell: Callable[[tuple[str, ...]], None],
    ) -> None:
        """The columns of tables by ``by``; ``tell`` gets each choice."""

    def chains(self, chains: Sequence[Chain], at: int = 0) -> None:
        """The page of the chain number ``at``, the others to its left and right."""

    def warnings(self) -> None:
        """All warnings, and what is traced."""

    def device(self, at: int = 0) -> None:
        """The page of a GPU."""

    def devices(self, on: Sequence[int]) -> None:
        """The list of GPUs; the cursor is on the first of ``on``."""

    def save(self, shown: Shown, tell: Callable[[str, str, float], None]) -> None:
        """The dialogue that saves ``shown``; ``tell`` gets a message, its role and its seconds."""

    def moment(self, start: float, end: float, at: float, went: Callable[[float | None], None]) -> None:
        """The line where a moment is typed; ``went`` gets it, or None."""


class ScreenApp(TerminalApp):
    """Options, colours and the background work of the screens."""

    opens: Opens

    def __init__(self, source: Source | OpenedRecording, options: RunOptions) -> None:
        if not os.environ.get("NO_COLOR", "x"):
            del os.environ["NO_COLOR"]  # set but empty means nothing; Textual takes it for a yes
        # Asked for no colours, Textual leaves those out that a theme in the terminal's own colours has.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.options = options
        self.unicode = not options.ascii and speaks_unicode()
        self.colours = Colours(self, options.theme)
        self.slow_line = SlowLine(low=options.low_bandwidth)
        self.began = time.monotonic()
        self.saving = Saving(self.post_message)
        self.collector = _reader(source, self.post_message, options)
        self._making = Latest("stalltop-past", lambda error: self.post_message(NotMade(error)))
        if options.low_bandwidth:
            self.colours.few(True)

    def choose_length(self, length: float | None) -> None:
        """New windows have this length, seconds; None: since the start."""
        self.collector.choose(length)

    def make(self, asked: Asked) -> None:
        """Make a picture of the past, or of another length, beside the screen; it comes as a message. What
        was asked for before and was not begun yet is given up."""

        def work(stale: Callable[[], bool]) -> None:
            for picture in asked.make(stale):
                self.post_message(Made(asked.turn, picture))

        self._making.ask(work)

    @property
    def letters(self) -> bool:
        """Whether colours alone tell too little, so that parts of a bar have letters."""
        return self.colours.letters

    @property
    def pictures(self) -> bool:
        """Whether bars are drawn, and what else takes more to send than it tells."""
        return not self.slow_line.low


class AppScreen(Screen[None]):
    """A screen of that app."""

    @property
    def stalltop(self) -> ScreenApp:
        """The app, by its own type."""
        return cast("ScreenApp", self.app)


def _reader(
    source: Source | OpenedRecording, post: Callable[[Message], object], options: RunOptions
) -> SourceReader:
    """What reads ``source`` beside the screen."""
    interval, length = options.interval, options.window
    if not isinstance(source, Source):
        from stalltop.tui.past.follower import Follower  # with all that reads files

        return Follower(source, post, interval=interval, length=length)
    return Collector(source, post, interval=interval, length=length, still=options.still)
