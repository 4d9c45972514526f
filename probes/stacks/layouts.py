"""Where CPython keeps threads, frames and code: the offsets of the members that are read, by version.

From 3.13 on, an interpreter states its own offsets (``debug_offsets``). Before that, the offsets of a version
never changed within its releases; they are those that a C compiler finds in the headers of that version
(``Include/internal``), and the same on x86-64 and aarch64.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from stalltop.probes.stacks.layout import MARK_BYTES

NONE: Final = 0xFFFF
"""The offset of a member that this version of CPython does not have."""


class LineFormat(IntEnum):
    """How a code object stores its line numbers (``line_tables``)."""

    DELTAS = 0
    """``co_lnotab``: up to 3.9."""
    RANGES = 1
    """``co_linetable`` of 3.10 (PEP 626)."""
    LOCATIONS = 2
    """``co_linetable`` of 3.11 and later (PEP 657)."""


class PythonLayout(NamedTuple):
    """Offsets, in bytes, of members of CPython's structs in one interpreter."""

    major: int
    minor: int
    free_threaded: bool
    interpreters: int
    """Of the first interpreter in ``_PyRuntimeState``."""
    next_interpreter: int
    threads: int
    """Of the first thread state in an interpreter."""
    next_thread: int
    thread_id: int
    """Of ``thread_id`` (what pthread_self() returns) in a thread state."""
    native_id: int
    """Of ``native_thread_id`` (a TID in the PID namespace of the process); NONE before 3.11."""
    current: int
    """Of the current frame in a thread state; or, if ``through`` is not NONE, of a pointer to a struct that
    has the current frame."""
    through: int
    previous: int
    """Of the calling frame in a frame; likewise the following members."""
    code: int
    instruction: int
    owner: int
    """Of a byte that says who owns the frame; NONE before 3.11."""
    object_head: int
    """Size of the head of every object."""
    filename: int
    """Of the file name in a code object; likewise the following members."""
    name: int
    first_line: int
    lines: int
    bytecode: int
    """Of the first instruction; NONE where frames hold a number of the instruction, before 3.11."""
    other_bytecodes: int
    """Of the copies of the instructions that threads of a free-threaded interpreter use; NONE without any."""
    text_head: int
    """Size of the head of an ASCII string."""
    line_format: int

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version."""
        return self.major, self.minor

    @property
    def mark(self) -> int:
        """Offset of the part of a code object by which it is told from others at the same address."""
        return self.lines + 8 - MARK_BYTES

    @property
    def type_of_object(self) -> int:
        """Offset of the type in an object: the last member of its head."""
        return self.object_head - 8

    @property
    def size_of_object(self) -> int:
        """Offset of the number of items in an object of variable size."""
        return self.object_head

    @property
    def type_name(self) -> int:
        """Offset of the name in a type."""
        return self.object_head + 8

    @property
    def bytes_data(self) -> int:
        """Offset of the first byte in a bytes object, after its head, size and hash."""
        return self.object_head + 16

    @property
    def text_state(self) -> int:
        """Offset of the flags in a string, after its head, length and hash."""
        return self.object_head + 16

    @property
    def text_more(self) -> int:
        """Number of bytes that the head of a string that is not ASCII has in addition: length and address in
        UTF-8; before 3.12, also the length in wide characters."""
        return 16 if self.version >= (3, 12) else 24

    @property
    def text_shifts(self) -> tuple[int, ...]:
        """Possible numbers of bits in these flags before those that say how characters are stored. They
        differ between releases of free-threaded interpreters: at the wrong places, all bits are 0."""
        return (2, 8, 16) if self.free_threaded else (2,)


C_OWNED: Final = 3
"""Owners from this number on are no Python functions: such a frame marks where C code called the interpreter
(``FRAME_OWNED_BY_CSTACK``; in 3.14 also ``FRAME_OWNED_BY_INTERPRETER``)."""

_FRAMES_3_10: Final = {
    "major": 3, "interpreters": 32, "next_interpreter": 0, "threads": 8,
    "next_thread": 8, "thread_id": 176, "native_id": NONE, "current": 24, "through": NONE, "previous": 24,
    "code": 32, "owner": NONE, "object_head": 16, "filename": 104, "name": 112, "first_line": 40,
    "lines": 120, "bytecode": NONE, "other_bytecodes": NONE, "text_head": 48,
}  # fmt: skip

TABLES: Final = MappingProxyType(
    {
        (3, 9): PythonLayout(
            minor=9, free_threaded=False, instruction=104, line_format=LineFormat.DELTAS, **_FRAMES_3_10
        ),
        (3, 10): PythonLayout(
            minor=10, free_threaded=False, instruction=96, line_format=LineFormat.RANGES, **_FRAMES_3_10
        ),
        (3, 11): PythonLayout(
            major=3, minor=11, free_threaded=False, interpreters=40, next_interpreter=0, threads=16,
            next_thread=8, thread_id=152, native_id=160, current=56, through=8, previous=48, code=32,
            instruction=56, owner=69, object_head=16, filename=112, name=128, first_line=72, lines=136,
            bytecode=184, other_bytecodes=NONE, text_head=48, line_format=LineFormat.LOCATIONS,
        ),
        (3, 12): PythonLayout(
            major=3, minor=12, free_threaded=False, interpreters=40, next_interpreter=0, threads=72,
            next_thread=8, thread_id=136, native_id=144, current=56, through=0, previous=8, code=0,
            instruction=56, owner=70, object_head=16, filename=112, name=128, first_line=68, lines=136,
            bytecode=192, other_bytecodes=NONE, text_head=40, line_format=LineFormat.LOCATIONS,
        ),
    }
)  # fmt: skip
"""Layouts of the versions that do not state theirs."""
