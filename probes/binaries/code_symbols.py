"""Finds the CUDA kernel for which a host function of a process stands, in the file that is mapped at the
function's address: in the file's symbols and, if they lack the name, in its code (``registrations``).
"""

from __future__ import annotations

import bisect
import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.binaries.elf import ElfError, function_symbols, symbol_name
from stalltop.probes.binaries.mapped_file import found
from stalltop.probes.binaries.registrations import registrations
from stalltop.probes.process_maps import Mapping, executables_of
from stalltop.probes.regular_file import opened

_KEPT_FILES: Final = 8
_KEPT_SECONDS: Final = 1.0
"""Time for which the mappings of a process are remembered, s. Many names are looked up one after another."""


class _Functions(NamedTuple):
    """Functions of a file by their offsets in it."""

    offsets: NDArray[np.int64]
    """Offsets in ascending order."""
    names_at: NDArray[np.int64]

    def name(self, fd: int, offset: int) -> bytes:
        """Returns the name of the function at ``offset``; empty if there is none."""
        at = int(np.searchsorted(self.offsets, offset))
        if at < len(self.offsets) and self.offsets[at] == offset:
            return symbol_name(fd, int(self.names_at[at]))
        return b""


_Files = OrderedDict[tuple[int, int, int, int], _Functions]
"""Functions of files, by version of the file."""
_Read = Callable[[int], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Reads the functions of an open file."""
_NOTHING: Final = _Functions(np.zeros(0, np.int64), np.zeros(0, np.int64))


class CodeSymbols:
    """Looks up addresses, and remembers the files that it read last. Used from one thread."""

    def __init__(self) -> None:
        self._symbols: _Files = OrderedDict()
        self._registered: _Files = OrderedDict()
        self._parts: tuple[int, float, list[Mapping]] = (0, 0.0, [])
        """The process that was looked up last, when, and its mappings."""

    def symbol(self, pid: int, address: int) -> bytes | None:
        """Returns the symbol of the function at ``address``; empty if there is none, None if there is no
        code. Compilers give a CUDA kernel's name to the host function that stands for it."""
        return self._name(self._symbols, function_symbols, pid, address)

    def registered(self, pid: int, address: int) -> bytes:
        """Returns the name under which the code of the file registers the function at ``address``; empty if
        there is none. Takes seconds for a large library whose code is searched for the first time."""
        return self._name(self._registered, registrations, pid, address) or b""

    def _name(self, files: _Files, read: _Read, pid: int, address: int) -> bytes | None:
        with contextlib.suppress(OSError, ElfError):
            part = _part_at(self._mappings(pid), address)
            if part is None:
                return None
            with found(part) as looked_at, opened(looked_at) as fd:
                return _kept(files, read, fd).name(fd, part.offset + address - part.start)
        return None

    def _mappings(self, pid: int) -> list[Mapping]:
        now = time.monotonic()
        if self._parts[0] != pid or now - self._parts[1] > _KEPT_SECONDS:
            self._parts = pid, now, executables_of(pid)
        return self._parts[2]


def _kept(files: _Files, read: _Read, fd: int) -> _Functions:
    status = os.fstat(fd)
    version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if version not in files:
        try:
            files[version] = _Functions(*read(fd))
        except (OSError, ElfError, ValueError):
            files[version] = _NOTHING
        while len(files) > _KEPT_FILES:
            files.popitem(last=False)
    return files[version]


def _part_at(parts: list[Mapping], address: int) -> Mapping | None:
    at = bisect.bisect_right(parts, address, key=lambda part: part.start) - 1
    return parts[at] if at >= 0 and address < parts[at].end else None
