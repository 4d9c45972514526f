"""Writes files so that each is either complete or absent. Only their owner may read them (mode 0600). If
stalltop runs by sudo, the owner is the user who called sudo (``files.owner``)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from stalltop.files.owner import create, make_folders
from stalltop.model.errors import StalltopError, UsageError

_LOGS: Final = ("-wal", "-journal")
"""Endings of the names of the logs that are left beside a SQLite file that was not closed. SQLite applies
such a log to any file that has the name of the original file, even if it is a different file."""


class PathTakenError(UsageError):
    """The path to write is taken: by a file or folder, or by the log of a recording with this name."""


class FileInUseError(StalltopError):
    """Another process records to the file that is to be overwritten."""


def write(content: bytes, path: Path, *, overwrite: bool = False) -> Path:
    """Write ``content`` to ``path`` as ``opened`` does, and return ``path``. Raises the errors that
    ``opened`` raises."""
    with opened(path, overwrite=overwrite) as file:
        file.write(content)
    return path


@contextlib.contextmanager
def opened(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write. The file appears at ``path`` when the block ends. If an exception ends the block,
    ``path`` stays as it was.

    Creates missing folders and follows no link. Raises PathTakenError if ``overwrite`` is not set and
    ``path`` exists, or the log of a recording with this name does; UsageError if the file to overwrite is not
    a regular file; FileInUseError if a process records to that file; StalltopError if the new file cannot be
    written.
    """
    try:
        make_folders(path.parent)
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
                raise PathTakenError(f"{log} exists: it belongs to a recording that had the name {path.name}")


def _remove_logs(path: Path) -> None:
    """Remove the logs of a former file at ``path``, because SQLite would apply them to the new file."""
    for ending in (*_LOGS, "-shm"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


@contextlib.contextmanager
def _not_recorded_to(path: Path) -> Iterator[None]:
    """Lock the file, so that no stalltop can begin to record to it (``recordings.write.hold`` takes the same
    lock). Raises FileInUseError if another process records to the file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileInUseError(
                f"another stalltop records to {path}", "name another file, or stop that stalltop"
            ) from None
        except OSError:
            pass  # the file system has no locks, or no locks for files that are opened read-only
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of ``path``. Moves this file to ``path`` in one step when the block
    ends, and removes it if an exception ends the block."""
    beside = path.parent / f".{path.name[:200]}.{secrets.token_hex(6)}.tmp"
    descriptor = create(beside, os.O_WRONLY | os.O_EXCL)
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
    """Flush the folder ``path`` to disk, so that the names of new files last. Raises OSError if the folder
    cannot be opened."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError:
        pass  # some file systems cannot flush folders; the contents of the files are on disk already
    finally:
        os.close(folder)


def _place_new(beside: Path, path: Path) -> None:
    """Give the file ``beside`` the name ``path``. Raises PathTakenError if another file has got that name
    meanwhile."""
    try:
        os.link(beside, path, follow_symlinks=False)
    except FileExistsError:
        raise PathTakenError(f"{path} exists") from None
    except OSError:
        # The file system has no hard links: create an empty file, which reserves the name, and replace it.
        try:
            os.close(create(path, os.O_WRONLY | os.O_EXCL))
        except FileExistsError:
            raise PathTakenError(f"{path} exists") from None
        os.replace(beside, path)
