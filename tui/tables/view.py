"""What is looked at: how rows are grouped, narrowed and sorted. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from stalltop.model.rows.filter import parse
from stalltop.model.rows.pivot import Dimension
from stalltop.model.window import Window
from stalltop.tui.keys import key
from stalltop.tui.tables.columns.choice import BESIDE
from stalltop.tui.tables.groups import Key, PathStep
from stalltop.widgets.table import Role

PLURAL: dict[Dimension, str] = {
    "container": "containers",
    "namespace": "namespaces",
    "pod": "pods",
    "process": "processes",
    "operation": "operations",
    "layer": "layers",
    "device": "devices",
    "host": "hosts",
}
"""What a table of groups is called."""

BELOW: tuple[Dimension, ...] = ("container", "operation", "process")
"""What Enter goes down to, in this order, leaving out what is decided already."""


Only = Literal["", "busy", "warned"]
"""Which rows are left: all, those with a call, those that a chain speaks of or that hold a long open call."""
ONLY: dict[Only, str] = {"": "all rows", "busy": "without idle rows", "warned": "with chains or open calls"}
"""What is said of it, in the order in which a key goes through them."""

DEPTH = 3
"""Levels of a tree: rows, and two below them."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a tree of rows."""

    view: View
    """What its rows are when one goes down to them."""
    by: tuple[Dimension, ...]
    """The parts of their keys: those of the rows above come first."""
    own: int
    """Where in ``by`` their own dimension is."""


@dataclass(frozen=True, slots=True)
class View:
    """How a window is looked at."""

    by: Dimension = "container"
    path: tuple[PathStep, ...] = ()
    sort: str = "total"
    descending: bool = True
    filter: str = ""
    only: Only = ""
    unfolded: frozenset[Key] = frozenset()
    """Rows with what is below them shown in place."""
    all_unfolded: bool = False
    """All rows of the first level are, but for those in ``unfolded``."""

    def used(self) -> set[Dimension]:
        """Dimensions that are decided or shown."""
        return {self.by, *(step.dimension for step in self.path)}

    def below(self) -> Dimension | None:
        """What Enter shows next; None at the bottom."""
        used = self.used()
        if "process" in used or ("pod" in used and "container" in used):
            used |= {"container"}  # a process is in one container only
        return next((dimension for dimension in BELOW if dimension not in used), None)

    def entered(self, key: str, label: str) -> View:
        """The view inside the group ``key``; the same one where there is nothing below."""
        below = self.below()
        if below is None:
            return self
        return replace(self.folded(), by=below, path=(*self.path, PathStep(self.by, key, label)))

    def looking_at(self, path: tuple[PathStep, ...]) -> View:
        """The view with the row at the end of ``path`` among its own, not unfolded below others."""
        return replace(self.folded(), by=path[-1].dimension, path=path[:-1])

    def left(self) -> View:
        """The view one step up."""
        if not self.path:
            return self
        return replace(self.folded(), by=self.path[-1].dimension, path=self.path[:-1])

    def pivoted(self, by: Dimension) -> View:
        """The same rows grouped by ``by``; steps that decided it, and those after them, are taken back."""
        path = self.path
        for at, step in enumerate(path):
            if step.dimension == by:
                path = path[:at]
                break
        return replace(self if by == self.by and path == self.path else self.folded(), by=by, path=path)

    def besides(self, *, devices: bool = False) -> tuple[Dimension, ...]:
        """What a second and a third table show next to this one, as far as anything is left; ``devices``: it
        is known which processes are on which."""
        wanted: tuple[Dimension, ...] = ("operation", "container", "process", "device")
        left = [one for one in wanted if one not in self.used() and (devices or one != "device")]
        return tuple(left[:2])

    def sorted_by(self, column: str) -> View:
        """Sorted by ``column``: names upwards, figures downwards; the same column again turns the order."""
        if column == self.sort:
            return replace(self, descending=not self.descending)
        return replace(self, sort=column, descending=column != "name")

    def next_sort(self, step: int, among: Sequence[str]) -> View:
        """Sorted by the next (1) or previous (-1) of the columns ``among``."""
        at = among.index(self.sort) if self.sort in among else 0
        column = among[(at + step) % len(among)]
        return replace(self, sort=column, descending=column != "name")

    def next_only(self) -> View:
        """With the next choice of rows."""
        choices = tuple(ONLY)
        return replace(self, only=choices[(choices.index(self.only) + 1) % len(choices)])

    # ---- as a tree

    def levels(self) -> tuple[Level, ...]:
        """The levels of the tree, the rows of this view first."""
        return tuple(self._levels())

    def _levels(self) -> Iterator[Level]:
        view, by = self, tuple[Dimension, ...]()
        for _ in range(DEPTH):
            own = tuple(one for one in BESIDE.get(view.by, (view.by,)) if one not in by)
            yield Level(view, (*by, *own), len(by))
            by = (*by, *own)
            inside = view.entered("", "")
            if inside is view:
                return
            view = inside

    def level_of(self, key: Key) -> int:
        """The level of the row ``key``: keys grow longer from level to level."""
        return next((at for at, level in enumerate(self.levels()) if len(level.by) == len(key)), 0)

    @property
    def is_tree(self) -> bool:
        """Whether any row is unfolded."""
        return self.all_unfolded or bool(self.unfolded)

    def is_unfolded(self, key: Key, level: int) -> bool:
        """Whether what is below the row ``key`` of a level is shown."""
        return (key in self.unfolded) != (self.all_unfolded and level == 0)

    def toggled(self, key: Key) -> View:
        """With the row ``key`` unfolded, or folded if it was; the same view where there is nothing below."""
        if self.level_of(key) + 1 >= len(self.levels()):
            return self
        return replace(self, unfolded=self.unfolded ^ {key})

    def all_toggled(self) -> View:
        """With all rows unfolded by one level, or all folded if any is unfolded."""
        if self.is_tree:
            return self.folded()
        return replace(self, all_unfolded=True) if len(self.levels()) > 1 else self

    def folded(self) -> View:
        """With nothing unfolded."""
        return replace(self, unfolded=frozenset(), all_unfolded=False) if self.is_tree else self


