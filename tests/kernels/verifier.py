"""Records the verifier's statistics of each BPF program that this process loads, on any version of Linux."""

from __future__ import annotations

import contextlib
import ctypes
import re
import struct
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from stalltop.probes.programs import bpf_calls

_PROG_LOAD: Final = 5
_STATISTICS: Final = 4
"""BPF_LOG_STATS, a log level of BPF_PROG_LOAD: the log contains only one line of statistics."""
_LOG_BYTES: Final = 1 << 16
_NAME_BYTES: Final = 16
_COUNT_AT, _LOG_AT, _NAME_AT = 4, 24, 48
"""Offsets in union bpf_attr for BPF_PROG_LOAD: of insn_cnt; of log_level, log_size and log_buf; of
prog_name."""
_PROCESSED: Final = re.compile(rb"processed (\d+) insns")


class Verified(NamedTuple):
    """The verifier's statistics of one program."""

    name: str
    size: int
    """Number of instructions of the program."""
    instructions: int
    """Instructions that the verifier processed on all paths; -1 if it does not report them."""
    verifier_ms: float
    """Time of the whole system call; several programs may load at the same time."""
    refused: str
    """The error of the load; '' if the program was loaded."""


@contextlib.contextmanager
def watched_loads() -> Iterator[list[Verified]]:
    """Collect the statistics of the programs that are loaded within the block."""
    found: list[Verified] = []
    original = bpf_calls._bpf

    def watched(command: int, attributes: bytes) -> int:
        fields = bytearray(attributes.ljust(_NAME_AT + _NAME_BYTES, b"\0"))
        if command != _PROG_LOAD or struct.unpack_from("=I", fields, _LOG_AT)[0]:
            return original(command, attributes)  # no program, or a second load to get the whole log
        log = ctypes.create_string_buffer(_LOG_BYTES)
        struct.pack_into("=IIQ", fields, _LOG_AT, _STATISTICS, _LOG_BYTES, ctypes.addressof(log))
        refused = ""
        began = time.monotonic()
        try:
            return original(command, bytes(fields))
        except OSError as error:
            refused = error.strerror or str(error)
            raise
        finally:
            took_ms = (time.monotonic() - began) * 1e3
            name = bytes(fields[_NAME_AT : _NAME_AT + _NAME_BYTES]).rstrip(b"\0").decode()
            (size,) = struct.unpack_from("=I", fields, _COUNT_AT)
            processed = _PROCESSED.search(log.value)
            instructions = int(processed[1]) if processed else -1
            found.append(Verified(name, size, instructions, round(took_ms, 1), refused))

    bpf_calls._bpf = watched
    try:
        yield found
    finally:
        bpf_calls._bpf = original
