"""Reads the state of an open file without asking a server that may not answer."""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import Final

_STATX: Final = {"x86_64": 332, "aarch64": 291}
"""Number of the system call, by machine (asm/unistd_64.h, asm-generic/unistd.h)."""
_AT_EMPTY_PATH: Final = 0x1000
_AT_STATX_DONT_SYNC: Final = 0x4000
"""The Linux kernel returns what it knows and does not ask the server of a network file system, or a program
that serves a FUSE file system."""
_SIZE_AND_CHANGE: Final = 0x200 | 0x40
"""STATX_SIZE and STATX_MTIME."""
_STATX_BYTES: Final = 256
_SIZE_AT, _CHANGE_AT = 40, 112
"""Offsets of stx_size and stx_mtime in ``struct statx`` (include/uapi/linux/stat.h)."""

_libc = ctypes.CDLL(None, use_errno=True)


def size_and_change(fd: int) -> tuple[int, int] | None:
    """Returns the size of an open file in bytes and when its content was last changed (ns since 1970), as far
    as the Linux kernel knows without asking a server; None if it is not known."""
    number = _STATX.get(platform.machine())
    if number is None:
        return None
    result = ctypes.create_string_buffer(_STATX_BYTES)
    failed = _libc.syscall(
        ctypes.c_long(number),
        ctypes.c_int(fd),
        b"",
        ctypes.c_int(_AT_EMPTY_PATH | _AT_STATX_DONT_SYNC),
        ctypes.c_uint(_SIZE_AND_CHANGE),
        result,
    )
    if failed:
        return None
    (known,) = struct.unpack_from("=I", result)
    if known & _SIZE_AND_CHANGE != _SIZE_AND_CHANGE:
        return None
    (size,) = struct.unpack_from("=Q", result, _SIZE_AT)
    seconds, ns = struct.unpack_from("=qI", result, _CHANGE_AT)
    return int(size), seconds * 1_000_000_000 + ns
