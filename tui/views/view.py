"""Views: how a table groups, narrows, filters, sorts and unfolds the rows of a window. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.filter import parse
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import Window
from stalltop.tui.keys.actions import key
from stalltop.tui.views.groups import Key
from stalltop.tui.views.orders import WORST
from stalltop.tui.views.path import PathStep
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
"""Titles of tables, by dimension."""

BESIDE: dict[Dimension, tuple[Dimension, ...]] = {
    "operation": ("operation", "layer"),
    "process": ("process", "container"),
    "pod": ("pod", "namespace"),
}
"""Dimensions whose rows show a second dimension beside the name, to distinguish rows of the same name."""

BELOW: tuple[Dimension, ...] = ("container", "operation", "process")
"""Enter on a row shows the rows inside it, grouped by the first of these dimensions that neither the table
nor a step of its path has. Inside a process, the container is skipped too."""


Only = Literal["", "nested", "busy", "warned"]
"""The rows to show. Empty: all rows but those of calls inside other calls. ``nested``: all rows. ``busy``:
like empty, but only rows with a call or a long open call. ``warned``: rows with a problem or a long open
call."""
ONLY: dict[Only, str] = {
    "": "without calls inside other calls, and without small rows while others lose time",
    "nested": "all rows",
    "busy": "without idle rows",
    "warned": "with problems or open calls",
}
"""The message about each choice of rows, in the order in which the key selects them."""

DEPTH = 3
"""Levels of a tree: rows, and two levels below them."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a tree of rows."""

    view: View
    """The view that shows these rows when the user enters their parent."""
    by: tuple[Dimension, ...]
    """The dimensions of the keys of these rows, beginning with those of the parents."""
    own: int
    """The index in ``by`` of the dimension of this level."""


@dataclass(frozen=True, slots=True)
class View:
    """What a table shows of a window."""

    by: Dimension = "container"
    path: tuple[PathStep, ...] = ()
    sort: str = WORST
    descending: bool = True
    filter: str = ""
    only: Only = ""
    unfolded: frozenset[Key] = frozenset()
    """Keys of the rows whose children are shown."""
    all_unfolded: bool = False
    """Whether all rows of the first level are unfolded. Then ``unfolded`` holds the exceptions."""

    def used(self) -> set[Dimension]:
        """Return the dimensions of the path and of the rows."""
        return {self.by, *(step.dimension for step in self.path)}

    def below(self) -> Dimension | None:
        """Return the dimension by which Enter groups the rows inside a row; None if a row has no rows
        inside."""
        used = self.used()
        if "process" in used or ("pod" in used and "container" in used):
            used |= {"container"}  # a process runs in one container only
        return next((dimension for dimension in BELOW if dimension not in used), None)

    def entered(self, key: str, label: str) -> View:
        """Return the view inside the group ``key``; this view if there is nothing below."""
        below = self.below()
        if below is None:
            return self
        return replace(self.folded(), by=below, path=(*self.path, PathStep(self.by, key, label)))

    def looking_at(self, path: tuple[PathStep, ...]) -> View:
        """Return the view that contains the row at the end of ``path`` on its first level."""
        return replace(self.folded(), by=path[-1].dimension, path=path[:-1])

    def left(self) -> View:
        """Return the view one step up."""
        if not self.path:
            return self
        return replace(self.folded(), by=self.path[-1].dimension, path=self.path[:-1])

    def pivoted(self, by: Dimension) -> View:
        """Return the view grouped by ``by``. If the path has a step of that dimension, this step and later
        ones are removed."""
        path = self.path
        for at, step in enumerate(path):
            if step.dimension == by:
                path = path[:at]
                break
        return replace(self if by == self.by and path == self.path else self.folded(), by=by, path=path)

    def besides(self, *, devices: bool = False) -> tuple[Dimension, ...]:
        """Return the dimensions by which the second and the third table are grouped beside this view.

        ``devices``: the devices of processes are known.
        """
        wanted: tuple[Dimension, ...] = ("operation", "container", "process", "device")
        left = [one for one in wanted if one not in self.used() and (devices or one != "device")]
        return tuple(left[:2])

    def sorted_by(self, column: str) -> View:
        """Return the view sorted by ``column``: names ascending, figures descending. If the view is sorted by
        this column already, the order is reversed."""
        if column == self.sort:
            return replace(self, descending=not self.descending)
        return replace(self, sort=column, descending=column != "name")

    def next_sort(self, step: int, among: Sequence[str]) -> View:
        """Return the view sorted by the next (1) or previous (-1) of the columns ``among``."""
        at = among.index(self.sort) if self.sort in among else 0
        column = among[(at + step) % len(among)]
        return replace(self, sort=column, descending=column != "name")

    def next_only(self) -> View:
        """Return the view with the next choice of rows in ``ONLY``."""
        choices = tuple(ONLY)
        return replace(self, only=choices[(choices.index(self.only) + 1) % len(choices)])

    # ---- as a tree

    @lru_cache(maxsize=64)  # noqa: B019  # a view is a small value, and few are shown at a time
    def levels(self) -> tuple[Level, ...]:
        """Return the levels of the tree, beginning with the rows of this view."""
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
        """Return the level of the row ``key``. Keys of deeper levels are longer."""
        return next((at for at, level in enumerate(self.levels()) if len(level.by) == len(key)), 0)

    @property
    def is_tree(self) -> bool:
        """Return whether any row is unfolded."""
        return self.all_unfolded or bool(self.unfolded)

    def is_unfolded(self, key: Key, level: int) -> bool:
        """Return whether the children of the row ``key`` of a level are shown."""
        return (key in self.unfolded) != (self.all_unfolded and level == 0)

    def toggled(self, key: Key) -> View:
        """Return the view with the row ``key`` unfolded, or folded; this view if it has nothing below."""
        if self.level_of(key) + 1 >= len(self.levels()):
            return self
        return replace(self, unfolded=self.unfolded ^ {key})

    def all_toggled(self) -> View:
        """Return the view with all rows unfolded by one level, or all folded if any is unfolded."""
        if self.is_tree:
            return self.folded()
        return replace(self, all_unfolded=True) if len(self.levels()) > 1 else self

    def folded(self) -> View:
        """Return the view with all rows folded."""
        return replace(self, unfolded=frozenset(), all_unfolded=False) if self.is_tree else self


