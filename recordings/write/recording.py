"""A recording: a file to which one process at a time adds windows, for weeks. Its size and age are limited.

A window that ``add`` has written survives a crash of the process and a power failure, because SQLite flushes
its write-ahead log to the device with every window.
"""

from __future__ import annotations

import contextlib
import os
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
from stalltop.recordings.write.hold import Hold
from stalltop.recordings.write.space import Space, size_on_disk
from stalltop.recordings.write.thinning import (
    TIERS,
    KeptWindow,
    ThinningStep,
    Tier,
    TieredWindows,
    put_together,
    with_events,
)
from stalltop.recordings.write.unreferred import forget
from stalltop.recordings.write.writing import Writer, create

_PATIENCE_SECONDS: Final = 0.2
"""Time, in seconds, to wait for a lock that another connection holds."""
_TEND_SECONDS: Final = 0.25
"""Time limit of ``tend``, in seconds. It is short so that new windows need not wait."""
_RESERVE_EVERY: Final = 30
"""Number of windows after which the free space of the device is checked again."""
_FORGET_EVERY: Final = 20_000
"""Number of windows, some hours in all, after which unused shared rows are searched for again. If they take
space that windows need, they are searched for earlier: once as many windows were dropped as are left."""
_LEAST_DROPPED: Final = 10
"""Smallest number of dropped windows after which unused shared rows are searched for early."""
_STRIDE: Final = 8
"""Difference between the numbers of two consecutive windows. A merged window gets the number of its first
window plus 1. So the order of the numbers stays the order of the windows. No number is used twice, because
readers cache windows by number."""
_MOST_WINDOWS: Final = 900_000
"""Largest number of windows in a recording. Readers accept more (``recordings.read.moments``)."""
_MOST_DROPPED: Final = 60
"""Largest number of windows that are dropped at a time."""
_MAGIC: Final = b"SQLite format 3\0"
_ANOTHER: Final = "name another file"


