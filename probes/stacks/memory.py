"""Reads the memory of another process, which may change or end meanwhile."""

from __future__ import annotations

import errno
import os
import struct
from types import TracebackType
from typing import Final, Self

_MOST_BYTES: Final = 1 << 20
"""Maximum size of one read, bytes: a length that the process itself states is never trusted."""
_MOST_ADDRESS: Final = 1 << 63


class ProcessMemory:
    """The memory of one process. Used in a ``with`` block. All methods raise OSError if there is no memory at
    an address, or if the process has ended or executes another program by now."""

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def read(self, address: int, size: int) -> bytes:
        """Returns exactly ``size`` bytes at ``address``."""
        if not 0 < address < _MOST_ADDRESS or not 0 <= size <= _MOST_BYTES:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        found = os.pread(self._fd, size, address)
        if len(found) < size:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return found

    def pointer(self, address: int) -> int:
        """Returns the pointer, or any number of 8 bytes, at ``address``."""
        (value,) = struct.unpack("<Q", self.read(address, 8))
        return int(value)

    def number(self, address: int) -> int:
        """Returns the signed number of 4 bytes at ``address``."""
        (value,) = struct.unpack("<i", self.read(address, 4))
        return int(value)
