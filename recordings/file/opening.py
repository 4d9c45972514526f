"""Opens files for reading. Checks them first, because a file may come from a stranger, and a recorder may be
writing it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from stalltop.model.errors import StalltopError, UsageError
from stalltop.recordings.file import schema
from stalltop.recordings.file.recognise import FIRST_BYTES, recognised

HEAD_BYTES: Final = 100
"""Length of SQLite's header."""
_SQLITE: Final = b"SQLite format 3\0"
_MODES: Final = slice(18, 20)
"""The bytes of SQLite's header that hold the write version and the read version of the file format. Both are
2 if the file uses a write-ahead log."""
_WITH_LOG: Final = b"\2\2"
_MOST_VALUE_BYTES: Final = 16 << 20
"""Longest text or payload that is accepted when a file is read, in bytes."""
_MOST_SECONDS: Final = 60.0
"""Time limit of one block of ``Opened.reading``, in seconds. Even a small malicious file can keep SQLite busy
for ever."""
_STEPS: Final = 100_000
"""Number of instructions of SQLite's virtual machine between two checks of the time limit. They take about a
millisecond."""
_REMEDY: Final = "the key w saves windows; their names end in .stalltop"


class UnreadableFileError(UsageError):
    """A file of stalltop, or a window in such a file, is damaged."""


class Opened:
    """A file that is open for reading."""

    def __init__(self, path: Path) -> None:
        """Open ``path``. Raises UsageError, with the reason, if it is not a file of stalltop, or is
        damaged."""
        self.path = path
        self.warnings: list[str] = []
        """What could not be read, one line each."""
        self._until = 0.0
        self._state: tuple[int, ...] = ()
        head = _head(path)
        self._live = _is_written(path, head)
        if not head.startswith(_SQLITE):
            raise _refused(path, f"it is {recognised(head) or 'no SQLite file'}")
        if len(head) < HEAD_BYTES:
            raise _refused(path, "its end is missing")
        if not self._live:
            # The version is checked before SQLite opens the file, because the file may belong to another
            # program.
            _check_version(path, *struct.unpack_from(">i", head, 68), *struct.unpack_from(">i", head, 60))
        with self.reading("it"):
            self.connection = self._connected()
            try:
                _check_version(path, self.pragma("application_id"), self.pragma("user_version"))
                check_schema(self.connection)
            except BaseException:
                self.connection.close()
                raise

    def pragma(self, name: str) -> int:
        """Return the value of a pragma of the file."""
        return _pragma(self.connection, name)

    @contextlib.contextmanager
    def reading(self, what: str | Callable[[], str]) -> Iterator[None]:
        """Turn errors of reading in the block into UnreadableFileError. Limit the time of the block. ``what``
        is the name of the part that is read, or a function that returns the name."""
        self._until = time.monotonic() + _MOST_SECONDS
        try:
            yield
        except (sqlite3.Error, ValueError, RecursionError, OverflowError) as error:
            name = what if isinstance(what, str) else what()
            raise UnreadableFileError(f"{self.path} is damaged: {name} cannot be read ({error})") from None

    def again(self) -> bool:
        """Open the file again if a recorder has begun to write it since it was opened, so that its
        write-ahead log is read, too. Returns whether the file was opened again."""
        if self._live or self.connection.in_transaction or _log_bytes(self.path) is None:
            return False
        with contextlib.suppress(UsageError):  # the file may have been removed
            self._live = _is_written(self.path, _head(self.path))
        if not self._live:
            return False
        self.connection.close()
        self.connection = self._connected()
        return True

    def expect_unchanged(self) -> None:
        """Raise StalltopError if a program has written the file since it was opened. Does nothing if a
        program was already writing it when it was opened."""
        state = _state(self.path)
        # If the name now belongs to another file, nothing was written to the file that is open.
        if not self._live and state[:1] == self._state[:1] and state != self._state:
            raise StalltopError(f"{self.path} was written while it was read", "try again")

    def _connected(self) -> sqlite3.Connection:
        """Return a read-only connection. If the file has no write-ahead log, it is opened as immutable.
        SQLite then creates no file beside it and takes no lock."""
        self._state = _state(self.path)
        uri = f"file:{quote(os.fsencode(os.path.abspath(self.path)))}?mode=ro"
        if self._live:
            with contextlib.suppress(sqlite3.OperationalError):
                return self._prepared(uri)
            # The index of the log (``-shm``) is missing, and this user may not create it.
            if _log_bytes(self.path):
                self.warnings.append(f"{self.path}-wal cannot be read: the newest windows are missing")
        return self._prepared(f"{uri}&immutable=1")

    def _prepared(self, uri: str) -> sqlite3.Connection:
        """Return a connection that has limits of size and time. On this connection, the schema of a file from
        a stranger cannot run code."""
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(lambda: int(time.monotonic() > self._until), _STEPS)
        # With these pragmas, the schema of a file from a stranger cannot call functions, and SQLite checks
        # B-tree cells before it uses them.
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        try:
            _pragma(connection, "schema_version")  # this makes SQLite read the file
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _head(path: Path) -> bytes:
    """Return the first bytes of the file."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path} is no regular file")
            return os.read(descriptor, FIRST_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def is_closed(head: bytes) -> bool:
    """Return whether ``head`` is the beginning of a file of stalltop that was closed properly, so that the
    file itself has all its data. If there is a write-ahead log beside such a file, the log belongs to an
    earlier file of the same name."""
    ours = head[68:72] == schema.APPLICATION_ID.to_bytes(4, "big")
    return ours and head[_MODES] != _WITH_LOG


def _is_written(path: Path, head: bytes) -> bool:
    """Return whether a recorder is writing the file, or has ended without closing it. In both cases there is
    a write-ahead log beside the file; it may be empty."""
    return head[_MODES] == _WITH_LOG and _log_bytes(path) is not None


def _log_bytes(path: Path) -> int | None:
    """Return the size of the write-ahead log beside the file, in bytes; None if there is no log."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return None


def _state(path: Path) -> tuple[int, ...]:
    """Return inode, size and modification time of the file; () if there is no file. If the file is written,
    the result changes."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _check_version(path: Path, application: int, version: int) -> None:
    if application != schema.APPLICATION_ID or version < schema.VERSION:
        raise _refused(path, "it is a SQLite database of another program")
    if version > schema.VERSION:
        raise newer(path, version, "update stalltop")


def newer(path: Path, version: int, remedy: str) -> UsageError:
    """Return the error for a file whose format has a later version."""
    return UsageError(
        f"{path} was saved by a newer stalltop (version {version}; this one reads up to {schema.VERSION})",
        remedy,
    )


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise ValueError unless the file has exactly the tables of ``schema``, and no view or trigger."""
    expected = {table.name: ("table", table.ddl) for table in schema.TABLES}
    found = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
    others = [name for name, *_ in found if name not in expected]
    if others:
        raise ValueError(f"it has a table or view {others[0]!r} that stalltop does not create")
    missing = set(expected) - {name for name, *_ in found}
    if missing:
        raise ValueError(f"it has no table {min(missing)}")
    for name, kind, sql in found:
        if name in expected and (kind, sql) != expected[name]:
            raise ValueError(f"its table {name!r} does not have the columns that stalltop creates")


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is no window saved by stalltop, or damaged: {why}", _REMEDY)
