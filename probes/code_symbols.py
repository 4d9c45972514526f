"""Which function of which file begins at an address of a process: read from the file's symbols."""

from __future__ import annotations

import bisect
import contextlib
import os
import re
from collections import OrderedDict
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probes.elf import Unreadable, function_symbols, symbol_name

_KEPT_FILES: Final = 8
_LINE: Final = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) [r-][w-]x[ps] ([0-9a-f]+) [0-9a-f:]+ [1-9]\d* +(/[^\n]*)$", re.MULTILINE
)
"""An executable part of a file: its range, where it begins in the file, and the path."""


class _Symbols(NamedTuple):
    """Functions of a file by where they begin in it."""

    offsets: NDArray[np.int64]
    """Rising."""
    names_at: NDArray[np.int64]


_NOTHING: Final = _Symbols(np.zeros(0, np.int64), np.zeros(0, np.int64))


class CodeSymbols:
    """Looks up addresses, and remembers the files looked at last. Used from one thread."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[int, int, int, int], _Symbols] = OrderedDict()
        self._parts: dict[int, list[_Part]] = {}

    def begin(self) -> None:
        """What is mapped where may have changed since."""
        self._parts.clear()

    def name(self, pid: int, address: int) -> bytes:
        """The symbol of the function that begins at ``address``, mangled; empty where there is none."""
        with contextlib.suppress(OSError, Unreadable):
            if pid not in self._parts:
                self._parts[pid] = _executable_parts(pid)
            part = _part_at(self._parts[pid], address)
            if part is None:
                return b""
            offset = part.offset + address - part.start
            path = f"/proc/{pid}/map_files/{part.start:x}-{part.end:x}"
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                symbols = self._symbols(fd)
                at = int(np.searchsorted(symbols.offsets, offset))
                if at < len(symbols.offsets) and symbols.offsets[at] == offset:
                    return symbol_name(fd, int(symbols.names_at[at]))
            finally:
                os.close(fd)
        return b""

    def _symbols(self, fd: int) -> _Symbols:
        status = os.fstat(fd)
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        known = self._files.get(version)
        if known is None:
            try:
                known = _Symbols(*function_symbols(fd))
            except Unreadable:
                known = _NOTHING
            self._files[version] = known
            while len(self._files) > _KEPT_FILES:
                self._files.popitem(last=False)
        else:
            self._files.move_to_end(version)
        return known


class _Part(NamedTuple):
    start: int
    end: int
    offset: int


def _executable_parts(pid: int) -> list[_Part]:
    """In the order of their addresses. Raises OSError."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        maps = file.read()
    return [_Part(int(line[1], 16), int(line[2], 16), int(line[3], 16)) for line in _LINE.finditer(maps)]


def _part_at(parts: list[_Part], address: int) -> _Part | None:
    at = bisect.bisect_right(parts, address, key=lambda part: part.start) - 1
    return parts[at] if at >= 0 and address < parts[at].end else None
