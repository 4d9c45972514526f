"""Remembers the names of rows, for the grouping of the windows that follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.evidence import HOST_LAYER
from stalltop.model.row_key import RowKey
from stalltop.model.sharing.placing import Placement
from stalltop.model.tenant import Tenant

MOST_ROWS = 4096
"""Maximum number of rows that are remembered, unless a window has a quarter as many."""

GroupName = tuple[tuple[str, ...], tuple[str, ...]]
"""Key and labels of a group, as in ``Groups.keys`` and ``Groups.labels``."""


class _NamedRow(NamedTuple):
    """What a grouping needs to know of one row."""

    number: int
    """Number of its name."""
    outermost: bool
    host: bool
    twin: RowKey | None
    """Key of the row with the nested calls of the same function; None if the row is not outermost."""


class NamedRows:
    """Names of the rows of the latest windows in one grouping: consecutive windows share most of their rows.
    Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._placement: Placement | None = None
        self._tenants: dict[str, Tenant | None] = {}
        self._rows: dict[RowKey, _NamedRow] = {}
        self._numbers: dict[GroupName, int] = {}
        self._names: list[GroupName] = []

    def of(
        self,
        keys: Sequence[RowKey],
        tenants: Mapping[str, Tenant | None],
        placed: Placement | None,
        named: Callable[[RowKey], GroupName],
    ) -> tuple[
        NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_], Sequence[RowKey | None], Sequence[GroupName]
    ]:
        """Returns the number of each row's name, whether the row is outermost and of the layer of the host,
        the key of its twin, and the names by number. ``named`` names a row that is not known yet."""
        with self._lock:
            if placed != self._placement or len(self._rows) > max(MOST_ROWS, 4 * len(keys)):
                self._rows, self._tenants, self._placement = {}, {}, placed
                self._numbers, self._names = {}, []
            known = self._tenants
            changed = {name for name, tenant in tenants.items() if known.get(name, tenant) != tenant}
            if changed:
                self._rows = {key: row for key, row in self._rows.items() if key.tenant not in changed}
            known.update(tenants)
            rows = self._rows
            for key in keys:
                if key not in rows:
                    rows[key] = self._row(key, named(key))
            found = list(map(rows.__getitem__, keys))
            numbers, outermost, host, twins = zip(*found, strict=True) if found else ((),) * 4
            return (
                np.array(numbers, np.int64),
                np.array(outermost, np.bool_),
                np.array(host, np.bool_),
                twins,
                self._names,
            )

    def _row(self, key: RowKey, name: GroupName) -> _NamedRow:
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
        twin = key._replace(nested=True) if key.outermost else None
        return _NamedRow(number, key.outermost, key.layer == HOST_LAYER, twin)
