"""Finds the CPython interpreter in a process: its state (``_PyRuntime``) and the layout of its structs.

The symbol ``_PyRuntime`` is exported by programs and shared libraries that contain the interpreter, so that
extension modules can use it. Where it was stripped, the section ``.PyRuntime`` of 3.13 and later has the same
address.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stalltop.probes.binaries.elf import ElfError, SymbolPlace, mapped_parts, section_place, symbol_place
from stalltop.probes.binaries.mapped_file import found
from stalltop.probes.process_maps import Kind, Mapping, executables_of, program_of
from stalltop.probes.regular_file import opened
from stalltop.probes.stacks.debug_offsets import COOKIE, READ_BYTES, stated_layout
from stalltop.probes.stacks.layouts import TABLES, PythonLayout
from stalltop.probes.stacks.memory import ProcessMemory

_LIBRARY: Final = re.compile(r"libpython3[^/]*\.so[^/]*")
_VERSION_IN_PATH: Final = re.compile(r"python3\.(\d+)(?!\d)")
_RUNTIME: Final = b"_PyRuntime"
_VERSION: Final = b"Py_Version"
"""``PY_VERSION_HEX`` of the interpreter, from 3.11 on."""
_SECTION: Final = b".PyRuntime"


class Interpreter(NamedTuple):
    """The interpreter of a process."""

    runtime: int
    """Address of ``_PyRuntime``."""
    layout: PythonLayout
    runtime_bytes: int
    """Size of ``_PyRuntime``. The lock of the main interpreter (GIL) is in it."""


class UnknownInterpreterError(OSError):
    """The process has an interpreter whose structs are not known; the text says which. The error number is
    ENOTSUP, by which the error is recognized after it came from another process."""

    def __init__(self, major: int, minor: int) -> None:
        super().__init__(errno.ENOTSUP, f"CPython {major}.{minor} is not known")


def interpreter_of(pid: int) -> Interpreter | None:
    """Returns the interpreter of a process; None if it has none, or has not started it yet.

    Raises UnknownInterpreterError, and OSError if the process is gone.
    """
    executables = executables_of(pid)
    with ProcessMemory(pid) as memory:
        for mapping in _holders(pid, executables):
            places = _places(mapping)
            if places is None:
                continue
            runtime, version = places
            layout = _layout(memory, runtime.address, version, [mapping, *executables])
            if layout is not None:
                return Interpreter(runtime.address, layout, runtime.size)
    return None


def _holders(pid: int, executables: Iterable[Mapping]) -> Iterator[Mapping]:
    """Yields the mappings of files that may contain the interpreter. If the program uses a shared library,
    the symbols of the program itself may be copies: so the library is first."""
    for mapping in executables:
        if _LIBRARY.fullmatch(os.path.basename(mapping.path)):
            yield mapping
    program = program_of(pid)
    if program is not None:
        yield program


def _places(mapping: Mapping) -> tuple[SymbolPlace, int] | None:
    """Returns the place of ``_PyRuntime`` and the address of ``Py_Version`` in the process (0 if there is
    none); None if the file has no ``_PyRuntime``."""
    try:
        with found(mapping) as looked_at, opened(looked_at) as fd:
            runtime = symbol_place(fd, _RUNTIME) or section_place(fd, _SECTION)
            if runtime is None:
                return None
            version = symbol_place(fd, _VERSION)
            moved = _moved(fd, mapping)
    except (ElfError, ValueError):
        return None
    at = 0 if version is None else version.address + moved
    return SymbolPlace(runtime.address + moved, runtime.size), at


def _moved(fd: int, mapping: Mapping) -> int:
    """Returns the difference between addresses in the process and addresses in the file."""
    for segment, executable in mapped_parts(fd):
        # A mapping begins at the beginning of the page in which its segment begins.
        into = segment.offset - mapping.offset
        if executable and 0 <= into < mapping.end - mapping.start:
            return mapping.start + into - segment.address
    raise ValueError("no executable part of the file is mapped")


def _layout(
    memory: ProcessMemory, runtime: int, version_at: int, mappings: Iterable[Mapping]
) -> PythonLayout | None:
    head = memory.read(runtime, READ_BYTES)
    if head.startswith(COOKIE):
        stated = stated_layout(head)
        if stated is None:
            raise UnknownInterpreterError(head[11], head[10])
        return stated
    if version_at:
        word = memory.pointer(version_at)
        version = word >> 24 & 0xFF, word >> 16 & 0xFF
    else:
        version = 3, _minor_in_paths(mappings)
    known = TABLES.get(version)
    if known is None and version[1]:
        raise UnknownInterpreterError(*version)
    return known


def _minor_in_paths(mappings: Iterable[Mapping]) -> int:
    """Returns the minor version that the path of the interpreter or of one of its modules has; 0 if none."""
    for mapping in mappings:
        if mapping.kind is Kind.PROGRAM or "python" in mapping.path:
            named = _VERSION_IN_PATH.search(mapping.path)
            if named is not None:
                return int(named[1])
    return 0
