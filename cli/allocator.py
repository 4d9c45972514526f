"""Keeps the C library from holding free memory, which a process that runs for weeks may not need again."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3), from malloc.h of the GNU C library."""
_LARGE_BYTES: Final = 1 << 20
"""Allocations from this size on have mappings of their own, which end when they are freed. By default, the C
library raises this limit up to 32 MiB as it sees larger ones freed. The arrays of a window, most of which are
smaller, take memory that is free: fresh pages for them each second would cost as much time as the figures."""
_FREE_BYTES: Final = 4 << 20
"""Memory at the end of a heap that is kept for the next allocations."""
_ARENAS: Final = 2
"""Number of heaps that threads share. By default, most threads have their own, and each keeps free memory."""


def return_free_memory() -> None:
    """Lets freed memory go back to the Linux kernel soon. Other C libraries than the GNU one are left as they
    are."""
    with contextlib.suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        set_option(_MMAP_THRESHOLD, _LARGE_BYTES)
        set_option(_TRIM_THRESHOLD, _FREE_BYTES)
        set_option(_ARENA_MAX, _ARENAS)
