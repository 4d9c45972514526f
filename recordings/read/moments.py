"""Reads the list of the windows of a file: their times and severities."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_MOST_WINDOWS: Final = 1_000_000
"""Largest number of windows that a file may have. This is one window per minute for nearly two years."""
_LIST: Final = (
    "SELECT window_id, host_id, start, seconds, level, coalesce(lost_ms_per_s, 0.0), worst, began, checksum"
    f" FROM windows WHERE window_id > ? ORDER BY window_id LIMIT {_MOST_WINDOWS + 1}"
)
_KNOWN: Final = "SELECT count(*), total(checksum) FROM windows WHERE window_id <= ?"


@dataclass(frozen=True, slots=True, eq=False)
class WindowList:
    """The windows of a file, oldest first. Element i of every array belongs to window i.

    Windows are in the order in which they were recorded. So ``start`` decreases where the clock was set back.
    """

    window_id: NDArray[np.int64]
    host_id: NDArray[np.int64]
    start: NDArray[np.float64]
    """Unix time in seconds."""
    seconds: NDArray[np.float64]
    level: NDArray[np.int64]
    """0: as it was recorded; 10, 60: merged to about this many seconds, or to fewer before a pause."""
    lost_ms_per_s: NDArray[np.float64]
    """Total loss of the open chains, ms per second (``model.merge.packing.Peak``)."""
    worst: NDArray[np.int64]
    """Severity of the worst open chain (``model.merge.packing.Peak.worst``)."""
    began: NDArray[np.int64]
    """Severity of the worst chain that began within the window."""

    def __len__(self) -> int:
        return len(self.window_id)

    @property
    def end(self) -> NDArray[np.float64]:
        """End of each window, Unix seconds."""
        return self.start + self.seconds


_REAL: Final = ("start", "seconds", "lost_ms_per_s")
_COLUMNS: Final = tuple(field.name for field in fields(WindowList))


class Listing:
    """Reads the list of windows. If windows were only added since the last read, only the new windows are
    read."""

    def __init__(self) -> None:
        self._known: WindowList | None = None
        self._total = 0.0
        """Sum of the checksums of the known windows. It changes if windows are merged. A float holds it
        exactly: two million checksums of 32 bits add up to less than 2^53."""
        self.anew = False
        """Whether the last read was of the whole list. This happens at first, and after known windows were
        merged or dropped."""

    def read(self, connection: sqlite3.Connection) -> WindowList:
        """Return the list as it is now. Call it within a transaction. Raises ValueError if a value is
        wrong."""
        known = self._known
        if known is not None and len(known):
            last = int(known.window_id[-1])
            if connection.execute(_KNOWN, (last,)).fetchone() == (len(known), self._total):
                new, total = _after(connection, last)
                if len(new):
                    known = _joined(known, new)
                self._known, self._total = known, self._total + total
                self.anew = False
                return known
        self.anew = True
        self._known, self._total = _after(connection, -(1 << 63))
        return self._known


def _after(connection: sqlite3.Connection, window_id: int) -> tuple[WindowList, float]:
    """Return the windows with numbers above ``window_id``, and the sum of their checksums."""
    rows = connection.execute(_LIST, (window_id,)).fetchall()
    if len(rows) > _MOST_WINDOWS:
        raise ValueError(f"the file has more than {_MOST_WINDOWS:,} windows")
    *columns, checksums = zip(*rows, strict=True) if rows else [()] * (len(_COLUMNS) + 1)
    arrays: dict[str, Any] = {}
    for name, column in zip(_COLUMNS, columns, strict=True):
        if set(map(type, column)) - {float if name in _REAL else int}:
            raise ValueError(f"windows.{name} is not a number")
        arrays[name] = np.array(column, np.float64 if name in _REAL else np.int64)
    if set(map(type, checksums)) - {int}:
        raise ValueError("windows.checksum is not a number")
    return WindowList(**arrays), float(sum(checksums))


def _joined(one: WindowList, other: WindowList) -> WindowList:
    return WindowList(*(np.concatenate((getattr(one, name), getattr(other, name))) for name in _COLUMNS))
