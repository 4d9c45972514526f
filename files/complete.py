"""Writes files that are complete or absent, and that only their owner may read (mode 0600)."""

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
"""Endings of the logs beside a SQLite file that was not closed. SQLite applies a log to whatever file has the
name."""


class PathTakenError(UsageError):
    """A file of that name exists."""


class FileInUseError(StalltopError):
    """Another process records to the file."""


def write(content: bytes, path: Path, *, overwrite: bool = False) -> Path:
    """Write ``content`` to ``path`` as ``opened`` does and return ``path``. Raises the same errors."""
    with opened(path, overwrite=overwrite) as file:
        file.write(content)
    return path


@contextlib.contextmanager
def opened(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write. It appears at ``path`` when the block ends; an exception leaves nothing there.

    Creates missing folders and follows no link. Raises PathTakenError if ``path``, or the log of a recording
    of that name, exists and ``overwrite`` is not set; UsageError if the file to overwrite is no regular file;
    FileInUseError if a process records to it; StalltopError if it cannot be written.
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
    """Remove logs of a former file, which SQLite would apply to the new one."""
    for ending in (*_LOGS, "-shm"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


@contextlib.contextmanager
def _not_recorded_to(path: Path) -> Iterator[None]:
    """Lock the file against recorders (``recordings.write.hold``). Raises FileInUseError if one has it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileInUseError(
                f"another stalltop records to {path}", "name another file, or stop that stalltop"
            ) from None
        except OSError:
            pass  # the file system has no locks, or none for files opened read-only
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file beside ``path``, and move it to ``path`` in one step when the block ends."""
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
    """Flush the names in a folder to disk. Raises OSError if the folder cannot be opened."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError:
        pass  # some file systems cannot flush folders; the file itself is on disk
    finally:
        os.close(folder)


def _place_new(beside: Path, path: Path) -> None:
    """Rename ``beside`` to ``path``. Raises PathTakenError if another file has that name meanwhile."""
    try:
        os.link(beside, path, follow_symlinks=False)
    except FileExistsError:
        raise PathTakenError(f"{path} exists") from None
    except OSError:
        # The file system has no hard links: create an empty file, which reserves the name, and replace it.
        try:
            os.close(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            )
        except FileExistsError:
            raise PathTakenError(f"{path} exists") from None
        os.replace(beside, path)
