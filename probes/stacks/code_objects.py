"""Reads code objects of CPython: names of functions and files, and the line of an instruction."""

from __future__ import annotations

import contextlib
import struct
from collections import OrderedDict
from typing import Final, NamedTuple

import numpy as np

from stalltop.probes.stacks.layout import MARK_BYTES
from stalltop.probes.stacks.layouts import NONE, LineFormat, PythonLayout
from stalltop.probes.stacks.line_tables import line_at
from stalltop.probes.stacks.memory import ProcessMemory

_MOST_CODES: Final = 16384
"""Maximum number of code objects that are remembered, of all processes."""
_MOST_CHARACTERS: Final = 1024
"""Longest name that is read; it is cut there."""
_MOST_TABLE_BYTES: Final = 1 << 18
"""Largest table of lines that is read: that of a function of some 100,000 lines."""
_MOST_COPIES: Final = 256
"""Maximum number of copies of the instructions that are examined, of one code object."""
_ENCODINGS: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
"""By the number of bytes of a character."""
TAGS: Final = 7
"""Bits of a reference that are no part of the address (3.14)."""
_REFERENCE_BITS: Final = 0xFFFF_FFFF_FFFF
"""Bits of the first word of an object that hold its number of references; the others hold flags (3.14)."""
_CODE_TYPE: Final = b"code\0"


class PythonFrame(NamedTuple):
    """Where a Python function was, as it is in the memory of the process."""

    code: int
    """Address of its code object."""
    instruction: int
    """Address of the instruction; up to CPython 3.10, its number."""
    mark: int
    """What `mark_of` returned for the code object. If it returns another number by now, another code object
    has the same address."""


class SourceLine(NamedTuple):
    """A line of source code."""

    function: str
    """Qualified name, such as ``Loader.decode.<locals>.read``; before 3.11, the name alone. '' if the code
    object cannot be read."""
    file: str
    """As the process knows it: in a container, its path there."""
    line: int
    """The line of the instruction; 0 if the line table has none for it."""


UNREAD: Final = SourceLine("", "", 0)
"""Stands for a code object that cannot be read."""


class _Code(NamedTuple):
    function: str
    file: str
    first_line: int
    table: bytes
    mark: int


def mark_of(tail: bytes) -> int:
    """Returns a number that hardly any other code object at the same address has. ``tail`` is the part of a
    code object from its version to the address of its table of lines, MARK_BYTES long.

    The BPF programs return the same (``mark_of`` of bpf/stacks/walk.h). Before CPython 3.12, which has no
    versions, another member has their place.
    """
    version, lines = struct.unpack("<I40xQ", tail)
    return int(lines ^ (version & 0xFFFF) << 48)


class CodeObjects:
    """Reads code objects, and remembers them. Used from one thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], tuple[bytes, _Code]] = OrderedDict()
        """By process and address: the members of the code object when it was read, and what was read. If the
        memory has another object by now, its members differ."""
        self._types: dict[int, int] = {}
        """Address of the type of code objects, by process."""

    def lines(
        self, pid: int, layout: PythonLayout, frames: tuple[PythonFrame, ...]
    ) -> tuple[SourceLine, ...]:
        """Returns the line of each of ``frames``: UNREAD where there is no code object any more. Raises
        OSError if the process has ended."""
        codes: dict[int, _Code | None] = {}
        with ProcessMemory(pid) as memory:
            found = []
            for frame in frames:
                at = frame.code & ~TAGS
                if at not in codes:
                    codes[at] = None
                    with contextlib.suppress(OSError, ValueError):
                        codes[at] = self._code(memory, pid, layout, at)
                code = codes[at]
                same = code is not None and code.mark == frame.mark
                found.append(_line(memory, layout, code, frame) if code is not None and same else UNREAD)
        return tuple(found)

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended, or that executes another program."""
        self._types.pop(pid, None)
        for key in [key for key in self._known if key[0] == pid]:
            del self._known[key]

    def _code(self, memory: ProcessMemory, pid: int, layout: PythonLayout, at: int) -> _Code:
        """Raises OSError or ValueError if there is no code object."""
        members = memory.read(at, max(layout.filename, layout.name, layout.lines, layout.first_line) + 8)
        # Reference counts change, and so do members that follow the type; those that decide are compared.
        decisive = b"".join(
            members[start : start + size]
            for start, size in (
                *((layout.type_of_object, 8), (layout.filename, 8), (layout.name, 8)),
                *((layout.lines, 8), (layout.first_line, 4), (layout.mark, 4)),
            )
        )
        _check_alive(layout, members)
        known = self._known.get((pid, at))
        if known is not None and known[0] == decisive:
            self._known.move_to_end((pid, at))
            return known[1]
        kind, filename, name, lines, first_line, _ = struct.unpack("<QQQQiI", decisive)
        if kind != self._types.get(pid):
            if memory.read(memory.pointer(kind + layout.type_name), len(_CODE_TYPE)) != _CODE_TYPE:
                raise ValueError("not a code object")
            self._types[pid] = kind
        for part in (name, filename, lines):
            _check_alive(layout, memory.read(part, layout.object_head))
        text, path = _text(memory, layout, name), _text(memory, layout, filename)
        mark = mark_of(members[layout.mark : layout.mark + MARK_BYTES])
        code = _Code(text, path, first_line, _bytes(memory, layout, lines), mark)
        self._known[pid, at] = decisive, code
        while len(self._known) > _MOST_CODES:
            self._known.popitem(last=False)
        return code


