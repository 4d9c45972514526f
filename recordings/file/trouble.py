"""Translates errors of SQLite about files that are being written, and renames damaged files."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stalltop.files.places import SUFFIX, free
from stalltop.model.errors import StalltopError

_NO_SPACE: Final = "SQLITE_FULL"
_REASONS: Final = {
    _NO_SPACE: "no space left on the device",
    "SQLITE_READONLY": "the file or its file system is read-only",
    "SQLITE_BUSY": "another program is changing it",
    "SQLITE_CANTOPEN": "it cannot be opened",
}
"""Reason that a WriteError gives, by SQLite's name of the error as ``_name`` returns it."""
_DAMAGED: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")
"""SQLite's names of the errors that are raised as DamagedFileError. SQLITE_ERROR means that a table is
missing or has other columns."""


class WriteError(StalltopError):
    """The file cannot be written now. Writing may succeed later."""


class DamagedFileError(StalltopError):
    """The file is a recording, and it is damaged."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn errors of SQLite in the block, about the file at ``path``, into WriteError or DamagedFileError."""
    try:
        yield
    except sqlite3.Error as error:
        name = _name(error)
        if name in _DAMAGED or is_undecodable(error):
            raise DamagedFileError(f"{path} is damaged ({error})") from error
        raise WriteError(_REASONS.get(name) or " ".join(str(error).split()) or name) from error


def lacks_space(error: sqlite3.Error) -> bool:
    """Return whether ``error`` means that the device has no space left."""
    return _name(error) == _NO_SPACE


def is_undecodable(error: sqlite3.Error) -> bool:
    """Return whether ``error`` means that a text in the file is not UTF-8. Python's sqlite3 module raises
    this error itself, so the error has no name of SQLite."""
    return isinstance(error, sqlite3.OperationalError) and not _name(error)


def _name(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error, without its last part: ``SQLITE_IOERR`` for
    ``SQLITE_IOERR_WRITE``."""
    return "_".join((getattr(error, "sqlite_errorname", "") or "").split("_")[:2])


def put_aside(path: Path, why: str = "damaged") -> Path:
    """Rename a file that cannot be continued as a recording. Return its new path, which contains ``why``.
    Raises WriteError."""
    aside = free(path.with_name(f"{path.name.removesuffix(SUFFIX)}.{why}{SUFFIX}"))
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise WriteError(f"{path} is no regular file")
        os.rename(path, aside)
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}-wal", f"{aside}-wal")
    except OSError as error:
        raise WriteError(f"it is {why} and cannot be renamed ({error.strerror})") from error
    return aside
