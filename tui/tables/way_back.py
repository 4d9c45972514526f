"""The way back: tables as they were before each step down."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from stalltop.tui.tables.groups import Step
from stalltop.tui.tables.view import View


@dataclass(frozen=True, slots=True)
class Place:
    """The tables as they were before a step down."""

    inside: tuple[Step, ...]
    """The path that the step led to."""
    view: View
    other_views: tuple[View, View]
    """Of the second and the third table."""
    cursors: tuple[Hashable, Hashable, Hashable]
    """Of each table; None where nobody moved it."""
    focus: int
    """Number of the table that the keys went to, from 0."""


class Places:
    """The places that steps down were taken from."""

    def __init__(self) -> None:
        self._places: list[Place] = []

    def remember(self, place: Place) -> None:
        """A step down was taken from ``place``."""
        self._places.append(place)

    def before(self, path: Sequence[Step]) -> Place | None:
        """Where the last step of ``path`` was taken, which is forgotten then; None where none led there."""
        path = tuple(path)
        while self._places and self._places[-1].inside != path[: len(self._places[-1].inside)]:
            self._places.pop()  # a pivot took that step back
        return self._places.pop() if self._places and self._places[-1].inside == path else None
