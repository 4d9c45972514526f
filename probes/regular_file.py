"""Opens files that other users control, without being made to open anything but a regular file.

A user decides what lies at a path: a FIFO, at which opening waits; a device, whose opening acts (a watchdog
restarts the host); a symbolic link to any of these. So a file is opened in two steps. The first opens nothing
(``O_PATH``) and shows what the file is. The second opens exactly this file, if it is a regular one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TO_LOOK: Final = os.O_PATH | os.O_CLOEXEC
_TO_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def check_regular(fd: int) -> None:
    """Raises OSError (ENXIO) if the file at ``fd``, which may be opened by ``O_PATH``, is not a regular
    file."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.ENXIO, "it is not a regular file")


@contextlib.contextmanager
def opened(fd: int) -> Iterator[int]:
    """Provides a descriptor for reading the regular file that was opened at ``fd`` by ``O_PATH``. Raises
    OSError."""
    check_regular(fd)
    # Opening never waits: O_NONBLOCK also refuses a file on which its owner holds a lease (fcntl(2)).
    reading = os.open(f"/proc/self/fd/{fd}", _TO_READ)
    try:
        yield reading
    finally:
        os.close(reading)


def read_regular(path: Path, most_bytes: int) -> bytes | None:
    """Returns the content of a regular file of at most ``most_bytes``; None for any other file."""
    try:
        looked_at = os.open(path, _TO_LOOK)
    except (OSError, ValueError):
        return None
    try:
        with opened(looked_at) as fd:
            if os.fstat(fd).st_size > most_bytes:
                return None
            with open(fd, "rb", closefd=False) as file:
                found = file.read(most_bytes + 1)
        return found if len(found) <= most_bytes else None
    except OSError:
        return None
    finally:
        os.close(looked_at)
