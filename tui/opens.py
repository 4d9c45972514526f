"""Opens the pages that lie on the main screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stalltop.model.chain import Chain
from stalltop.model.rows.pivot import Dimension
from stalltop.tui.chain.screen import ChainScreen
from stalltop.tui.chain.warnings_screen import WarningsScreen
from stalltop.tui.device.screen import DeviceScreen, DevicesScreen
from stalltop.tui.past.when_screen import WhenScreen
from stalltop.tui.row.facts import Path
from stalltop.tui.row.screen import RowScreen
from stalltop.tui.saving.formats import Shown
from stalltop.tui.saving.screen import SaveScreen
from stalltop.tui.screen_app import ScreenApp
from stalltop.tui.tables.column_screen import ColumnScreen
from stalltop.tui.tables.compare import Pair
from stalltop.tui.tables.compare_screen import CompareScreen


class PagesOf:
    """The pages of ``app``: ``screen_app.Opens``."""

    def __init__(self, app: ScreenApp) -> None:
        self._app = app

    def row(self, path: Path) -> None:
        """The page of the row at ``path``."""
        self._app.push_screen(RowScreen(path))

    def pair(self, pair: Pair) -> None:
        """Two rows side by side."""
        self._app.push_screen(CompareScreen(pair))

    def columns(
        self,
        by: Dimension,
        chosen: Sequence[str],
        usual: Sequence[str],
        tell: Callable[[tuple[str, ...]], None],
    ) -> None:
        """The columns of tables by ``by``; ``tell`` gets each choice."""
        self._app.push_screen(ColumnScreen(by, chosen, usual, tell))

    def chains(self, chains: Sequence[Chain], at: int = 0) -> None:
        """The page of the chain number ``at``, the others to its left and right."""
        self._app.push_screen(ChainScreen(chains, at))

    def warnings(self) -> None:
        """All warnings, and what is traced."""
        self._app.push_screen(WarningsScreen())

    def device(self, at: int = 0) -> None:
        """The page of a GPU."""
        self._app.push_screen(DeviceScreen(at))

    def devices(self, on: Sequence[int]) -> None:
        """The list of GPUs; the cursor is on the first of ``on``."""
        self._app.push_screen(DevicesScreen(on))

    def save(self, shown: Shown, tell: Callable[[str, str, float], None]) -> None:
        """The dialogue that saves ``shown``; ``tell`` gets a message, its role and its seconds."""
        self._app.push_screen(SaveScreen(shown, tell, still=self._app.options.still))

    def moment(self, start: float, end: float, at: float, went: Callable[[float | None], None]) -> None:
        """The line where a moment is typed; ``went`` gets it, or None."""
        self._app.push_screen(WhenScreen(start, end, at), went)
