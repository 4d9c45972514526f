"""An opened recording as a past to look at: its times are in memory, its windows are read when asked for.

Used from two threads: the one that follows the file, and the one that makes pictures.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from stalltop.model.errors import StalltopError
from stalltop.model.merge.history import DEFAULT_BYTES
from stalltop.model.merge.merging import fleet
from stalltop.model.merge.packing import Packed, Peak, pack
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window
from stalltop.recordings.past.file_index import Index
from stalltop.recordings.past.kept import Stale
from stalltop.recordings.past.whole import Whole
from stalltop.recordings.read.reading import WindowGoneError, WindowList

_YIELD_SECONDS = 0.005

BEFORE = 120
"""Windows that are fetched of what led to a moment: as many as any page draws."""
Normals = Mapping[RowKey, tuple[int, int]]
"""``Window.normals``."""


class RecordedFile(Protocol):
    """What is asked of ``recordings.read.reading.Recorded``."""

    @property
    def moments(self) -> WindowList:
        """What the file had when ``changed`` was asked last, or at first."""
        ...

    @property
    def warnings(self) -> list[str]:
        """What could not be read, one line each."""
        ...

    def changed(self) -> bool:
        """Whether another program has written since this was asked last."""
        ...

    def window(self, window_id: int) -> Window:
        """One window. Raises WindowGoneError where it is no longer there, and StalltopError where it is
        damaged."""
        ...

    def close(self) -> None:
        """The file is not needed any more."""
        ...


class OpenedRecording:
    """A recording that is looked at."""

    def __init__(self, file: RecordedFile, *, most_bytes: int = DEFAULT_BYTES) -> None:
        """``most_bytes`` bounds the memory of windows that were read, and are kept to look at again."""
        self._file = file
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._read: OrderedDict[int, tuple[Packed, Normals]] = OrderedDict()
        self._normals: Normals = {}
        """Those that were read last: most windows have the same."""
        self._fleets: OrderedDict[tuple[int, ...], Packed] = OrderedDict()
        """Windows of several hosts that were put together, by the numbers of their parts."""
        self._bytes = 0
        self._keys: dict[RowKey, RowKey] = {}
        self._damaged: dict[int, str] = {}
        self._closed = False
        self._index: Index | None = None
        self._trouble = ""
        """Why the file could not be looked at the last time."""
        self.wholes: dict[int, Whole] = {}
        """By host, all of it."""
        self.adding = threading.Lock()
        """Held by who adds to them."""
        self._hurried = 0
        """How many pictures are being made: what is fetched ahead waits meanwhile."""

    def look(self) -> tuple[Index, str]:
        """Return what the file holds now; where it can no longer be read, what it held before, and why.

        Raises StalltopError where it has no window, or is closed.
        """
        with self._lock:
            if self._closed:
                raise StalltopError("the recording is closed")
            try:
                if self._file.changed() or self._index is None:
                    self._index = Index.of(self._file.moments)
                self._trouble = ""
            except StalltopError as told:
                if self._index is None:
                    raise
                self._trouble = told.reason
            return self._index, self._trouble

    def packed(self, window_id: int, *, keep: bool = True) -> Packed | None:
        """A window, put away; None where it is damaged. ``keep``: it may soon be wanted again.

        Raises WindowGoneError where it is no longer in the file: it was put together with others.
        """
        with self._lock:
            known = self._read.get(window_id)
            if known is not None:
                self._read.move_to_end(window_id)
                return known[0]
            if window_id in self._damaged or self._closed:
                return None
            try:
                window = self._file.window(window_id)
            except WindowGoneError:
                raise
            except StalltopError as told:
                self._damaged[window_id] = told.reason
                return None
            found = pack(window, tuple(self._keys.setdefault(key, key) for key in window.rows.keys))
            if keep:
                self._keep(window_id, found, window.normals)
            return found

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """What is done within is waited for."""
        with self._lock:
            self._hurried += 1
        try:
            yield
        finally:
            with self._lock:
                self._hurried -= 1

    def give_way(self, stale: Stale) -> None:
        """Wait until nothing is in a hurry, or what waits is no longer wanted."""
        while self._hurried and not stale():
            time.sleep(_YIELD_SECONDS)

    def at_hand(self, window_id: int) -> Packed | None:
        """A window that was read already, if it is still kept."""
        known = self._read.get(window_id)
        return None if known is None else known[0]

    def normals(self, window_id: int) -> Normals:
        """What was normal when that window ended, if it is still kept."""
        known = self._read.get(window_id)
        return {} if known is None else known[1]

    def together(self, parts: Mapping[int, Packed], *, make: bool) -> Packed | None:
        """Windows of one moment, by their numbers, side by side; None where they are still to be put there
        and not to ``make``."""
        key = tuple(parts)
        known = self._fleets.get(key)
        if known is None and make:
            peak = Peak.highest([one.peak for one in parts.values()])
            known = pack(fleet([one.unpack() for one in parts.values()]), peak=peak)
            with self._lock:
                self._fleets[key] = known
                if len(self._fleets) > 2 * BEFORE:
                    self._fleets.popitem(last=False)
        return known

    def _keep(self, window_id: int, found: Packed, normals: Normals) -> None:
        if normals != self._normals:
            self._normals = normals
        self._read[window_id] = found, self._normals
        self._bytes += found.bytes
        while self._bytes > self._most_bytes and len(self._read) > 1:
            self._bytes -= self._read.popitem(last=False)[1][0].bytes
        if len(self._keys) > 65_536:
            self._keys = {key: key for packed, _ in self._read.values() for key in packed.keys}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the whole file, one line each."""
        return tuple(self._file.warnings)

    @property
    def damaged(self) -> dict[int, str]:
        """Windows that were asked for and cannot be read, and why."""
        return dict(self._damaged)

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._file.close()
