"""Detects whether the CUDA runtime is linked statically into a program, by a string that the runtime
contains."""

from __future__ import annotations

import contextlib
import os
from typing import BinaryIO, Final

# Name of the runtime's shared memory, as libcudart_static.a of CUDA 12 and 13 contains it.
_MARK: Final = b"/cudart.shm."
_KEPT: Final = 1024
_PIECE_BYTES: Final = 1 << 20

_known: dict[tuple[int, int, int, int], bool] = {}


def has_static_runtime(pid: int) -> bool:
    """Returns whether the program of process ``pid`` contains the runtime; False if it cannot be read.
    Results are cached."""
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
    # The program is read in pieces, never mapped. A mapped program of some GB would count as memory of this
    # process. If a mapped program were truncated, this process would be ended by SIGBUS.
    end = b""
    while piece := program.read(_PIECE_BYTES):
        piece = end + piece
        if _MARK in piece:
            return True
        end = piece[1 - len(_MARK) :]
    return False
