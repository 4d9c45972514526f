"""Reports which directories got or lost entries, without looking at them (inotify)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import weakref
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
# Of sys/inotify.h.
_MOVED: Final = 0xC0
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ONLY_DIRECTORIES: Final = 0x01000000
_DO_NOT_FOLLOW: Final = 0x02000000
_EVENT: Final = struct.Struct("=iIII")
"""struct inotify_event: the watch, a mask, a cookie, and the length of the name that follows."""
_READ_BYTES: Final = 1 << 16


class DirectoryWatch:
    """Watches directories. Used from one thread. Raises OSError if inotify is not available."""

    def __init__(self) -> None:
        self._fd = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._end = weakref.finalize(self, os.close, self._fd)
        self._end.atexit = False

    def add(self, path: str) -> int:
        """Watches a directory; returns the number of the watch. Raises OSError, with ENOSPC if the host
        allows no more watches. A watch ends with its directory."""
        mask = _MOVED | _CREATE | _DELETE | _ONLY_DIRECTORIES | _DO_NOT_FOLLOW
        return _checked(_LIBC.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask)))

    def changed(self) -> set[int] | None:
        """Returns the watches of the directories that got or lost entries since the previous call. None: it
        is not known which, because there were too many changes."""
        found = set[int]()
        known = True
        with contextlib.suppress(BlockingIOError):
            while True:
                content = os.read(self._fd, _READ_BYTES)
                at = 0
                while at < len(content):
                    watch, mask, _, length = _EVENT.unpack_from(content, at)
                    at += _EVENT.size + length
                    known = known and not mask & _OVERFLOW
                    if not mask & (_IGNORED | _OVERFLOW):
                        found.add(watch)
        return found if known else None

    def close(self) -> None:
        """Ends all watches. May be called twice."""
        self._end()


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)
