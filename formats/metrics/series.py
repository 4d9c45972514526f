"""Counters of labelled series, in a bounded number of series."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

L = TypeVar("L", bound=tuple[Any, ...])

_REST = 0
"""Place of the one series that counts everything without a series of its own."""


class SeriesValues(NamedTuple, Generic[L]):
    """The present values of one series."""

    labels: L
    created: float
    """Unix time in seconds at which all its counters were 0."""
    values: NDArray[np.uint64]
    """One total per column."""


class BoundedSeries(Generic[L]):
    """Totals by labels. Every series has the same ``columns`` counters.

    The first ``most`` different labels have series of their own. All others are added up in one further
    series, with the labels ``rest``. So the sum over all series is always complete, and no total ever falls:
    when a place becomes free, the next new labels get it and begin at 0, and what was added to the rest stays
    there.
    """

    def __init__(self, columns: int, most: int, rest: L) -> None:
        self.folded = 0
        """How many different labels of the last ``add`` have no series of their own."""
        self._rest = rest
        self._places: dict[L, int] = {}
        self._free = list(range(most, _REST, -1))
        self._values = np.zeros((most + 1, columns), np.uint64)
        self._created = np.zeros(most + 1)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, labels: Sequence[L], values: NDArray[np.uint64], start: float, weight: int = 0) -> None:
        """Adds ``values``, shape (len(labels), columns), which were counted from ``start`` (Unix seconds) on.

        If there are more new labels than free places, those with the largest value in column ``weight`` get
        places."""
        new = [at for at, one in enumerate(labels) if one not in self._places]
        if len(new) > len(self._free):
            new.sort(key=lambda at: -int(values[at, weight]))
        for at in new:
            if self._free and labels[at] not in self._places:
                place = self._places[labels[at]] = self._free.pop()
                self._values[place], self._created[place] = 0, start
        places = np.fromiter((self._places.get(one, _REST) for one in labels), np.int64, len(labels))
        self.folded = len({labels[at] for at in np.flatnonzero(places == _REST).tolist()})
        if self.folded and not self._created[_REST]:
            self._created[_REST] = start
        np.add.at(self._values, places, values)

    def drop(self, ended: Collection[tuple[Any, ...]]) -> None:
        """Ends the series of all labels that contain one of ``ended``: a tenant, a device or a culprit."""
        for labels in [one for one in self._places if any(part in ended for part in one)]:
            self._free.append(self._places.pop(labels))

    def __iter__(self) -> Iterator[SeriesValues[L]]:
        """Yields every series, that of the rest last, if anything was added to it."""
        for labels, place in self._places.items():
            yield SeriesValues(labels, float(self._created[place]), self._values[place])
        if self._created[_REST]:
            yield SeriesValues(self._rest, float(self._created[_REST]), self._values[_REST])
