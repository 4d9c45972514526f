"""An opened recording: keeps the times of windows in memory, reads windows when they are needed, and caches
them.

Two threads use an opened recording: one follows the file, the other makes the content of the screen.
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
"""Number of windows that are read before a moment. It is the largest number of windows that any page of the
screen draws."""
Normals = Mapping[RowKey, tuple[int, int]]
"""The type of ``Window.normals``."""


class RecordedFile(Protocol):
    """The methods of ``recordings.read.reading.Recorded`` that this module uses."""

    @property
    def moments(self) -> WindowList:
        """The list of windows. It is read again when it is used after ``changed`` has returned True."""
        ...

    @property
    def warnings(self) -> list[str]:
        """Warnings about parts that could not be read, one line each."""
        ...

    def changed(self) -> bool:
        """Return whether another program has written to the file since the last call."""
        ...

    def window(self, window_id: int) -> Window:
        """Return the window with this number. Raises WindowGoneError if the file no longer has it, and
        StalltopError if it is damaged."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class OpenedRecording:
    """A recording that the screen shows."""

    def __init__(self, file: RecordedFile, *, most_bytes: int = DEFAULT_BYTES) -> None:
        """``most_bytes`` limits the memory for cached windows."""
        self._file = file
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._read: OrderedDict[int, tuple[Packed, Normals]] = OrderedDict()
        self._normals: Normals = {}
        """The baseline that was read last. Most windows have the same one."""
        self._fleets: OrderedDict[tuple[int, ...], Packed] = OrderedDict()
        """Windows merged from those of several hosts, by the numbers of the original windows."""
        self._bytes = 0
        self._keys: dict[RowKey, RowKey] = {}
        self._damaged: dict[int, str] = {}
        self._closed = False
        self._index: Index | None = None
        self._trouble = ""
        """Why the last attempt to read the file failed; '' if it succeeded."""
        self.wholes: dict[int, Whole] = {}
        """Sums of all windows of a host, by host."""
        self.adding = threading.Lock()
        """Protects ``wholes``."""
        self._hurried = 0
        """Number of ``hurry`` blocks that are running. Threads that read ahead wait in ``give_way`` until it
        is 0."""

    def look(self) -> tuple[Index, str]:
        """Return the index of the file, and ''. If the file can no longer be read, return the index that was
        read last, and the reason.

        Raises StalltopError if the file has no window, or is closed.
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
        """Return a packed window; None if it is damaged, or if the recording is closed. With ``keep``, the
        window is put into the cache.

        Raises WindowGoneError if the file no longer has the window, because it was merged with others.
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
        """Mark the block as urgent, because the screen waits for its result. ``give_way`` then waits until
        the block ends."""
        with self._lock:
            self._hurried += 1
        try:
            yield
        finally:
            with self._lock:
                self._hurried -= 1

    def give_way(self, stale: Stale) -> None:
        """Wait until no urgent block (``hurry``) runs, or until ``stale`` returns True."""
        while self._hurried and not stale():
            time.sleep(_YIELD_SECONDS)

    def at_hand(self, window_id: int) -> Packed | None:
        """Return a packed window from the cache; None if it is not there."""
        known = self._read.get(window_id)
        return None if known is None else known[0]

    def normals(self, window_id: int) -> Normals:
        """Return the baseline at the end of a window; empty if the window is not in the cache."""
        known = self._read.get(window_id)
        return {} if known is None else known[1]

    def together(self, parts: Mapping[int, Packed], *, make: bool) -> Packed | None:
        """Return the windows of one moment, merged into one. ``parts`` has these windows by their numbers. If
        they have not been merged yet, merge them if ``make`` is set; otherwise return None."""
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
        """Warnings about the whole file, one line each."""
        return tuple(self._file.warnings)

    @property
    def damaged(self) -> dict[int, str]:
        """Reasons why windows could not be read, by number of the window."""
        return dict(self._damaged)

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._file.close()
