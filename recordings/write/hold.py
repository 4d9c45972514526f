"""Who writes a recording: one process at a time, by a lock on the file itself that ends with its owner."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
from pathlib import Path

from stalltop.files.complete import FileInUseError
from stalltop.model.errors import StalltopError, UsageError

__all__ = ["FileInUseError", "Hold", "reserve"]

_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of linux/falloc.h: room beyond the end of a file does not make it longer."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Hold:
    """The file at ``path``, made where there is none (mode 0600), and nobody else's until ``release``.

    The lock is on the file, not on its name: a recording that was moved away stays locked. SQLite's own locks
    are of another kind, so readers are not kept out. But every ``close`` of the file drops those within this
    process, which is why the lock is to be released after the connection was closed.

    Raises FileInUseError, UsageError where ``path`` is no regular file or one with several names, and
    StalltopError where it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise UsageError(f"{path} is no regular file") from error
            raise StalltopError(f"cannot write {path}: {error.strerror or error}") from error
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise UsageError(f"{path} is no regular file")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._descriptor).st_nlink > 1:
                # SQLite finds the log of a file by its name.
                raise UsageError(
                    f"{path} has another name, too (a hard link)", "remove one of them, or copy it"
                )
        except BlockingIOError:
            owner = self._owner()
            os.close(self._descriptor)
            raise FileInUseError(
                f"another stalltop records to {path}{f' (process {owner})' if owner else ''}",
                "name another file with --to, or stop the other one",
            ) from None
        except OSError as error:
            os.close(self._descriptor)
            raise StalltopError(f"cannot lock {path}: {error.strerror or error}") from error
        except UsageError:
            os.close(self._descriptor)
            raise

    def _owner(self) -> int:
        """Process id of who holds the lock, 0 where the kernel does not say."""
        file = os.fstat(self._descriptor)
        inode = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        with contextlib.suppress(OSError, ValueError), open("/proc/locks") as locks:
            for line in locks:
                fields = line.split()  # 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END
                if fields[1:2] == ["FLOCK"] and fields[5] == inode:
                    return max(int(fields[4]), 0)
        return 0

    def head(self, count: int) -> bytes:
        """The first ``count`` bytes of the file."""
        return os.pread(self._descriptor, count, 0)

    @property
    def in_place(self) -> bool:
        """Whether the file is still the one of that name: it was neither moved, removed nor replaced."""
        own = os.fstat(self._descriptor)
        try:
            named = os.lstat(self.path)
        except OSError:
            return False
        return (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)

    def reserve(self, size: int) -> bool:
        """Have room on the device for the first ``size`` bytes; False where there is none."""
        return reserve(self._descriptor, size)

    def release(self) -> None:
        """Let others write it, and give back what was reserved beyond its end. May be called twice."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size)
        os.close(self._descriptor)
        self._descriptor = -1


def reserve(descriptor: int, size: int) -> bool:
    """Have room on the device for the first ``size`` bytes of a file, whose length stays as it is.

    False where there is none. True, too, where the file system reserves nothing.
    """
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return not (fallocate(descriptor, _KEEP_SIZE, 0, size) and ctypes.get_errno() in _NO_ROOM)
