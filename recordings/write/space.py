"""Measures and limits the space that a recording takes on its device: the file, its log, and its empty
pages."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import time
from pathlib import Path
from typing import Final

from stalltop.recordings.write.hold import Hold, reserve

_MOST_SPARE: Final = 8 << 20
_LEAST_SPARE: Final = 128 << 10
_INDEX_BYTES: Final = 64 << 10
"""Largest size of the index of the log (``-shm``), in bytes. The index takes 32 KiB for each 16 MiB of the
log."""


class Space:
    """The space of a recording. ``hold`` locks the recording, and ``connection`` writes it."""

    def __init__(self, hold: Hold, connection: sqlite3.Connection, most_bytes: int) -> None:
        """``most_bytes`` is the largest size of the recording, including the files that SQLite keeps beside
        it."""
        self._hold = hold
        self._path = hold.path
        self._connection = connection
        # RLIMIT_FSIZE is a limit, too: a write beyond it would fail half-way.
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        most = most_bytes if limit == resource.RLIM_INFINITY else min(most_bytes, limit)
        self.most_bytes = most - _INDEX_BYTES
        """Largest size of the file and its log together, in bytes."""
        self._room_bytes = self.most_bytes
        """Space for the file and its log, in bytes: ``most_bytes``, or less if the device has less space."""
        self._spare = min(_MOST_SPARE, self.most_bytes // 8)
        """Number of bytes that are kept free. SQLite begins a checkpoint when the log has half this size."""
        self.device_full = False
        """Whether the device has no space for more windows. If so, new windows replace old ones."""
        self._measure()

    @property
    def limited_by_device(self) -> bool:
        """Whether the device limits the recording, not ``most_bytes``: it is full, or its space is less than
        ``most_bytes`` and is nearly used up."""
        return self.device_full or self._room_bytes < min(self.most_bytes, self.used() + 3 * self._spare)

    def used(self) -> int:
        """Return the size of those pages of the file that are in use, in bytes."""
        return (self._pragma("page_count") - self._pragma("freelist_count")) * self._pragma("page_size")

    def excess(self) -> int:
        """Return how many bytes must become free by merging or dropping windows. A result of 0 or less means
        that there is enough space."""
        excess = self.used() - (self._room_bytes - 2 * self._spare)
        if self.device_full:
            empty = self._pragma("freelist_count") * self._pragma("page_size")
            excess = max(excess, self._spare - empty)
        return excess

    def log_is_held(self) -> bool:
        """If the write-ahead log is long, write it into the file (a checkpoint). Return whether the log stays
        long, because another program reads an old state of the file. Until that program ends its read, every
        change makes the log longer."""
        size = _size(Path(f"{self._path}-wal"))
        if size <= self._spare:
            return False
        (busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return bool(busy) and size > 4 * self._spare

    def give_back(self, until: float) -> None:
        """Make the file shorter if many of its pages are empty. Stop at the time ``until``
        (``time.monotonic``)."""
        if self.device_full:
            return  # New windows need the empty pages, because the device has no other space.
        size = self._pragma("page_size")
        while time.monotonic() < until:
            pages, empty = self._pragma("page_count"), self._pragma("freelist_count")
            too_large = pages * size > self.most_bytes - self._spare
            if not (empty > pages // 4 and empty * size > self._spare) and not (too_large and empty):
                return
            # fetchall() is necessary, because the statement frees one page with each row that is fetched.
            number = max(self._spare // 8 // size, 1)
            self._connection.execute(f"PRAGMA incremental_vacuum({number})").fetchall()

    def look_ahead(self) -> None:
        """Reserve space on the device for the windows of the next minutes. Set ``device_full`` if there is
        not enough space; otherwise clear it."""
        self._measure()
        enough = self._hold.reserve(_size(self._path) + self._spare)
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{self._path}-wal", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                enough &= reserve(descriptor, 2 * self._spare)
            finally:
                os.close(descriptor)
        self.device_full = not enough

    def _measure(self) -> None:
        """Measure the space on the device, and set the number of bytes to keep free accordingly."""
        with contextlib.suppress(OSError):
            device = os.statvfs(self._path.parent)
            if device.f_blocks:  # some file systems report no sizes
                taken = sum(_taken(Path(f"{self._path}{ending}")) for ending in ("", "-wal"))
                free = device.f_bavail * device.f_frsize
                self._room_bytes = min(self.most_bytes, taken + free)
        self._spare = max(min(_MOST_SPARE, self._room_bytes // 8), _LEAST_SPARE)
        pages = self._spare // 2 // self._pragma("page_size")
        self._connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        self._connection.execute(f"PRAGMA journal_size_limit = {self._spare}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])


def size_on_disk(path: Path) -> int:
    """Return the size of the recording at ``path`` in bytes, including the files that SQLite keeps beside
    it."""
    return sum(_size(Path(f"{path}{ending}")) for ending in ("", "-wal", "-shm"))


def _taken(path: Path) -> int:
    """Return the number of bytes that a file takes on the device, including space that is reserved beyond its
    end. Return 0 if there is no file."""
    try:
        return path.lstat().st_blocks * 512  # st_blocks counts units of 512 bytes (stat(2))
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
