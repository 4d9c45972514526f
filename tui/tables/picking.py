"""The row that was picked to be compared with another one."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.rows.pivot import Dimension
from stalltop.tui import keys
from stalltop.tui.tables.compare import Pair
from stalltop.tui.tables.groups import Key, PathStep
from stalltop.tui.tables.view import PLURAL, View
from stalltop.widgets.table import Cell

PICKED = Cell("v", "accent")
"""Marks that row."""


@dataclass(frozen=True, slots=True)
class PickedRow:
    """One row of a table."""

    path: tuple[PathStep, ...]
    """The way down to it, itself last."""
    inside: tuple[PathStep, ...]
    """The path of the table that it was picked in."""
    by: tuple[Dimension, ...]
    key: Key
    """Its key, and the parts that this has."""


class Picking:
    """Picks a row, then another one to compare it with."""

    def __init__(self) -> None:
        self.picked: PickedRow | None = None

    def pick(self, path: tuple[PathStep, ...], view: View, key: Key) -> Pair | str:
        """Pick the row ``key`` at the end of ``path`` in a table of ``view``.

        Returns both rows once a second one of its kind is picked, else what is to be said; the same row a
        second time is no longer picked, and nothing is said.
        """
        before, self.picked = self.picked, None
        pair = Pair.of(before.path, path) if before is not None else None
        if pair is not None:
            return pair
        if before is not None and before.path == path:
            return ""
        self.picked = PickedRow(path, view.path, view.levels()[view.level_of(key)].by, key)
        others = PLURAL[path[-1].dimension]
        instead = f", not {before.path[-1].label}" if before is not None else ""
        again = f"{keys.key('versus')} on another one of the {others} compares both"
        return f"{path[-1].label} is picked{instead}: {again}"

    def let_go(self) -> None:
        """Pick no row."""
        self.picked = None

    def unpicks(self, view: View) -> bool:
        """Whether a step back from ``view`` lets go of the row: within another row it leads back, to where a
        second one may be picked."""
        return self.picked is not None and not view.path

    def marks(self, view: View) -> dict[Key, Cell]:
        """The mark of the row in the table of ``view``."""
        picked = self.picked
        if picked is None or picked.inside != view.path:
            return {}
        return dict.fromkeys([picked.key for level in view.levels() if level.by == picked.by], PICKED)
