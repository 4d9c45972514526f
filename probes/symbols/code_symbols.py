"""Finds the CUDA kernel for which a host function of a process stands, in the file that is mapped at the
function's address. The symbols of a file are read immediately. If they lack the name, the file's code is
searched (``registrations``). This takes seconds for a large library, so a separate thread does it, once for
each file.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import queue
import threading
from collections import OrderedDict
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.libraries.elf import ElfError, function_symbols, symbol_name
from stalltop.probes.mapped_file import found, opened
from stalltop.probes.process_maps import Mapping, executables_of
from stalltop.probes.symbols.registrations import registrations

_KEPT_FILES: Final = 8
Version = tuple[int, int, int, int]


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


_NOTHING: Final = _Functions(np.zeros(0, np.int64), np.zeros(0, np.int64))


class CodeSymbols:
    """Looks up addresses, and remembers the files that it read last. Used from one thread."""

    def __init__(self) -> None:
        self._symbols: OrderedDict[Version, _Functions] = OrderedDict()
        self._registered: OrderedDict[Version, _Functions | None] = OrderedDict()
        """Functions that the code of a file registers, by version of the file; None if the code has not been
        searched yet."""
        self._parts: dict[int, list[Mapping]] = {}
        self._files: queue.SimpleQueue[tuple[int, Version] | None] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None

    def close(self) -> None:
        """Ends the thread that searches code. Does not wait for it."""
        self._files.put(None)

    def begin(self) -> None:
        """Begins a new window, in which processes may have other mappings."""
        self._parts.clear()

    def name(self, pid: int, address: int) -> bytes | None:
        """Returns the symbol of the function at ``address``. Compilers give a CUDA kernel's name to the host
        function that stands for it. If there is no symbol, returns the name under which the code of the file
        registers the function.

        Returns an empty name if there is none, and None while the code is still being searched.
        """
        with contextlib.suppress(OSError, ElfError):
            if pid not in self._parts:
                self._parts[pid] = executables_of(pid)
            part = _part_at(self._parts[pid], address)
            if part is None:
                return b""
            with found(part) as looked_at, opened(looked_at) as fd:
                return self._name(fd, part.offset + address - part.start)
        return b""

    def _name(self, fd: int, offset: int) -> bytes | None:
        status = os.fstat(fd)
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if version not in self._symbols:
            _keep(self._symbols, version, _read(fd, registered=False))
        name = self._symbols[version].name(fd, offset)
        if name:
            return name
        if version not in self._registered:
            _keep(self._registered, version, None)
            self._files.put((os.dup(fd), version))
            if self._reader is None:
                self._reader = threading.Thread(target=self._read_code, name="kernel names", daemon=True)
                self._reader.start()
        registered = self._registered[version]
        return None if registered is None else registered.name(fd, offset)

    def _read_code(self) -> None:
        while (file := self._files.get()) is not None:
            fd, version = file
            try:
                functions = _read(fd, registered=True)
            finally:
                os.close(fd)
            if version in self._registered:
                self._registered[version] = functions


def _keep(
    files: OrderedDict[Version, _Functions] | OrderedDict[Version, _Functions | None],
    version: Version,
    functions: _Functions | None,
) -> None:
    files[version] = functions  # type: ignore[assignment]
    while len(files) > _KEPT_FILES:
        files.popitem(last=False)


def _read(fd: int, *, registered: bool) -> _Functions:
    try:
        return _Functions(*(registrations if registered else function_symbols)(fd))
    except (OSError, ElfError, ValueError):
        return _NOTHING


def _part_at(parts: list[Mapping], address: int) -> Mapping | None:
    at = bisect.bisect_right(parts, address, key=lambda part: part.start) - 1
    return parts[at] if at >= 0 and address < parts[at].end else None
