"""Reads and replaces small files that only their owner may read. A reader sees either the old file or the new
file, never a part."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from stalltop.files.owner import create, make_folders

LOCK_SECONDS = 5.0
"""Maximum time that a writer waits for another writer, in seconds."""


class UnsuitableFileError(Exception):
    """The path names a pipe or a device, or a file that is too large."""


def read_regular(path: Path, most_bytes: int, *, follow: bool = False) -> bytes | None:
    """Return the content of the file ``path``; None if there is no such file.

    Follows a symbolic link only if ``follow`` is True. Raises UnsuitableFileError if ``path`` is not a
    regular file or has more than ``most_bytes``, and OSError if the file cannot be read.
    """
    # If path is a pipe, opening it without O_NONBLOCK would wait for a writer for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnsuitableFileError("it is no regular file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UnsuitableFileError("it is too large")
    return content


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file at ``path`` by a file with ``content`` (mode 0600). Raises OSError if that fails.

    If two processes write at once, the content of the later writer stays. Creates missing folders with mode
    0700.
    """
    make_folders(path.parent)
    beside = path.with_name(path.name + ".new")
    with locked(path.with_name(path.name + ".lock")):
        # A writer that was killed may have left its temporary file. The new file is not flushed to disk with
        # fsync, because stalltop can make lost content again.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        with open(create(beside, os.O_WRONLY | os.O_EXCL), "wb") as file:
            file.write(content)
        os.replace(beside, path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on the file ``path`` during the block; the lock also ends when the process ends. Raises
    TimeoutError if another writer holds the lock for longer than ``LOCK_SECONDS``."""
    descriptor = create(path, os.O_RDWR)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError("another stalltop is writing the file") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
