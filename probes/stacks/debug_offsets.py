"""Reads the offsets that CPython 3.13 and later state at the beginning of ``_PyRuntime``
(``_Py_DebugOffsets``, Include/internal/pycore_debug_offsets.h; pycore_runtime.h in 3.13)."""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import Final

from stalltop.probes.stacks.layouts import NONE, LineFormat, PythonLayout

COOKIE: Final = b"xdebugpy"
"""The first bytes of ``_PyRuntime`` of 3.13 and later."""
READ_BYTES: Final = 8 * 72
"""Number of bytes from there on that `stated_layout` needs."""

_HEAD: Final = ("cookie", "version", "free_threaded", "runtime.size", "runtime.finalizing", "interpreters")
_THREAD: Final = (
    *("thread.size", "thread.prev", "next_thread", "thread.interp", "current", "thread_id", "native_id"),
    *("thread.datastack_chunk", "thread.status"),
)
_FRAME: Final = ("frame.size", "previous", "code", "instruction", "frame.localsplus", "owner")
_CODE: Final = (
    *("code.size", "filename", "code.name", "name", "lines", "first_line", "code.argcount"),
    *("code.localsplusnames", "code.localspluskinds", "bytecode"),
)
_INTERPRETER_3_13: Final = (
    *("interpreter.size", "interpreter.id", "next_interpreter", "threads", "interpreter.gc"),
    *("interpreter.imports", "interpreter.sysdict", "interpreter.builtins", "interpreter.ceval_gil"),
    *("interpreter.gil", "interpreter.gil_enabled", "interpreter.gil_locked", "interpreter.gil_holder"),
)
_INTERPRETER_3_14: Final = (
    *_INTERPRETER_3_13[:4],
    "interpreter.threads_main",
    *_INTERPRETER_3_13[4:],
    *("interpreter.code_generation", "interpreter.tlbc_generation"),
)
_WORDS: Final = MappingProxyType(
    {
        (3, 13): (*_HEAD, *_INTERPRETER_3_13, *_THREAD, *_FRAME, *_CODE),
        (3, 14): (
            *(*_HEAD, *_INTERPRETER_3_14, *_THREAD),
            *(*_FRAME, "frame.stackpointer", "frame.tlbc_index"),
            *(*_CODE, "other_bytecodes"),
        ),
    }
)
"""By version: what the words (8 bytes each) mean, up to the last one that is needed."""
_LARGEST: Final = 1 << 16
"""Offsets are smaller than this, except in the structs of the runtime and of interpreters."""
_LARGEST_OF_RUNTIME: Final = 1 << 24


def stated_layout(head: bytes) -> PythonLayout | None:
    """Returns the layout that ``head``, the first READ_BYTES of ``_PyRuntime``, states; None if it states
    none, states one of an unknown version, or contradicts itself."""
    if head[:8] != COOKIE or len(head) < READ_BYTES:
        return None
    words = struct.unpack_from(f"<{READ_BYTES // 8}Q", head)
    version = words[1] >> 24 & 0xFF, words[1] >> 16 & 0xFF
    names = _WORDS.get(version)
    if names is None:
        return None
    found = dict(zip(names, words, strict=False))
    free_threaded = bool(found["free_threaded"])
    if not _is_plausible(found):
        return None
    head_bytes = 32 if free_threaded else 16
    return PythonLayout(
        major=version[0],
        minor=version[1],
        free_threaded=free_threaded,
        through=NONE,
        object_head=head_bytes,
        text_head=head_bytes + 24,
        other_bytecodes=(found.get("other_bytecodes") or NONE) if free_threaded else NONE,
        line_format=LineFormat.LOCATIONS,
        **{name: found[name] for name in _STATED},
    )


_STATED: Final = (
    *("interpreters", "next_interpreter", "threads", "next_thread", "thread_id", "native_id", "current"),
    *("previous", "code", "instruction", "owner", "filename", "name", "first_line", "lines", "bytecode"),
)


def _is_plausible(found: dict[str, int]) -> bool:
    """Returns whether each member lies within its struct."""
    of_runtime = found["interpreters"] < found["runtime.size"] < _LARGEST_OF_RUNTIME
    of_interpreter = (
        max(found["next_interpreter"], found["threads"]) < found["interpreter.size"] < _LARGEST_OF_RUNTIME
    )
    return (
        of_runtime
        and of_interpreter
        and all(
            max(found[name] for name in names) < found[size] < _LARGEST
            for size, names in (
                ("thread.size", ("next_thread", "current", "thread_id", "native_id")),
                ("frame.size", ("previous", "code", "instruction", "owner")),
                ("code.size", ("filename", "name", "lines", "first_line")),
            )
        )
    )