def title(view: View, *, unicode: bool) -> tuple[tuple[str, Role], ...]:
    """The way down to what is shown, and the filter."""
    arrow = " › " if unicode else " > "
    parts: list[tuple[str, Role]] = []
    for step in view.path:
        parts += [(PLURAL[step.dimension], "dim"), (arrow, "dim"), (step.label, "accent"), (arrow, "dim")]
    parts.append((PLURAL[view.by], "head"))
    if view.only:
        parts.append((f"   {ONLY[view.only]}", "warn"))
    if view.filter:
        error = parse(view.filter).error
        parts.append((f"   filter: {view.filter}", "warn"))
        if error:
            parts.append((f"   {error}", "bad"))
    return tuple(parts)


def empty(window: Window, view: View) -> tuple[str, ...]:
    """What to say where there is no row."""
    if view.filter:
        hint = parse(view.filter).hint
        said = ("Nothing here matches the filter.", f"{key('out')} clears it, {key('filter')} changes it.")
        return (*said, hint) if hint else said
    if view.only and len(window.rows):
        return (f"No row here: only those {ONLY[view.only]} are shown.", f"{key('only')} shows others.")
    if view.path:
        return (
            "No calls here within this window.",
            f"{key('out')} goes back, {key('longer')} takes a longer window.",
        )
    if window.coverage.tracing:
        return (
            f"Nothing is traced: {window.coverage.tracing}",
            f"{key('warnings')}: all that is known about it.",
        )
    if not window.coverage.libraries:
        return (
            "No process here uses CUDA or NCCL now: none maps libcuda, libcudart or libnccl.",
            "One that starts is traced within a second. To see sample tenants: stalltop demo",
        )
    return (
        f"Traced, but no CUDA or NCCL call in this window of {window.seconds:.0f}s.",
        f"{key('longer')} takes a longer window; {key('warnings')}: what is traced.",
    )
