"""Remembers the tables before each step into a row, to return to them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from stalltop.tui.views.path import PathStep
from stalltop.tui.views.view import View


@dataclass(frozen=True, slots=True)
class TablesBefore:
    """The tables before a step into a row."""

    inside: tuple[PathStep, ...]
    """The path to which the step led."""
    view: View
    other_views: tuple[View, View]
    """The views of the second and the third table."""
    cursors: tuple[Hashable, Hashable, Hashable]
    """The key of the row to which the cursor of each table was moved; None if it was not moved."""
    focus: int
    """The number of the table that had the focus, from 0."""


class WayBack:
    """The tables before each step into a row, the last step last."""

    def __init__(self) -> None:
        self._steps: list[TablesBefore] = []

    def remember(self, tables: TablesBefore) -> None:
        """Remember the tables before a step."""
        self._steps.append(tables)

    def before(self, path: Sequence[PathStep]) -> TablesBefore | None:
        """Return the tables as they were before the last step of ``path``, and forget that step. Return None
        if no remembered step led to ``path``."""
        path = tuple(path)
        while self._steps and self._steps[-1].inside != path[: len(self._steps[-1].inside)]:
            self._steps.pop()  # grouping by another dimension removed that step
        return self._steps.pop() if self._steps and self._steps[-1].inside == path else None
