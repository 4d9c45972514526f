"""What goes wrong with a file that is written: SQLite's errors in words, and damaged files out of the way."""

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
"""What a person is told, by SQLite's name of an error without its second part."""
_DAMAGED: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR")
"""The last one: the file has other tables than it should have."""


class WriteError(StalltopError):
    """The file cannot be written now; it may be later."""


class DamagedFileError(StalltopError):
    """The file was a recording and is no longer readable as one."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """Within it, errors of SQLite about the file at ``path`` are WriteError or DamagedFileError."""
    try:
        yield
    except sqlite3.Error as error:
        name = _name(error)
        if name in _DAMAGED or is_undecodable(error):
            raise DamagedFileError(f"{path} is damaged ({error})") from error
        raise WriteError(_REASONS.get(name) or " ".join(str(error).split()) or name) from error


def lacks_space(error: sqlite3.Error) -> bool:
    """Whether the device has no room for what was to be written."""
    return _name(error) == _NO_SPACE


def is_undecodable(error: sqlite3.Error) -> bool:
    """Whether what was read is no text: Python says so, for which SQLite has no name."""
    return isinstance(error, sqlite3.OperationalError) and not _name(error)


def _name(error: sqlite3.Error) -> str:
    """SQLite's name of an error, without its second part: ``SQLITE_IOERR`` of ``SQLITE_IOERR_WRITE``."""
    return "_".join((getattr(error, "sqlite_errorname", "") or "").split("_")[:2])


def put_aside(path: Path, why: str = "damaged") -> Path:
    """Give what is no recording to go on with another name, with ``why`` in it, and return it. Raises
    WriteError."""
    aside = free(path.with_name(f"{path.name.removesuffix(SUFFIX)}.{why}{SUFFIX}"))
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise WriteError(f"{path} is no regular file")
        os.rename(path, aside)
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}-wal", f"{aside}-wal")
    except OSError as error:
        raise WriteError(f"it is {why} and cannot be put aside ({error.strerror})") from error
    return aside
