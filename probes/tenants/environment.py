"""Reads the environment of a process: as it was when the process started its program, and as it is now.

``/proc/PID/environ`` shows the former. Variables that the process has set since then are in its memory, where
the C library's ``environ`` points.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from stalltop.probes.binaries.elf import ElfError, data_symbol
from stalltop.probes.binaries.mapped_file import found, found_program
from stalltop.probes.process_maps import Kind, Mapping, line_pattern, map_lines, mapping_of
from stalltop.probes.regular_file import opened

_NAMES: Final = frozenset((b"environ", b"__environ", b"_environ"))
_MOST_BYTES: Final = 1 << 20
"""Maximum number of bytes that are read of an environment. A longer environment is cut."""
_MOST_VARIABLES: Final = 4096
_VALUE_BYTES: Final = 4096
_FILE: Final = line_pattern(rb"\S+", rb"0+")
"""Matches the first mapping of a file in a process."""
_C_LIBRARY: Final = re.compile(rb"(?:libc\.so|libc-|libc\.musl|ld-musl-)")
_MOST_C_LIBRARIES: Final = 4
_KEPT_FILES: Final = 256


def started_with(pid: int, names: Collection[str], root: Path = Path("/")) -> dict[str, str]:
    """Returns those of the variables ``names`` that were set when the process began its program. Raises
    OSError."""
    with (root / f"proc/{pid}/environ").open("rb") as file:
        return dict(_chosen(file.read(_MOST_BYTES).split(b"\0"), names))


class Environments:
    """Reads the present variables of processes. Remembers where libraries keep ``environ``. Used from one
    thread."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._places: dict[tuple[int, int, int, int], tuple[int, bool] | None] = {}
        """Address of ``environ``, and whether the address is relative to the place where the file is loaded,
        by version of a file; None for a file without ``environ``."""

    def now(self, pid: int, names: Collection[str]) -> dict[str, str] | None:
        """Returns those of the variables ``names`` that are set now; None if the process's memory cannot be
        read."""
        try:
            place = self._place(pid)
            if place is None:
                return None
            with (self._root / f"proc/{pid}/mem").open("rb", buffering=0) as memory:
                return dict(_chosen(_variables(memory.fileno(), place), names))
        except (OSError, OverflowError, struct.error):
            return None

    def _place(self, pid: int) -> int | None:
        """Returns the address of ``environ`` in the memory of process ``pid``; None if it is not found.
        Raises OSError."""
        folder = self._root / f"proc/{pid}"
        program = os.fsencode(os.readlink(folder / "exe")).removesuffix(b" (deleted)")
        program_start = None
        libraries: dict[bytes, Mapping] = {}
        for piece in map_lines(str(folder)):
            for line in _FILE.finditer(piece):
                if line[7] == program and program_start is None:
                    program_start = int(line[1], 16)
                elif _C_LIBRARY.match(line[8]) and len(libraries) < _MOST_C_LIBRARIES:
                    libraries.setdefault(line[7], mapping_of(line, pid, Kind.OTHER))
        # If a program refers to ``environ`` itself, the variable may lie in the program instead of its C
        # library.
        if program_start is not None:
            with found_program(pid) as fd:
                at = self._in_file(fd)
            if at is not None:
                return at[0] + (program_start if at[1] else 0)
        for library in libraries.values():
            with found(library) as fd:
                at = self._in_file(fd)
            if at is not None:
                return at[0] + (library.start if at[1] else 0)
        return None

    def _in_file(self, fd: int) -> tuple[int, bool] | None:
        status = os.fstat(fd)
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if version not in self._places:
            while len(self._places) >= _KEPT_FILES:
                del self._places[next(iter(self._places))]
            self._places[version] = None
            with contextlib.suppress(ElfError), opened(fd) as reading:
                self._places[version] = data_symbol(reading, _NAMES)
        return self._places[version]


def _variables(memory: int, place: int) -> Iterator[bytes]:
    """Yields the texts ``NAME=value`` to which ``environ``, at address ``place``, points. Raises OSError."""
    (array,) = struct.unpack("<Q", os.pread(memory, 8, place))
    for number in range(_MOST_VARIABLES if array else 0):
        (at,) = struct.unpack("<Q", os.pread(memory, 8, array + 8 * number))
        if not at:
            return
        yield os.pread(memory, _VALUE_BYTES, at).partition(b"\0")[0]


def _chosen(texts: Collection[bytes] | Iterator[bytes], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yields those of the variables ``names`` that are set, with their values. If a variable is set twice,
    the first value counts, as for getenv."""
    wanted = {os.fsencode(name): name for name in names}
    for text in texts:
        name, equals, value = text.partition(b"=")
        if equals and name in wanted:
            yield wanted.pop(name), os.fsdecode(value)