def _check_alive(layout: PythonLayout, head: bytes) -> None:
    """Raises ValueError if ``head``, the head of an object, shows that the object was freed."""
    if layout.free_threaded:
        # Include/object.h: references of the thread that made it, and, above two bits of flags, of others.
        own, others = struct.unpack_from("<12xIq", head)
        is_alive = own > 0 or others >> 2 > 0
    else:
        # Free memory begins with the address of other free memory, instead of a number of references.
        (references,) = struct.unpack_from("<Q", head)
        is_alive = 0 < references & _REFERENCE_BITS <= 0xFFFFFFFF
    if not is_alive:
        raise ValueError("a freed object")


def _line(memory: ProcessMemory, layout: PythonLayout, code: _Code, frame: PythonFrame) -> SourceLine:
    form = LineFormat(layout.line_format)
    if layout.bytecode == NONE:
        # f_lasti is a signed number of 4 bytes: of a byte in 3.9, of an instruction of two bytes in 3.10.
        (number,) = struct.unpack("<i", struct.pack("<I", frame.instruction & 0xFFFFFFFF))
        offset = int(number) if form == LineFormat.DELTAS else 2 * int(number)
    else:
        offset = frame.instruction - (frame.code & ~TAGS) - layout.bytecode
        if layout.other_bytecodes != NONE:
            offset = _offset_in_copy(memory, layout, frame, offset)
    return SourceLine(code.function, code.file, line_at(code.table, code.first_line, max(offset, 0), form))


def _offset_in_copy(memory: ProcessMemory, layout: PythonLayout, frame: PythonFrame, offset: int) -> int:
    """Returns the offset of the instruction in the copy of the bytecode that the thread uses; ``offset``,
    that in the code object itself, if there is no such copy. Copies are listed by number and address
    (``_PyCodeArray`` of Include/cpython/code.h, 3.14)."""
    code = frame.code & ~TAGS
    with contextlib.suppress(OSError):
        size = 2 * memory.pointer(code + layout.size_of_object)
        if 0 <= offset < size:
            return offset
        array = memory.pointer(code + layout.other_bytecodes)
        count = min(memory.pointer(array), _MOST_COPIES)
        copies = np.frombuffer(memory.read(array + 8, 8 * count), np.uint64).tolist()
        for start in copies:
            if start and 0 <= frame.instruction - start < size:
                return int(frame.instruction - start)
    return offset


def _text(memory: ProcessMemory, layout: PythonLayout, at: int) -> str:
    """Returns a string object. Raises OSError or ValueError."""
    length = memory.pointer(at + layout.object_head)
    flags = memory.number(at + layout.text_state)
    state = next((found for shift in layout.text_shifts if (found := flags >> shift) & 7), 0)
    width, is_compact, is_ascii = state & 7, state & 8, state & 16
    encoding = _ENCODINGS.get(width)
    if encoding is None or not is_compact:
        raise ValueError("not a string")
    data = at + layout.text_head + (0 if is_ascii else layout.text_more)
    return memory.read(data, width * min(length, _MOST_CHARACTERS)).decode(encoding, "replace")


def _bytes(memory: ProcessMemory, layout: PythonLayout, at: int) -> bytes:
    size = memory.pointer(at + layout.size_of_object)
    if size > _MOST_TABLE_BYTES:
        raise ValueError("too many lines")
    return memory.read(at + layout.bytes_data, size)
