"""Reads the state of a file without asking a server that may not answer."""

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
_INODE: Final = 0x100
"""STATX_INO."""
_AT_FDCWD: Final = -100
_INODE_AT, _SIZE_AT, _CHANGE_AT, _DEVICE_AT = 32, 40, 112, 136
"""Offsets of stx_ino, stx_size, stx_mtime and stx_dev_major in ``struct statx``
(include/uapi/linux/stat.h)."""

_libc = ctypes.CDLL(None, use_errno=True)


def size_and_change(fd: int) -> tuple[int, int] | None:
    """Returns the size of an open file in bytes and when its content was last changed (ns since 1970), as far
    as the Linux kernel knows without asking a server; None if it is not known."""
    result = _state(fd, b"", _AT_EMPTY_PATH, _SIZE_AND_CHANGE)
    if result is None:
        return None
    (size,) = struct.unpack_from("=Q", result, _SIZE_AT)
    seconds, ns = struct.unpack_from("=qI", result, _CHANGE_AT)
    return int(size), seconds * 1_000_000_000 + ns


def program_identity(pid: int) -> tuple[int, int, int] | None:
    """Returns what identifies the file of the program that a process runs: device (major, minor) and inode;
    None if it is not known. Does not ask the server from which the program came."""
    result = _state(_AT_FDCWD, f"/proc/{pid}/exe".encode(), 0, _INODE)
    if result is None:
        return None
    (inode,) = struct.unpack_from("=Q", result, _INODE_AT)
    major, minor = struct.unpack_from("=II", result, _DEVICE_AT)
    return int(major), int(minor), int(inode)


def _state(folder: int, path: bytes, flags: int, wanted: int) -> bytes | None:
    """Returns ``struct statx`` of a file; None if it does not have all that is ``wanted``."""
    number = _STATX.get(platform.machine())
    if number is None:
        return None
    result = ctypes.create_string_buffer(_STATX_BYTES)
    failed = _libc.syscall(
        ctypes.c_long(number),
        ctypes.c_int(folder),
        path,
        ctypes.c_int(flags | _AT_STATX_DONT_SYNC),
        ctypes.c_uint(wanted),
        result,
    )
    if failed:
        return None
    (known,) = struct.unpack_from("=I", result)
    return result.raw if known & wanted == wanted else None
