"""The options of a run of the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stalltop.model.caption import Caption
from stalltop.model.merge.history import History
from stalltop.model.progress import Progress
from stalltop.model.telling import NO_TELLINGS, Tellings
from stalltop.recordings.write.recorded_source import RecordedSource
from stalltop.tui.reading.own_cost import OwnCost
from stalltop.tui.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class RunOptions(Settings):
    """The settings of the screen, and what the command that starts it adds."""

    notes: tuple[str, ...] = ()
    """Messages of the program that are not about a window, such as why data is simulated; one line each."""
    demo: bool = False
    """Whether the tenants are samples (``stalltop demo``); the first line then says so."""
    still: bool = False
    """Whether the source has only one window, such as a saved one."""
    recorded: RecordedSource | None = None
    """The source if it can be recorded; else None."""
    at: float | None = None
    """The moment of a recording to show first, Unix time; None: the newest."""
    progress: Progress | None = None
    """The progress of the start; None if the start takes no time."""
    history: History | None = None
    """The past, which the source may extend by windows before the first; None: it begins with the screen."""
    paced: Callable[[], bool] = bool
    """Returns whether the windows come from another process at present, which then sets the pace."""
    suspend_note: Callable[[], str] = str
    """Returns a line to print when Ctrl-Z stops the program; '' for none."""
    own_cost: OwnCost | None = None
    """Measures what this process costs, for the first line; None if it does not trace."""
    caption: Caption | None = None
    """The caption of a demonstration, which its source changes; None if there is none."""
    print_last: bool = True
    """Whether to print the last table on stdout at the end."""
    tellings: Callable[[], Tellings] = lambda: NO_TELLINGS
    """Returns the words for each cause that a diagnosis can name. It is called only when there is data to
    show, because importing the causes takes time."""
    keep: Callable[[Mapping[str, object]], object] | None = None
    """Called at the end with the current values of the settings that keys can change."""
