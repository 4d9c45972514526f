"""Detects whether the CUDA runtime is linked statically into a program or a library, by a string that the
runtime contains."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Final

from stalltop.probes.binaries.elf import Deadline, ElfError, RefusedError, constant_parts
from stalltop.probes.binaries.mapped_file import found_program
from stalltop.probes.regular_file import opened

# Name of the runtime's shared memory, as libcudart_static.a of CUDA 12 and 13 contains it.
_MARK: Final = b"/cudart.shm."
_KEPT: Final = 1024
_PIECE_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 256 << 20
"""Maximum number of bytes of a file that are searched."""

_known: dict[tuple[int, int, int, int], bool] = {}


def has_static_runtime(pid: int) -> bool:
    """Returns whether the program of process ``pid`` contains the runtime; False if it cannot be read.
    Results are cached."""
    with contextlib.suppress(OSError), found_program(pid) as fd:
        status = os.fstat(fd)
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if version not in _known:
            if len(_known) >= _KEPT:
                _known.clear()
            _known[version] = False
            with contextlib.suppress(ElfError), opened(fd) as reading:
                _known[version] = holds_runtime(reading)
        return _known[version]
    return False


def holds_runtime(fd: int) -> bool:
    """Returns whether the file at ``fd`` contains the runtime. Raises ElfError, RefusedError if the file is
    too large to be searched, and OSError."""
    parts = constant_parts(fd)
    if sum(size for _, size in parts) > _MOST_BYTES:
        raise RefusedError(f"more than {_MOST_BYTES >> 20} MiB of constants")
    return _holds_mark(fd, parts)


def _holds_mark(fd: int, parts: Iterable[tuple[int, int]]) -> bool:
    # The file is read in pieces, never mapped. A mapped file of some GB would count as memory of this
    # process. If a mapped file were truncated, this process would be ended by SIGBUS.
    deadline = Deadline()
    for offset, size in parts:
        end = b""
        at, last = offset, offset + size
        while at < last and (piece := os.pread(fd, min(_PIECE_BYTES, last - at), at)):
            deadline.check()
            at += len(piece)
            # The string may begin in an earlier piece.
            if _MARK in piece or _MARK in end + piece[: len(_MARK) - 1]:
                return True
            end = (end + piece[1 - len(_MARK) :])[1 - len(_MARK) :]
    return False
