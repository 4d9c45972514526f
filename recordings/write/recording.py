"""A recording: a file that windows are added to for weeks, bounded by size and age, by one process at a time.

What ``add`` has written is safe from the end of the process at any moment, and from a loss of power: SQLite's
write-ahead log is flushed to the device with every window.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from stalltop.model.errors import UsageError
from stalltop.model.evidence import Event
from stalltop.model.merge.packing import Peak
from stalltop.model.window import Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.opening import HEAD_BYTES, check_schema, is_closed, newer
from stalltop.recordings.file.trouble import DamagedFileError, WriteError, is_undecodable, lacks_space, told
from stalltop.recordings.read.decoding import Decoder
from stalltop.recordings.write.bounds import Bounds
from stalltop.recordings.write.clock_watch import length_text
from stalltop.recordings.write.hold import Hold, reserve
from stalltop.recordings.write.thinning import (
    TIERS,
    Kepts,
    KeptWindow,
    ThinningStep,
    Tier,
    put_together,
    with_events,
)
from stalltop.recordings.write.unreferred import forget
from stalltop.recordings.write.writing import Writer, create

_MOST_SPARE: Final = 8 << 20
_LEAST_SPARE: Final = 128 << 10
_INDEX_BYTES: Final = 64 << 10
"""More than the index of the log takes (``-shm``): 32 KiB for each 16 MiB."""
_PATIENCE_SECONDS: Final = 0.2
"""How long it waits for who reads or changes the file."""
_TEND_SECONDS: Final = 0.25
"""How long making room takes at a time, so that windows do not queue up for it."""
_RESERVE_EVERY: Final = 30
"""Windows between two looks whether the device has room for what comes."""
_FORGET_EVERY: Final = 20_000
"""Windows between two looks for names that nothing refers to any more: some hours."""
_STRIDE: Final = 8
"""Between the numbers of two windows, so that what windows are put together to gets one of its own, in their
place: the one after the first of them. No number is given twice: readers may trust what they know."""
_MOST_WINDOWS: Final = 900_000
"""Fewer than a reader takes (``recordings.read.moments``)."""
_MOST_DROPPED: Final = 60
"""Windows that are dropped at a time."""
_MAGIC: Final = b"SQLite format 3\0"
_ANOTHER: Final = "name another file with --to"


class Recording:
    """The recording at ``path``, begun where there is none, else continued. Used by one thread at a time.

    Raises FileInUseError where another process records to it, UsageError where it is something else,
    DamagedFileError where it is broken, and StalltopError where it cannot be written. After any other error
    than UsageError the file is to be closed.
    """

    def __init__(self, path: Path, bounds: Bounds | None = None, tiers: Sequence[Tier] = TIERS) -> None:
        bounds = bounds or Bounds()
        self.path = path
        # A limit of the process on the size of its files is a bound, too: what exceeds it fails half-way.
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        most = bounds.bytes if limit == resource.RLIM_INFINITY else min(bounds.bytes, limit)
        self._most_bytes = most - _INDEX_BYTES
        """Of the file and its log."""
        self._most_seconds = bounds.seconds
        self._room_bytes = self._most_bytes
        """The same, where the device has not even that."""
        self._spare = min(_MOST_SPARE, self._most_bytes // 8)
        """Room that is kept free: the log takes about as much before it is put into the file."""
        self._short = False
        """The device has no room for more: what is new takes the place of what is old."""
        self._tiers = tiers
        self._kept = Kepts(tiers)
        self._new = False
        """The file was begun here."""
        self._since_reserved = 0
        self._since_forgotten = 0
        self._hold = Hold(path)
        self._connection: sqlite3.Connection | None = None
        try:
            with told(self.path):
                self._open()
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            self._close()
            raise DamagedFileError(f"{path} is damaged ({error})") from error
        except BaseException:
            self._close()
            raise

    # ---- what is used

    @property
    def bytes(self) -> int:
        """What it takes on the disk, with the files that SQLite keeps beside it."""
        return sum(_size(Path(f"{self.path}{ending}")) for ending in ("", "-wal", "-shm"))

    @property
    def seconds(self) -> float:
        """Recorded time that it holds."""
        return self._kept.seconds

    @property
    def windows(self) -> int:
        """How many windows it holds."""
        return len(self._kept)

    @property
    def newest(self) -> KeptWindow | None:
        """The window that was added last."""
        return self._kept.newest

    @property
    def short(self) -> bool:
        """Whether what is old gives way because the device has no more room, rather than by its bounds."""
        return self._short or self._room_bytes < min(self._most_bytes, self._used() + 3 * self._spare)

    @property
    def in_place(self) -> bool:
        """Whether the file still is where it was begun."""
        return self._hold.in_place

    def add(self, window: Window) -> None:
        """Write ``window``, the newest one: as a whole, or an error is raised and nothing of it is there.

        Raises UsageError where it is of another host, WriteError and DamagedFileError.
        """
        self.expect(window.host)
        with told(self.path):
            if self.bytes > self._most_bytes and self._log_is_held():
                raise WriteError("somebody reads it without end, so that it cannot be kept within its bound")
            try:
                self._add(window)
            except sqlite3.OperationalError as error:
                if not lacks_space(error) or not len(self._kept):
                    raise
                # Detail of long ago gives way to what happens now.
                self._short = True
                self._make_room()
                self._add(window)

    def expect(self, host: str) -> None:
        """Raise UsageError where it is a recording of another host."""
        newest = self._kept.newest
        if newest is not None and newest.host != host:
            raise UsageError(f"{self.path} is a recording of {newest.host}, not of {host}", _ANOTHER)

    def tend(self) -> None:
        """Let what is old, or too much, give way, for a moment: after each ``add``. Raises as that does."""
        with told(self.path):
            if self._log_is_held():
                return
            until = time.monotonic() + _TEND_SECONDS
            while (step := self._next_step()) is not None:
                self._take(step)
                if time.monotonic() > until:
                    break
            self._give_back(until)
            self._log_is_held()
            self._look_ahead()

    def close(self) -> None:
        """Close the file; it is then one plain file, with nothing beside it. One that was begun in vain goes.
        May be called twice.

        Raises WriteError where that fails; the windows are safe all the same.
        """
        try:
            with told(self.path):
                if self._connection is not None:
                    # By itself SQLite leaves the log of a file that was moved away where it was.
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    if self.in_place:
                        with contextlib.suppress(sqlite3.OperationalError):  # it is being read
                            self._connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._close(remove=self._new and not len(self._kept))

    # ---- the file

    def _open(self) -> None:
        head = self._hold.head(HEAD_BYTES)
        if head and not head.startswith(_MAGIC) and not Path(f"{self.path}-journal").exists():
            raise UsageError(f"{self.path} is no recording of stalltop", _ANOTHER)
        if is_closed(head):
            # Of a file that had the name before: SQLite would put it into this one.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}-wal")
        self._connection = connection = sqlite3.connect(
            self.path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        # The file may be a stranger's: nothing in it may run.
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        self._new = self._is_new()
        if self._new:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("BEGIN IMMEDIATE")
            create(connection, "recording")
            connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        self._size_up()
        if not self.in_place:
            raise WriteError(f"{self.path} was replaced while it was opened")
        if not self._new:
            self._load()
        self._writer = Writer(connection)
        self._decoder = Decoder(connection)
        self._look_ahead(at_once=True)

    def _is_new(self) -> bool:
        """Whether nothing is in the file; else it is a recording. Raises UsageError where it is neither."""
        application, version = self._number("application_id"), self._number("user_version")
        if not application and not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return True  # or a recorder died before it had made the tables
        if application != schema.APPLICATION_ID or version < schema.VERSION:
            raise UsageError(f"{self.path} is no recording of stalltop", _ANOTHER)
        if version > schema.VERSION:
            raise newer(self.path, version, f"update stalltop, or {_ANOTHER}")
        found = self._db.execute("SELECT value FROM about WHERE name = 'kind'").fetchone()
        if found != ("recording",) or self._number("auto_vacuum") != 2:
            raise UsageError(
                f"{self.path} was saved or put together: it is no recording to go on with", _ANOTHER
            )
        check_schema(self._db)
        return False

    def _load(self) -> None:
        levels = {tier.length: number for number, tier in enumerate(self._tiers)}
        for window_id, start, seconds, level, host in self._db.execute(
            "SELECT window_id, start, seconds, level, hosts.name FROM windows LEFT JOIN hosts USING (host_id)"
            " ORDER BY window_id"
        ):
            if host is None:
                raise ValueError(f"window {window_id} is of no host")
            self._kept.add(KeptWindow(window_id, start, seconds, host), levels.get(level, 0))

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise WriteError(f"{self.path} is closed")
        return self._connection

    def _number(self, pragma: str) -> int:
        return int(self._db.execute(f"PRAGMA {pragma}").fetchone()[0])

    def _close(self, *, remove: bool = False) -> None:
        opened = self._connection is not None
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        if remove and opened and self.in_place:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._hold.release()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                self._writer.forget()  # it knows rows by number that are not there now
            raise

    # ---- windows

    def _add(self, window: Window) -> None:
        newest = self._kept.newest
        number = (newest.window_id // _STRIDE + 1) * _STRIDE if newest is not None else _STRIDE
        with self._transaction():
            self._writer.add(window, self._tiers[0].length, window_id=number)
        self._kept.add(KeptWindow(number, window.start, window.seconds, window.host))
        self._since_reserved += 1
        self._since_forgotten += 1

    def _next_step(self) -> ThinningStep | None:
        step = self._kept.due(self._most_seconds)
        if step is None and (excess := self._excess()) > 0:
            each = max(self._used() // max(len(self._kept), 1), 1)
            step = self._kept.least_needed(min(max(excess // each, 1), _MOST_DROPPED))
        if step is None and len(self._kept) > _MOST_WINDOWS:
            step = self._kept.least_needed()
        return step

    def _take(self, step: ThinningStep) -> None:
        merged = None
        with self._transaction():
            if step.to is not None:
                merged = self._put_together(step.windows, self._tiers[step.to].length)
            numbers = [(kept.window_id,) for kept in step.windows]
            for table in (*schema.PARTS, schema.WINDOWS):
                self._db.executemany(f"DELETE FROM {table.name} WHERE window_id = ?", numbers)
        self._kept.done(step, merged)
        if step.to is None and self._since_forgotten >= _FORGET_EVERY:
            self._since_forgotten = 0
            with self._transaction():
                forget(self._db)
            self._writer.forget()

    def _put_together(self, windows: Sequence[KeptWindow], level: int) -> KeptWindow | None:
        """Write ``windows`` as one, without those that turn out to be damaged; None where all are."""
        parts: list[Window] = []
        peaks: list[Peak] = []
        damaged = 0.0
        for kept in windows:
            try:
                part, peak = self._decoder.window(kept.window_id), self._decoder.peak(kept.window_id)
            except (ValueError, KeyError, RecursionError, OverflowError):
                damaged += kept.seconds
            except sqlite3.OperationalError as error:
                if not is_undecodable(error):
                    raise
                damaged += kept.seconds
            else:
                parts.append(part)
                peaks.append(peak)
        if not parts:
            return None
        together = put_together(parts)
        if damaged:
            text = f"{length_text(damaged)} of this time were damaged in the file, and are left out"
            together = with_events(together, (Event(together.start, "not_recorded", "", 0, "", text),))
        number = windows[0].window_id + 1
        self._writer.add(together, level, Peak.highest(peaks), number)
        return KeptWindow(number, together.start, together.seconds, together.host)

    # ---- room

    def _used(self) -> int:
        """Bytes of the file that hold something."""
        return (self._number("page_count") - self._number("freelist_count")) * self._number("page_size")

    def _excess(self) -> int:
        """How many bytes are to give way."""
        excess = self._used() - (self._room_bytes - 2 * self._spare)
        if self._short:
            empty = self._number("freelist_count") * self._number("page_size")
            excess = max(excess, self._spare - empty)
        return excess

    def _log_is_held(self) -> bool:
        """Put the log into the file where it is long. Gives whether it stays long, because somebody reads an
        old state of the file: until that ends, whatever is changed makes it longer."""
        size = _size(Path(f"{self.path}-wal"))
        if size <= self._spare:
            return False
        (busy, _, _) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return bool(busy) and size > 4 * self._spare

    def _make_room(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        step = self._kept.least_needed()
        if step is not None:
            self._take(step)
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _give_back(self, until: float) -> None:
        """Make the file shorter, to that time of ``time.monotonic``, where much of it is empty."""
        if self._short:
            return  # what is empty now is all there is for what comes
        size = self._number("page_size")
        while time.monotonic() < until:
            pages, empty = self._number("page_count"), self._number("freelist_count")
            too_large = pages * size > self._most_bytes - self._spare
            if not (empty > pages // 4 and empty * size > self._spare) and not (too_large and empty):
                return
            # Each page that goes is a row of this statement's.
            self._db.execute(f"PRAGMA incremental_vacuum({max(self._spare // 8 // size, 1)})").fetchall()

    def _size_up(self) -> None:
        """See how much the device has room for. Where that is little, little of it is kept free."""
        with contextlib.suppress(OSError):
            device = os.statvfs(self.path.parent)
            if device.f_blocks:  # not every file system says
                taken = sum(_taken(Path(f"{self.path}{ending}")) for ending in ("", "-wal"))
                free = device.f_bavail * device.f_frsize
                self._room_bytes = min(self._most_bytes, taken + free)
        self._spare = max(min(_MOST_SPARE, self._room_bytes // 8), _LEAST_SPARE)
        self._db.execute(f"PRAGMA wal_autocheckpoint = {self._spare // 2 // self._number('page_size')}")
        self._db.execute(f"PRAGMA journal_size_limit = {self._spare}")

    def _look_ahead(self, *, at_once: bool = False) -> None:
        """See to it that the device has room for the next minutes, and notice in time where it has none."""
        if self._since_reserved < _RESERVE_EVERY and not at_once:
            return
        self._since_reserved = 0
        self._size_up()
        room = self._hold.reserve(_size(self.path) + self._spare)
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{self.path}-wal", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                room &= reserve(descriptor, 2 * self._spare)
            finally:
                os.close(descriptor)
        self._short = not room


def _taken(path: Path) -> int:
    """Bytes on the device, with those that are reserved."""
    try:
        return path.lstat().st_blocks * 512  # of stat(2), on every file system
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
