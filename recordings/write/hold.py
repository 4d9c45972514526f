"""Locks a recording for one process. The lock is on the file itself, and ends when the process ends."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
from pathlib import Path

from stalltop.files.complete import FileInUseError
from stalltop.files.owner import create, make_folders
from stalltop.model.errors import StalltopError, UsageError

__all__ = ["FileInUseError", "Hold", "reserve"]

_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE (linux/falloc.h): space is reserved beyond the end of a file, and the file does not
become longer."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Hold:
    """The lock on the file at ``path``. It lasts until ``release``. Creates the file if there is none (mode
    0600).

    The lock is a flock on the file, not on its name, so a recording that was moved stays locked. It does not
    conflict with SQLite's own POSIX locks, so other processes can read the file. Release it only after the
    connection was closed: every ``close`` of the file drops the POSIX locks of this process.

    Raises FileInUseError if another process has the lock, UsageError if ``path`` is not a regular file or has
    several names, and StalltopError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            make_folders(path.parent)
            self._descriptor = create(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise UsageError(f"{path} is no regular file") from error
            raise StalltopError(f"cannot write {path}: {error.strerror or error}") from error
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise UsageError(f"{path} is no regular file")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._descriptor).st_nlink > 1:
                # SQLite finds the log by the name of the file. If a reader opened the file by its other name,
                # it would not find the log.
                raise UsageError(
                    f"{path} has another name, too (a hard link)",
                    "remove one of the two names, or copy the file",
                )
        except BlockingIOError:
            owner = self._owner()
            os.close(self._descriptor)
            raise FileInUseError(
                f"another stalltop records to {path}{f' (process {owner})' if owner else ''}",
                "name another file, or stop the other stalltop",
            ) from None
        except OSError as error:
            os.close(self._descriptor)
            raise StalltopError(f"cannot lock {path}: {error.strerror or error}") from error
        except UsageError:
            os.close(self._descriptor)
            raise

    def _owner(self) -> int:
        """Return the PID that holds the lock; 0 if it is not known."""
        file = os.fstat(self._descriptor)
        inode = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        with contextlib.suppress(OSError, ValueError), open("/proc/locks") as locks:
            for line in locks:
                fields = line.split()  # A line is: 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
                if fields[1:2] == ["FLOCK"] and fields[5] == inode:
                    return max(int(fields[4]), 0)
        return 0

    def head(self, count: int) -> bytes:
        """Return the first ``count`` bytes of the file."""
        return os.pread(self._descriptor, count, 0)

    @property
    def in_place(self) -> bool:
        """Whether ``path`` still names the locked file: the file was neither moved, removed nor replaced."""
        own = os.fstat(self._descriptor)
        try:
            named = os.lstat(self.path)
        except OSError:
            return False
        return (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)

    def reserve(self, size: int) -> bool:
        """Reserve space on the device for the first ``size`` bytes of the file. Return False if there is not
        enough space."""
        return reserve(self._descriptor, size)

    def release(self) -> None:
        """Release the lock, and the space that is reserved beyond the end of the file. May be called
        twice."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size)
        os.close(self._descriptor)
        self._descriptor = -1


def reserve(descriptor: int, size: int) -> bool:
    """Reserve space on the device for the first ``size`` bytes of a file. The length of the file does not
    change.

    Returns False if there is not enough space. Returns True if the file system cannot reserve space.
    """
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return not (fallocate(descriptor, _KEEP_SIZE, 0, size) and ctypes.get_errno() in _NO_ROOM)
