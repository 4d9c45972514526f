"""Maps the memory of an array map in pieces, as its elements come into use.

Memory of a BPF map that is mapped counts as resident memory of the process, used or not: the Linux kernel
maps all of its pages at once (remap_vmalloc_range).
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.programs.bpf_calls import map_into, reserve_memory

_PIECE_BYTES: Final = 1 << 21


class GrowingMap:
    """The elements of a map (made with BPF_F_MMAPABLE) as ``array``.

    Only elements for which ``reach`` was called, and those before them, may be read or written: others are no
    memory, and to touch them ends the process.
    """

    def __init__(self, fd: int, dtype: np.dtype[np.void], n: int) -> None:
        """Takes over the descriptor ``fd``. Raises OSError."""
        self._fd = fd
        self._item_bytes = dtype.itemsize
        self._bytes = dtype.itemsize * n
        self._mapped_bytes = 0
        self._memory = reserve_memory(self._bytes)
        self.array: NDArray[np.void] = np.ctypeslib.as_array(self._memory).view(dtype)

    def reach(self, count: int) -> int:
        """Makes the first ``count`` elements accessible. Returns how many of them are: fewer only once the
        map is closed. Raises OSError."""
        needed = min(-(-count * self._item_bytes // _PIECE_BYTES) * _PIECE_BYTES, self._bytes)
        if needed > self._mapped_bytes and self._fd >= 0:
            size = needed - self._mapped_bytes
            map_into(self._memory, self._fd, self._mapped_bytes, size)
            self._mapped_bytes = needed
        return min(count, self._mapped_bytes // self._item_bytes)

    def close(self) -> None:
        """Closes the descriptor; ``array`` stays readable as far as it was reached. May be called twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)
