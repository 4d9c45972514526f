"""Reads a BPF ring buffer through its mapped memory, without a thread and without a system call.

The layout is a part of the Linux kernel's interface (Documentation/bpf/ringbuf.rst). First there is a page
with the position of the consumer, then a page with the position of the producer, then the data. The data is
mapped twice in a row, so that no record is ever cut in two. Every record has a header of 8 bytes. The first
four bytes hold the record's length and two flags.
"""

from __future__ import annotations

import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.programs.bpf_calls import map_memory

_BUSY: Final = np.uint32(1 << 31)
"""Flag of a record that the program is still writing (BPF_RINGBUF_BUSY_BIT)."""
_DISCARDED: Final = np.uint32(1 << 30)
"""Flag of a record that the program has discarded (BPF_RINGBUF_DISCARD_BIT)."""


class Ring:
    """A ring whose records are all of one type. Used from one thread at a time.

    ``size`` is the size of its data in bytes: a power of two, and whole pages. Raises OSError if the ring
    cannot be mapped.
    """

    def __init__(self, map_fd: int, size: int, record: np.dtype[np.void]) -> None:
        if record.itemsize % 8:
            raise ValueError("records have to be whole multiples of 8 bytes")
        self._mask = size - 1
        self._entry = np.dtype([("length", "u4"), ("page", "u4"), ("record", record)])
        page = mmap.PAGESIZE
        consumer = np.ctypeslib.as_array(map_memory(map_fd, page))
        rest = np.ctypeslib.as_array(map_memory(map_fd, page + 2 * size, offset=page, writable=False))
        self._taken: NDArray[np.uint64] = consumer[:8].view(np.uint64)
        self._written: NDArray[np.uint64] = rest[:8].view(np.uint64)
        self._data: NDArray[np.uint8] = rest[page:]

    def take(self) -> NDArray[np.void]:
        """Removes the complete records, and returns a copy of them, oldest first."""
        first, width = int(self._taken[0]), self._entry.itemsize
        n = (int(self._written[0]) - first) // width
        if n <= 0:
            return np.empty(0, self._entry["record"])
        start = first & self._mask
        found = self._data[start : start + n * width].view(self._entry)
        # Reading stops at a record that is still being written. Later records are read in the next call.
        busy = (found["length"] & _BUSY) != 0
        if busy.any():
            found = found[: int(np.argmax(busy))]
        records: NDArray[np.void] = found["record"][(found["length"] & _DISCARDED) == 0]
        self._taken[0] = first + len(found) * width
        return records
