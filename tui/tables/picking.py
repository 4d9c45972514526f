"""The two rows that a user compares: the one picked first is remembered until the second is picked."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.rows.dimensions import Dimension
from stalltop.tui.keys import actions as keys
from stalltop.tui.views.groups import Key
from stalltop.tui.views.path import PathStep
from stalltop.tui.views.view import BELOW, PLURAL, View
from stalltop.widgets.table import Cell

PLACES: frozenset[Dimension] = frozenset({"host", "namespace", "pod", "container", "process"})
"""Dimensions that contain each other: a container is in one pod, a pod in one namespace, and so on."""
PICKED = Cell("v", "accent")
"""Marks the picked row."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows of the same dimension, each given by its path."""

    a: tuple[PathStep, ...]
    b: tuple[PathStep, ...]

    @staticmethod
    def of(a: tuple[PathStep, ...], b: tuple[PathStep, ...]) -> Pair | None:
        """Return the pair of two rows; None if they have different dimensions or are the same row."""
        if not a or a == b or [step.dimension for step in a] != [step.dimension for step in b]:
            return None
        return Pair(a, b)

    @property
    def view(self) -> View:
        """Return the view in which both rows are compared. It is grouped by the first dimension whose values
        both rows may share, such as operations for two containers."""
        apart = {a.dimension for a, b in zip(self.a, self.b, strict=True) if a != b}
        taken = {step.dimension for step in self.a}
        if apart & PLACES:
            taken |= PLACES  # no container, process, ... is part of both rows
        if "layer" in taken:
            taken |= {"operation"}  # an operation belongs to one layer only
        by: Dimension = next((one for one in BELOW if one not in taken), "operation")
        return View(by=by, path=self.a)


@dataclass(frozen=True, slots=True)
class PickedRow:
    """The row that was picked."""

    path: tuple[PathStep, ...]
    """The path of the row, with the row itself as its last step."""
    inside: tuple[PathStep, ...]
    """The path of the table that contains the row."""
    by: tuple[Dimension, ...]
    key: Key
    """The key of the row. ``by`` names the dimensions of its values."""


class Picking:
    """Picks one row, and then a second one to compare it with."""

    def __init__(self) -> None:
        self.picked: PickedRow | None = None

    def pick(self, path: tuple[PathStep, ...], view: View, key: Key) -> Pair | str:
        """Pick the row ``key`` at the end of ``path`` in a table of ``view``.

        Returns the pair if this is the second row of its dimension, otherwise a message. Picking the same row
        again unpicks it; the message is then empty.
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
        """Unpick the row."""
        self.picked = None

    def unpicks(self, view: View) -> bool:
        """Return whether a step back from ``view`` unpicks the row. A step back from inside a row does not:
        the user may pick the second row after that step."""
        return self.picked is not None and not view.path

    def marks(self, view: View) -> dict[Key, Cell]:
        """Return the mark of the picked row, by key, if the table of ``view`` contains it."""
        picked = self.picked
        if picked is None or picked.inside != view.path:
            return {}
        return dict.fromkeys([picked.key for level in view.levels() if level.by == picked.by], PICKED)
