"""Reads and replaces small files that only their owner may read. Readers see the old file or the new one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_SECONDS = 5.0
"""How long a writer waits for another writer."""


class UnsuitableFileError(Exception):
    """The path names a pipe or a device, or a file that is too large."""


def read_regular(path: Path, most_bytes: int, *, follow: bool = False) -> bytes | None:
    """Return the content of a regular file of at most ``most_bytes``; None if there is no file.

    Follows a symbolic link only with ``follow``. Raises UnsuitableFileError, and OSError if it cannot be
    read.
    """
    # Without O_NONBLOCK, opening a pipe of that name waits for a writer for ever.
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
    """Replace the file at ``path`` with ``content``; mode 0600. Raises OSError if that fails.

    Of two writers at once, the later one's content stays. Creates missing folders, mode 0700.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with locked(path.with_name(path.name + ".lock")):
        # A writer that was killed may have left its file. No fsync: lost content is made again.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(beside, flags, 0o600), "wb") as file:
            file.write(content)
        os.replace(beside, path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process. Raises TimeoutError if another writer holds it for too long."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError("another stalltop is writing it") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
