"""Files are opened to read, once it is known that they are ours: they may be strangers', or being written."""

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
"""Of SQLite's header."""
_SQLITE: Final = b"SQLite format 3\0"
_MODES: Final = slice(18, 20)
"""Where SQLite's header says how the file is written and read."""
_WITH_LOG: Final = b"\2\2"
_MOST_VALUE_BYTES: Final = 16 << 20
"""Longest text or payload that is read."""
_MOST_SECONDS: Final = 60.0
"""How long one look at the file may take: a small file can be made to seem endless."""
_STEPS: Final = 100_000
"""Steps of SQLite's machine between two looks at the clock: about a millisecond."""
_REMEDY: Final = "the key w saves windows; their names end in .stalltop"


class UnreadableFileError(UsageError):
    """A file, or a window of it, that cannot be read as what it was."""


class Opened:
    """A file that was opened."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError, with the reason, where ``path`` is no file of ours."""
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
            # Looked at here, so that nothing of another program's is opened.
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
        """A number that SQLite has of the file."""
        return _pragma(self.connection, name)

    @contextlib.contextmanager
    def reading(self, what: str | Callable[[], str]) -> Iterator[None]:
        """Whatever goes wrong with the file is raised as Damaged, and nothing takes for ever. ``what`` is the
        name of what is read, or gives it once it is needed."""
        self._until = time.monotonic() + _MOST_SECONDS
        try:
            yield
        except (sqlite3.Error, ValueError, RecursionError, OverflowError) as error:
            name = what if isinstance(what, str) else what()
            raise UnreadableFileError(f"{self.path} is damaged: {name} cannot be read ({error})") from None

    def again(self) -> bool:
        """Open the file anew where a recorder took it up: from then on it is read together with what the
        recorder has not put into it yet. Returns whether that was so."""
        if self._live or self.connection.in_transaction or _log_bytes(self.path) is None:
            return False
        with contextlib.suppress(UsageError):  # it may be gone
            self._live = _is_written(self.path, _head(self.path))
        if not self._live:
            return False
        self.connection.close()
        self.connection = self._connected()
        return True

    def expect_unchanged(self) -> None:
        """Raise StalltopError where the file was taken as one that nobody writes, and was written all the
        same."""
        state = _state(self.path)
        # One that was moved or replaced meanwhile is still what was opened.
        if not self._live and state[:1] == self._state[:1] and state != self._state:
            raise StalltopError(f"{self.path} was written while it was read", "try again")

    def _connected(self) -> sqlite3.Connection:
        """A connection that reads only. A file without a log is taken as one that nobody writes: then nothing
        is made beside it, and no lock is taken."""
        self._state = _state(self.path)
        uri = f"file:{quote(os.fsencode(os.path.abspath(self.path)))}?mode=ro"
        if self._live:
            with contextlib.suppress(sqlite3.OperationalError):
                return self._prepared(uri)
            # The log's index is missing, and this user may not make it.
            if _log_bytes(self.path):
                self.warnings.append(f"{self.path}-wal cannot be read: the newest windows are missing")
        return self._prepared(f"{uri}&immutable=1")

    def _prepared(self, uri: str) -> sqlite3.Connection:
        """A connection that takes nothing without end, and runs nothing of a stranger's."""
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(lambda: int(time.monotonic() > self._until), _STEPS)
        # A stranger's schema can call no functions, and cells are checked before they are used.
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        try:
            _pragma(connection, "schema_version")  # the first look at the file
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _head(path: Path) -> bytes:
    """The first bytes of the file."""
    try:
        # Without O_NONBLOCK a pipe of that name would be waited on for ever.
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
    """Whether all of a file of ours is in it, by its first bytes. Where a log is beside it all the same, that
    is one of another file that had the name."""
    ours = head[68:72] == schema.APPLICATION_ID.to_bytes(4, "big")
    return ours and head[_MODES] != _WITH_LOG


def _is_written(path: Path, head: bytes) -> bool:
    """Whether a recorder writes the file, or did not close it: what is new stands in a log beside it, which
    is empty at times."""
    return head[_MODES] == _WITH_LOG and _log_bytes(path) is not None


def _log_bytes(path: Path) -> int | None:
    """Size of the log beside the file; None where there is none."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return None


def _state(path: Path) -> tuple[int, ...]:
    """Which file it is, and what changes whenever it is written; nothing where there is none."""
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
        raise _refused(path, "it is a database (SQLite) of another program")
    if version > schema.VERSION:
        raise newer(path, version, "update stalltop")


def newer(path: Path, version: int, remedy: str) -> UsageError:
    """The error that a file of a later version of the format is refused with."""
    return UsageError(
        f"{path} was saved by a newer stalltop (version {version}, known up to {schema.VERSION})", remedy
    )


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise ValueError where the file has other tables than ours, or anything that could run."""
    expected = {table.name: ("table", table.ddl) for table in schema.TABLES}
    found = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
    others = [name for name, *_ in found if name not in expected]
    if others:
        raise ValueError(f"it has a {others[0]!r} that no such file has")
    missing = set(expected) - {name for name, *_ in found}
    if missing:
        raise ValueError(f"it has no {min(missing)}")
    for name, kind, sql in found:
        if name in expected and (kind, sql) != expected[name]:
            raise ValueError(f"its {name!r} is another one")


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is no window saved by stalltop, or damaged: {why}", _REMEDY)