def title(
    view: View, glyphs: Glyphs, folded: int = 0, *, short: bool = False
) -> tuple[tuple[str, Role], ...]:
    """Return the title of a table: the path to its rows, the filter, and the order if no heading shows it.

    ``folded``: the number of rows that are left out because they repeat figures of others, or matter little;
    the title names the key that shows them. If it is ``short``, it does not name the usual order, worst
    first, because keys and a legend need the room.
    """
    parts: list[tuple[str, Role]] = []
    for step in view.path:
        parts += [
            (PLURAL[step.dimension], "dim"),
            (glyphs.separator, "dim"),
            (step.label, "accent"),
            (glyphs.separator, "dim"),
        ]
    parts.append((PLURAL[view.by], "head"))
    if view.only:
        parts.append((f"   {ONLY[view.only]}", "warn"))
    if view.filter:
        error = parse(view.filter).error
        parts.append((f"   filter: {view.filter}", "warn"))
        if error:
            parts.append((f"   {error}", "bad"))
    if view.sort == WORST and not (short and view.descending):
        # No heading shows this order, because it is the order of no column.
        parts.append(("   worst first" if view.descending else "   worst last", "dim"))
    if folded:
        shows = f" {folded} more" if short else f" shows {folded} more"
        parts += [("  " if short else "   ", "dim"), (key("only"), "accent"), (shows, "dim")]
    return tuple(parts)


def empty(window: Window, view: View) -> tuple[str, ...]:
    """Return what a table without rows shows."""
    if view.filter:
        hint = parse(view.filter).hint
        said = ("Nothing here matches the filter.", f"{key('out')} clears it, {key('filter')} changes it.")
        return (*said, hint) if hint else said
    if view.only and len(window.rows):
        return (f"No row here. The choice of rows is: {ONLY[view.only]}.", f"{key('only')} shows others.")
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
