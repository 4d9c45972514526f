"""What the main screen asks the app for: the pages that cover it, and parts of pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from stalltop.model.chain import Chain
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.window import Window
from stalltop.tui.columns.catalogue import Need
from stalltop.tui.tables.picking import Pair
from stalltop.tui.views.path import Path

if TYPE_CHECKING:
    from stalltop.model.actions.offers import Offer
    from stalltop.tui.saving.formats import ShownScreen
    from stalltop.widgets.page import PanelText


class Opens(Protocol):
    """Opens pages that cover the main screen. Pages import the main screen. Through this protocol the main
    screen opens them without importing them."""

    def row(self, path: Path) -> None:
        """Open the page of the row at ``path``."""

    def detail(
        self, window: Window, chain: Chain | None, path: Path, width: int, height: int, *, told: bool
    ) -> PanelText:
        """Return the text of a panel about ``chain`` or, without one, about the row at ``path``. The panel
        has room for ``height`` lines of ``width`` cells. ``told``: the first lines show the same chain."""

    def detail_lines(
        self, window: Window, chain: Chain | None, path: Path, width: int, narrow: int
    ) -> tuple[int, int]:
        """Return how many lines the text of ``detail`` fills in ``width`` cells, and how many the chain alone
        fills in ``narrow`` cells; 0 if there is no chain."""

    def stacks(self, path: Path) -> None:
        """Open the page with the lines of code of the row at ``path``; of all processes if it is empty."""

    def pair(self, pair: Pair) -> None:
        """Show two rows side by side."""

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

    def graphs(self, chosen: tuple[str, ...], tell: Callable[[tuple[str, ...]], None]) -> None:
        """Open the dialogue that chooses the graphs; ``tell`` is called with each choice."""

    def chains(self, chains: Sequence[Chain], at: int = 0) -> None:
        """Open the page of chain number ``at``, from which the user can turn to the others."""

    def commands(self, name: str, offers: Sequence[Offer], window: Window, problem: str = "") -> None:
        """Open the page with ``offers``, the commands for the row or problem ``name`` of ``window``;
        ``problem`` is the id of its chain."""

    def warnings(self) -> None:
        """Open all warnings and the coverage."""

    def device(self, at: int = 0) -> None:
        """Open the page of the GPU at position ``at`` (from 0) in the window's list of devices."""

    def devices(self, on: Sequence[int]) -> None:
        """Open the list of GPUs. The cursor starts on the GPU with the first number in ``on``."""

    def save(self, shown: ShownScreen, tell: Callable[[str, str, float], None]) -> None:
        """Open the dialogue that saves ``shown``. ``tell`` is called with a message, the name of the
        message's style in the palette, and the seconds for which the message is shown."""

    def moment(self, start: float, end: float, at: float, went: Callable[[float | None], None]) -> None:
        """Open the line in which the user types a moment; ``went`` is called with its Unix time, or with None
        if the user closed the line without a moment."""
