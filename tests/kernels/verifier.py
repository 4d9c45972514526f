"""What the verifier says of each program that this process loads: asked at every load, on any kernel."""

from __future__ import annotations

import contextlib
import ctypes
import re
import struct
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from probes import bpf_calls

_PROG_LOAD: Final = 5
_STATISTICS: Final = 4
"""BPF_LOG_STATS: one line with figures in place of the whole log."""
_LOG_BYTES: Final = 1 << 20
_COUNT_AT, _LOG_AT, _NAME_AT = 4, 24, 48
"""In union bpf_attr for BPF_PROG_LOAD: insn_cnt; log_level, log_size and log_buf; prog_name."""
_PROCESSED: Final = re.compile(rb"processed (\d+) insns")


class Verified(NamedTuple):
    """One program."""

    name: str
    size: int
    """Instructions that it has."""
    instructions: int
    """That the verifier went through, on all paths; -1 where it does not say."""
    verifier_ms: float
    """Of the whole system call."""
    refused: str
    """The last lines of the verifier's log; empty where the program was loaded."""


@contextlib.contextmanager
def watched_loads() -> Iterator[list[Verified]]:
    """The programs that are loaded within the block."""
    found: list[Verified] = []
    original = bpf_calls._bpf
    log = ctypes.create_string_buffer(_LOG_BYTES)

    def watched(command: int, attributes: bytes) -> int:
        if command != _PROG_LOAD:
            return original(command, attributes)
        fields = bytearray(attributes.ljust(_NAME_AT + 16, b"\0"))
        struct.pack_into("=IIQ", fields, _LOG_AT, _STATISTICS, _LOG_BYTES, ctypes.addressof(log))
        log.value = b""
        began = time.monotonic()
        refused = ""
        try:
            return original(command, bytes(fields))
        except OSError as error:
            refused = f"{error.strerror}: {log.value[-600:].decode(errors='replace')}"
            raise
        finally:
            took_ms = (time.monotonic() - began) * 1e3
            name = bytes(fields[_NAME_AT : _NAME_AT + 16]).rstrip(b"\0").decode()
            (size,) = struct.unpack_from("=I", fields, _COUNT_AT)
            processed = _PROCESSED.search(log.value)
            found.append(
                Verified(name, size, int(processed[1]) if processed else -1, round(took_ms, 1), refused)
            )

    bpf_calls._bpf = watched
    try:
        yield found
    finally:
        bpf_calls._bpf = original
