"""Whether a program has the CUDA runtime linked into it, told by a string of the runtime's own."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Final

# The name of the runtime's shared memory, as libcudart_static.a of CUDA 12 and 13 hold it.
_MARK: Final = b"/cudart.shm."
_KEPT: Final = 1024

_known: dict[tuple[int, int, int, int], bool] = {}


def has_static_runtime(pid: int) -> bool:
    """Whether the program of process ``pid`` holds the runtime; False where it cannot be read. Remembered."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/exe", "rb") as program:
        status = os.fstat(program.fileno())
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if version not in _known:
            if len(_known) >= _KEPT:
                _known.clear()
            with mmap.mmap(program.fileno(), 0, access=mmap.ACCESS_READ) as content:
                _known[version] = content.find(_MARK) >= 0
        return _known[version]
    return False
