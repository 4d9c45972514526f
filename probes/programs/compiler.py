"""Compiles the BPF programs with BCC, for the process that started this one.

Runs as a script in a separate process, under any Python (3.8 or later) that has BCC. BCC contains a whole
compiler, some 100 MB that would otherwise stay in the monitor's memory, and writes its errors directly to the
terminal. Imports nothing of stalltop.

Reads a JSON object from stdin. It has ``text`` and ``cflags`` for the compiler, ``headers`` (the folder with
the Linux kernel's headers), ``programs`` (names of functions), ``mark`` (upper 48 bits of the constants that
stand for numbers known only when the programs are loaded) and, optionally, ``niceness``.

Writes a JSON object to stdout. It has ``maps`` and ``programs``. Each map has name, type, key_bytes,
value_bytes, entries and flags. Each program has name, code (base64), the instructions that load a map
(``maps``: instruction, name), and the instructions that load such a number (``values``: instruction, number).
If the compilation fails, the object has ``failed`` (``import`` or ``compile``) and ``detail`` instead.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import struct
import sys
from typing import Any

_LOAD_64 = 0x18
"""BPF_LD | BPF_DW | BPF_IMM: the only instruction with twice the size."""
_MAP_FD = 1
"""BPF_PSEUDO_MAP_FD, in the upper half of the byte that holds the registers. It marks the constant as the
descriptor of a map."""
_PR_SET_PDEATHSIG = 1
"""Value from linux/prctl.h."""
_SIZE = 8
"""Size of an instruction, bytes."""


def compile_programs(request: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to ``request``."""
    os.environ["BCC_KERNEL_SOURCE"] = request["headers"]
    os.nice(request.get("niceness", 0))
    try:
        import bcc

        make = bcc.BPF
    except (ImportError, OSError, AttributeError) as error:
        return {"failed": "import", "detail": str(error)}
    try:
        module = make(text=request["text"], cflags=request["cflags"])
    except Exception as error:
        return {"failed": "compile", "detail": str(error)}
    from bcc.libbcc import lib

    names = _map_names(lib, ctypes.c_void_p(module.module))
    return {
        "maps": [_map(fd, name) for fd, name in names.items()],
        "programs": [
            _program(name, module.dump_func(name.encode()), names, request["mark"])
            for name in request["programs"]
        ],
    }


def _map_names(lib: Any, module: ctypes.c_void_p) -> dict[int, str]:
    """Returns the names of maps by descriptor. Uses functions of bcc_common.h that BCC's Python does not
    declare."""
    lib.bpf_num_tables.restype = ctypes.c_size_t
    lib.bpf_table_name.restype = ctypes.c_char_p
    numbers = [ctypes.c_size_t(number) for number in range(lib.bpf_num_tables(module))]
    return {
        lib.bpf_table_fd_id(module, number): lib.bpf_table_name(module, number).decode() for number in numbers
    }


def _map(fd: int, name: str) -> dict[str, Any]:
    with open(f"/proc/self/fdinfo/{fd}") as lines:
        info = dict(line.split(":", 1) for line in lines)
    numbers = {
        ours: int(info[theirs], 0)
        for ours, theirs in (
            ("type", "map_type"),
            ("key_bytes", "key_size"),
            ("value_bytes", "value_size"),
            ("entries", "max_entries"),
            ("flags", "map_flags"),
        )
    }
    return {"name": name, **numbers}


def _program(name: str, code: bytes, map_names: dict[int, str], mark: int) -> dict[str, Any]:
    text = bytearray(code)
    maps, values = [], []
    at = 0
    while at < len(text):
        if text[at] != _LOAD_64:
            at += _SIZE
            continue
        low, high = (
            struct.unpack_from("=I", text, at + 4)[0],
            struct.unpack_from("=I", text, at + _SIZE + 4)[0],
        )
        if text[at + 1] >> 4 == _MAP_FD:
            maps.append((at // _SIZE, map_names[low]))
            struct.pack_into("=I", text, at + 4, 0)
        elif text[at + 1] >> 4 == 0 and (high << 32 | low) & ~0xFFFF == mark:
            values.append((at // _SIZE, low & 0xFFFF))
            struct.pack_into("=I", text, at + 4, 0)
            struct.pack_into("=I", text, at + _SIZE + 4, 0)
        at += 2 * _SIZE
    return {"name": name, "code": base64.b64encode(text).decode(), "maps": maps, "values": values}


def main() -> None:
    """Serves the one request of this process. If the parent ends, the Linux kernel kills this process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    answer_fd = os.dup(1)
    os.dup2(2, 1)  # Output of the compiler must not get into the answer.
    answer = compile_programs(json.load(sys.stdin))
    with os.fdopen(answer_fd, "w") as out:
        json.dump(answer, out)
    # The process ends without BCC's own cleanup, because the Linux kernel releases everything faster.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]  # Without this, BCC could import modules of this folder by accident.
    main()