class Recording:
    """The recording at ``path``, which is created or continued. Used by one thread at a time.

    Raises FileInUseError if another process records to it, UsageError if it is not a recording,
    DamagedFileError if it is damaged, and StalltopError if it cannot be written. After any error other than
    UsageError, close this object.
    """

    def __init__(self, path: Path, bounds: Bounds | None = None, tiers: Sequence[Tier] = TIERS) -> None:
        self.path = path
        self._bounds = bounds or Bounds()
        self._tiers = tiers
        self._kept = TieredWindows(tiers)
        self._new = False
        """Whether this object created the file."""
        self._since_reserved = 0
        self._since_forgotten = 0
        self._dropped = 0
        """Number of windows that were dropped since then."""
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

    # ---- public methods

    @property
    def bytes(self) -> int:
        """Size on disk, with the files that SQLite keeps beside it."""
        return size_on_disk(self.path)

    @property
    def seconds(self) -> float:
        """Total length of the windows in the file, in seconds."""
        return self._kept.seconds

    @property
    def windows(self) -> int:
        """Number of windows in the file."""
        return len(self._kept)

    @property
    def newest(self) -> KeptWindow | None:
        """The window that was added last."""
        return self._kept.newest

    @property
    def short(self) -> bool:
        """Whether old windows are merged and dropped because the device has little or no space left, and not
        because of the limits of the recording."""
        return self._space.limited_by_device

    @property
    def in_place(self) -> bool:
        """Whether ``path`` still names the file of this recording."""
        return self._hold.in_place

    def add(self, window: Window) -> None:
        """Write ``window``, which is the newest one, in one transaction.

        Raises UsageError if the recording is of another host. Raises WriteError and DamagedFileError.
        """
        self.expect(window.host)
        with told(self.path):
            if self.bytes > self._space.most_bytes and self._space.log_is_held():
                raise WriteError(
                    "another program keeps reading the recording, so its write-ahead log cannot be shortened"
                )
            try:
                self._add(window)
            except sqlite3.OperationalError as error:
                if not lacks_space(error) or not len(self._kept):
                    raise
                # The device is full. Old windows are merged to make room, because new windows matter more
                # than details of old ones.
                self._space.device_full = True
                self._make_room()
                self._add(window)

    def expect(self, host: str) -> None:
        """Raise UsageError if the recording is of another host."""
        newest = self._kept.newest
        if newest is not None and newest.host != host:
            raise UsageError(f"{self.path} is a recording of {newest.host}, not of {host}", _ANOTHER)

    def tend(self) -> None:
        """Merge and drop old windows, for at most ``_TEND_SECONDS``. Call it after each ``add``. Raises
        WriteError and DamagedFileError."""
        with told(self.path):
            if self._space.log_is_held():
                return
            until = time.monotonic() + _TEND_SECONDS
            while (step := self._next_step()) is not None:
                self._take(step)
                if time.monotonic() > until:
                    break
            self._space.give_back(until)
            self._space.log_is_held()
            if self._since_reserved >= _RESERVE_EVERY:
                self._since_reserved = 0
                self._space.look_ahead()

    def close(self) -> None:
        """Close the file. No log remains beside it, unless another program is reading the file. Removes the
        file if it is new and has no windows. May be called twice.

        Raises WriteError if the log cannot be written into the file; no window is lost then, because the log
        remains.
        """
        try:
            with told(self.path):
                if self._connection is not None:
                    # If the file was moved, SQLite will not find the log when it closes the file. So the log
                    # is written into the file now.
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    if self.in_place:
                        # This fails if another program is reading the file.
                        with contextlib.suppress(sqlite3.OperationalError):
                            self._connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._close(remove=self._new and not len(self._kept))

    # ---- the file

    def _open(self) -> None:
        head = self._hold.head(HEAD_BYTES)
        if head and not head.startswith(_MAGIC) and not Path(f"{self.path}-journal").exists():
            raise UsageError(f"{self.path} is no recording of stalltop", _ANOTHER)
        if is_closed(head):
            # If there is a log beside a closed file, it belongs to an earlier file of this name. SQLite would
            # apply it to this file.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}-wal")
        self._connection = connection = sqlite3.connect(
            self.path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        # With these pragmas, the schema of a file from a stranger cannot call functions, and SQLite checks
        # B-tree cells before it uses them.
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
        self._space = Space(self._hold, connection, self._bounds.bytes)
        if not self.in_place:
            raise WriteError(f"{self.path} was replaced while it was opened")
        if not self._new:
            self._load()
        self._writer = Writer(connection)
        self._decoder = Decoder(connection)
        self._space.look_ahead()

    def _is_new(self) -> bool:
        """Return True if the file is empty, and False if it is a recording. Raises UsageError if it is
        another file."""
        application, version = self._number("application_id"), self._number("user_version")
        if not application and not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return True  # A file is also empty if a recorder died before it had created the tables.
        if application != schema.APPLICATION_ID or version < schema.VERSION:
            raise UsageError(f"{self.path} is no recording of stalltop", _ANOTHER)
        if version > schema.VERSION:
            raise newer(self.path, version, f"update stalltop, or {_ANOTHER}")
        found = self._db.execute("SELECT value FROM about WHERE name = 'kind'").fetchone()
        if found != ("recording",) or self._number("auto_vacuum") != 2:
            raise UsageError(
                f"{self.path} is a saved or merged file, and cannot be continued as a recording", _ANOTHER
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
                raise ValueError(f"window {window_id} has no host")
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
                self._writer.forget()  # The writer's cache still contains rows that were rolled back.
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
        step = self._kept.due(self._bounds.seconds)
        if step is None and (excess := self._space.excess()) > 0:
            each = max(self._space.used() // max(len(self._kept), 1), 1)
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
        if step.to is not None:
            return
        self._dropped += len(step.windows)
        many = self._dropped >= max(len(self._kept), _LEAST_DROPPED)
        if many or self._since_forgotten >= _FORGET_EVERY:
            self._since_forgotten = self._dropped = 0
            with self._transaction():
                forget(self._db)
            self._writer.forget()

    def _put_together(self, windows: Sequence[KeptWindow], level: int) -> KeptWindow | None:
        """Merge ``windows``, without damaged ones, and write the result as one window. Return None if all are
        damaged."""
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
        self._decoder.turn()  # The next windows to merge have most rows of these ones.
        number = windows[0].window_id + 1
        self._writer.add(together, level, Peak.highest(peaks), number)
        return KeptWindow(number, together.start, together.seconds, together.host)

    def _make_room(self) -> None:
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        step = self._kept.least_needed()
        if step is not None:
            self._take(step)
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
