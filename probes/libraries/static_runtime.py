"""Whether a program has the CUDA runtime linked into it, told by a string of the runtime's own."""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO, Final

# The name of the runtime's shared memory, as libcudart_static.a of CUDA 12 and 13 hold it.
_MARK: Final = b"/cudart.shm."
_KEPT: Final = 1024
_PIECE_BYTES: Final = 1 << 20

_known: dict[tuple[int, int, int, int], bool] = {}


def has_static_runtime(pid: int) -> bool:
    """Whether the program of process ``pid`` holds the runtime; False where it cannot be read. Remembered."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/exe", "rb", buffering=0) as program:
        status = os.fstat(program.fileno())
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if version not in _known:
            if len(_known) >= _KEPT:
                _known.clear()
            _known[version] = _holds_mark(program)
        return _known[version]
    return False


def _holds_mark(program: BinaryIO) -> bool:
    # Read by pieces, never mapped: a program of some GB would count as this one's memory, and one that is
    # cut short on a server meanwhile would end it by SIGBUS.
    end = b""
    while piece := program.read(_PIECE_BYTES):
        piece = end + piece
        if _MARK in piece:
            return True
        end = piece[1 - len(_MARK) :]
    return False
