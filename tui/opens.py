"""Opens the pages that cover the main screen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from stalltop.model.chain import Chain
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.window import Window
from stalltop.tui.columns.catalogue import Need
from stalltop.tui.saving.saving import Saving
from stalltop.tui.screens.screen_app import ScreenApp
from stalltop.tui.tables.picking import Pair

if TYPE_CHECKING:
    from stalltop.model.actions.offers import Offer
    from stalltop.tui.pages.sections import Frame
    from stalltop.tui.row.detail import Details
    from stalltop.tui.saving.formats import ShownScreen
    from stalltop.tui.views.path import Path
    from stalltop.widgets.page import PanelText

MOST_LINES = 40
"""The most lines that the panel about the first problem asks for."""


class PagesOf:
    """Opens the pages that cover the main screen of ``app``; implements ``main.opens.Opens``."""

    def __init__(self, app: ScreenApp, saving: Saving) -> None:
        """``saving`` saves the files that the user asks for."""
        self._app = app
        self._saving = saving
        self._details: Details | None = None

    def row(self, path: Path) -> None:
        """Open the page of the row at ``path``."""
        from stalltop.tui.row.screen import RowScreen

        self._app.push_screen(RowScreen(path))

    def detail(
        self, window: Window, chain: Chain | None, path: Path, width: int, height: int, *, told: bool
    ) -> PanelText:
        """Return the text of a panel about ``chain`` or, without one, about the row at ``path``. The panel
        has room for ``height`` lines of ``width`` cells. ``told``: the first lines show the same chain."""
        return self._detail_texts.text(window, chain, path, self._frame(width, height), told=told)

    def detail_lines(
        self, window: Window, chain: Chain | None, path: Path, width: int, narrow: int
    ) -> tuple[int, int]:
        """Return how many lines the text of ``detail`` fills in ``width`` cells, and how many the chain alone
        fills in ``narrow`` cells; 0 if there is no chain."""
        frame = self._frame(width, MOST_LINES)
        return self._detail_texts.needs(window, chain, path, frame, narrow)

    @property
    def _detail_texts(self) -> Details:
        from stalltop.tui.row.detail import Details

        if self._details is None:
            self._details = Details()
        return self._details

    def _frame(self, width: int, height: int) -> Frame:
        from stalltop.tui.pages.sections import Frame

        return Frame(width, height, self._app.glyphs, self._app.letters)

    def stacks(self, path: Path) -> None:
        """Open the page with the lines of code of the row at ``path``; of all processes if it is empty."""
        from stalltop.tui.stacks.screen import StacksScreen

        self._app.push_screen(StacksScreen(path))

    def pair(self, pair: Pair) -> None:
        """Show two rows side by side."""
        from stalltop.tui.pair.screen import CompareScreen

        self._app.push_screen(CompareScreen(pair))

    def columns(
        self,
        by: Dimension,
        chosen: Sequence[str],
        usual: Sequence[str],
        tell: Callable[[tuple[str, ...]], None],
        have: Collection[Need],
    ) -> None:
        """Open the dialogue that chooses the columns of tables grouped ``by``. After each change, ``tell`` is
        called with the ids of the chosen columns; with none for the usual ones. ``have`` lists the needs of
        columns that the data meets."""
        from stalltop.tui.tables.column_screen import ColumnScreen

        self._app.push_screen(ColumnScreen(by, chosen, usual, tell, have))

    def graphs(self, chosen: tuple[str, ...], tell: Callable[[tuple[str, ...]], None]) -> None:
        """Open the dialogue for the graphs; ``tell`` is called with each choice."""
        from stalltop.tui.graphs.graph_screen import GraphScreen

        self._app.push_screen(GraphScreen(chosen, tell))

    def chains(self, chains: Sequence[Chain], at: int = 0) -> None:
        """Open the page of chain number ``at``, from which the user can turn to the others."""
        from stalltop.tui.chain.screen import ChainScreen

        self._app.push_screen(ChainScreen(chains, at))

    def commands(self, name: str, offers: Sequence[Offer], window: Window, problem: str = "") -> None:
        """Open the page with ``offers``, the commands for the row or problem ``name`` of ``window``;
        ``problem`` is the id of its chain."""
        from stalltop.tui.commands.screen import CommandsScreen

        self._app.push_screen(CommandsScreen(name, offers, window, problem))

    def warnings(self) -> None:
        """Open all warnings and the coverage."""
        from stalltop.tui.chain.warnings_screen import WarningsScreen

        self._app.push_screen(WarningsScreen())

    def device(self, at: int = 0) -> None:
        """Open the page of the GPU at position ``at`` (from 0) in the window's list of devices."""
        from stalltop.tui.device.screen import DeviceScreen

        self._app.push_screen(DeviceScreen(at))

    def devices(self, on: Sequence[int]) -> None:
        """Open the list of GPUs. The cursor starts on the GPU with the first number in ``on``."""
        from stalltop.tui.device.screen import DevicesScreen

        self._app.push_screen(DevicesScreen(on))

    def save(self, shown: ShownScreen, tell: Callable[[str, str, float], None]) -> None:
        """Open the dialogue that saves ``shown``. ``tell`` is called with a message, the name of the
        message's style in the palette, and the seconds for which the message is shown."""
        from stalltop.tui.saving.screen import SaveScreen

        self._app.push_screen(SaveScreen(shown, self._saving, tell, still=self._app.options.still))

    def moment(self, start: float, end: float, at: float, went: Callable[[float | None], None]) -> None:
        """Open the line in which the user types a moment; ``went`` is called with its Unix time, or with None
        if the user closed the line without a moment."""
        from stalltop.tui.past.when_screen import WhenScreen

        self._app.push_screen(WhenScreen(start, end, at), went)
