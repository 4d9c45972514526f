"""Writing files that are complete or not there at all, and that only their user may read (mode 0600)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from stalltop.model.errors import StalltopError, UsageError

_LOGS: Final = ("-wal", "-journal")
"""Beside a SQLite file that was not closed. SQLite takes them for those of any file that has the name."""


class PathTakenError(UsageError):
    """There is a file of that name already."""


class FileInUseError(StalltopError):
    """Another process records to the file."""


def write(content: bytes, path: Path, *, overwrite: bool = False) -> Path:
    """Write ``content`` to ``path`` and return it, as ``opened`` does and with what it raises."""
    with opened(path, overwrite=overwrite) as file:
        file.write(content)
    return path


@contextlib.contextmanager
def opened(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file to write: it is at ``path`` once the block has ended well, and nowhere where it has not.

    Missing folders are made, no link is followed. Raises PathTakenError where ``path`` exists, or the log
    of a recording of that name, and ``overwrite`` is not set; UsageError where it is to be overwritten but
    is no regular file, FileInUseError where it is being recorded to, and StalltopError where it cannot be
    written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            if os.path.lexists(path):
                _refuse_to_replace(path, overwrite)
                stack.enter_context(_not_recorded_to(path))
            if not overwrite:
                _refuse_to_lose_a_log(path)
            with _opened(path, overwrite) as file:
                yield file
                _remove_logs(path)
    except OSError as error:
        raise StalltopError(f"cannot write {path}: {error.strerror or error}") from error


def _refuse_to_replace(path: Path, overwrite: bool) -> None:
    if not overwrite:
        raise PathTakenError(f"{path} exists")
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UsageError(f"{path} is no regular file")


def _refuse_to_lose_a_log(path: Path) -> None:
    for ending in _LOGS:
        log = path.with_name(f"{path.name}{ending}")
        with contextlib.suppress(FileNotFoundError):
            if log.lstat().st_size:
                raise PathTakenError(f"{log} exists, of a recording that had the name {path.name}")


def _remove_logs(path: Path) -> None:
    """Remove what would be taken for a part of the file that gets the name."""
    for ending in (*_LOGS, "-shm"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


@contextlib.contextmanager
def _not_recorded_to(path: Path) -> Iterator[None]:
    """Keep recorders from writing the file (``recordings.write.hold``). Raises FileInUseError where one
    did."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileInUseError(
                f"a stalltop records to {path}", "name another file, or stop that one first"
            ) from None
        except OSError:
            pass  # a file system without locks, or without those of files that are only read
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """Written beside ``path``, then put in place at once."""
    beside = path.parent / f".{path.name[:200]}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o600)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(beside, path)
        else:
            _place_new(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Let the names in a folder be on disk. Raises OSError where it cannot be opened."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError:
        pass  # some file systems cannot; the file itself is on disk
    finally:
        os.close(folder)


def _place_new(beside: Path, path: Path) -> None:
    """Give the file its name, which nobody may have taken meanwhile."""
    try:
        os.link(beside, path, follow_symlinks=False)
    except FileExistsError:
        raise PathTakenError(f"{path} exists") from None
    except OSError:
        # A file system without hard links: reserve the name, then replace what reserved it.
        try:
            os.close(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            )
        except FileExistsError:
            raise PathTakenError(f"{path} exists") from None
        os.replace(beside, path)
