"""The way back: tables as they were before each step down."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from stalltop.tui.tables.groups import PathStep
from stalltop.tui.tables.view import View


@dataclass(frozen=True, slots=True)
class TablesBefore:
    """The tables as they were before a step down."""

    inside: tuple[PathStep, ...]
    """The path that the step led to."""
    view: View
    other_views: tuple[View, View]
    """Of the second and the third table."""
    cursors: tuple[Hashable, Hashable, Hashable]
    """Of each table; None where nobody moved it."""
    focus: int
    """Number of the table that the keys went to, from 0."""


class WayBack:
    """The tables before each step down, the last step last."""

    def __init__(self) -> None:
        self._steps: list[TablesBefore] = []

    def remember(self, tables: TablesBefore) -> None:
        """Keep the tables that a step down was taken from."""
        self._steps.append(tables)

    def before(self, path: Sequence[PathStep]) -> TablesBefore | None:
        """Return and forget the tables from before the last step of ``path``; None if no step led there."""
        path = tuple(path)
        while self._steps and self._steps[-1].inside != path[: len(self._steps[-1].inside)]:
            self._steps.pop()  # a pivot took that step back
        return self._steps.pop() if self._steps and self._steps[-1].inside == path else None
