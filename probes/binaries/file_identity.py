"""Compares two open files: whether they are the same file for a probe.

A probe is bound to the real inode. Overlay and bind mounts show one real file under many paths, device
numbers and inode numbers, so these cannot be compared. But pages of the page cache belong to the real inode.
Both files are therefore mapped: if their first pages are the same page of memory, the files are the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import struct
from typing import Final

_PRESENT: Final = 1 << 63
_FRAME: Final = (1 << 55) - 1
_MAP_FAILED: Final = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@functools.cache
def pagemap() -> int:
    """Returns the open ``/proc/self/pagemap``. It shows numbers of pages if this process had CAP_SYS_ADMIN
    when it was first called, even if the process has given up that capability since. Raises OSError."""
    return os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)


class FileIdentity:
    """The identity of an open file until it is closed. Keeps its own reference to the file."""

    def __init__(self, fd: int) -> None:
        status = os.fstat(fd)
        self._numbers = (status.st_dev, status.st_ino)
        self._address = self._map(fd) if status.st_size else 0

    @staticmethod
    def _map(fd: int) -> int:
        address = _libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        # Some file systems do not allow this mapping: their files are compared by device and inode number
        # alone.
        return 0 if address is None or address == _MAP_FAILED else int(address)

    def same(self, other: FileIdentity) -> bool:
        """Returns whether ``self`` and ``other`` are the same real file.

        Without CAP_SYS_ADMIN pages cannot be compared. Then only files with equal device and inode numbers
        count as the same.
        """
        if self._numbers == other._numbers:
            return True
        if not (self._address and other._address):
            return False
        # The Linux kernel moves pages now and then. A comparison is valid only if no page was moved in the
        # meantime.
        for _ in range(8):
            first, theirs, again = self._frame(), other._frame(), self._frame()
            if first == again:
                return first is not None and first == theirs
        return False

    def _frame(self) -> int | None:
        """Returns the number of the memory page that holds the file's first page; None if it is not known."""
        with contextlib.suppress(OSError):
            # The page is read by the Linux kernel: if the file was truncated, reading the mapping here would
            # raise SIGBUS.
            with open("/proc/self/mem", "rb", buffering=0) as memory:
                os.pread(memory.fileno(), 1, self._address)
            data = os.pread(pagemap(), 8, self._address // mmap.PAGESIZE * 8)
            (entry,) = struct.unpack("=Q", data)
            if entry & _PRESENT and entry & _FRAME:
                return int(entry & _FRAME)
        return None

    def close(self) -> None:
        """Releases the file. A closed identity can be compared only by device and inode number. May be called
        twice."""
        address, self._address = self._address, 0
        if address:
            _libc.munmap(address, mmap.PAGESIZE)
