"""Finds files that other users' processes have mapped. ``probes.regular_file.opened`` opens what is found.

A user chooses which file is mapped, and what lies at its path afterwards: a FIFO, a device, a symbolic link
to a file that only root may open, a folder of another mount.

``/proc/PID/map_files`` leads to the mapped file itself, even if it was deleted or replaced, or lies in a
container's own mounts. It needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE in the initial user namespace.
Without them, the path of the mapping is followed below the root folder of the process, folder by folder.
Paths in ``/proc/PID/maps`` contain no symbolic links, so none is followed. (openat2(2) would do this in one
call, but seccomp cannot check its arguments, so ``probes.confined.sandbox`` forbids it.)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator
from typing import Final

from stalltop.probes.process_maps import Kind, Mapping
from stalltop.probes.regular_file import check_regular

_TO_LOOK: Final = os.O_PATH | os.O_CLOEXEC
_REPLACED: Final = "another file has its path now"
_OTHER_DEVICES: Final = frozenset({0x794C7630, 0x9123683E})
"""Types of file systems (overlayfs, Btrfs) whose files have, for fstat, another device than in
``/proc/PID/maps``."""

_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def found(mapping: Mapping) -> Iterator[int]:
    """Provides a descriptor (``O_PATH``) of the file of ``mapping``, which is a regular file.

    Raises OSError: ENXIO if it is not a regular file; ESTALE if the mapped file is not at its path any more,
    and cannot be opened in another way.
    """
    if mapping.kind is Kind.PROGRAM:
        with found_program(mapping.thread) as program:
            yield program
        return
    try:
        exact = f"/proc/{mapping.thread}/map_files/{mapping.start:x}-{mapping.end:x}"
        fd = os.open(exact, _TO_LOOK)
    except OSError as error:
        if error.errno != errno.EPERM:  # EPERM: the capability for map_files is missing.
            raise
        fd = _at_path(mapping)
    try:
        check_regular(fd)
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def found_program(pid: int) -> Iterator[int]:
    """Provides a descriptor (``O_PATH``) of the program that process ``pid`` runs. This is a regular file,
    because the Linux kernel executes no others. Raises OSError."""
    fd = os.open(f"/proc/{pid}/exe", _TO_LOOK)
    try:
        yield fd
    finally:
        os.close(fd)


def _at_path(mapping: Mapping) -> int:
    """Returns a descriptor (``O_PATH``) of the file at the path of ``mapping``, if that is the mapped file.
    Raises OSError."""
    fd = _below_root_of(mapping.thread, mapping.path)
    try:
        status = os.fstat(fd)
        same_device = status.st_dev == mapping.device or _file_system(fd) in _OTHER_DEVICES
        if status.st_ino != mapping.inode or not same_device:
            raise OSError(errno.ESTALE, _REPLACED)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def found_below(pid: int, path: str) -> Iterator[int]:
    """Provides a descriptor (``O_PATH``) of the file at ``path`` below the root folder of process ``pid``. No
    link is followed. Raises OSError."""
    fd = _below_root_of(pid, path)
    try:
        yield fd
    finally:
        os.close(fd)


def _below_root_of(pid: int, path: str) -> int:
    root = os.open(f"/proc/{pid}/root", _TO_LOOK | os.O_DIRECTORY)
    try:
        return _open_below(root, path)
    finally:
        os.close(root)


def _open_below(root: int, path: str) -> int:
    fd = os.dup(root)
    try:
        for name in path.split("/"):
            if name in (".", ".."):  # The Linux kernel writes no such names.
                raise OSError(errno.ESTALE, _REPLACED)
            if not name:
                continue
            below = os.open(name, _TO_LOOK | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = below
            if stat.S_ISLNK(os.fstat(fd).st_mode):  # The link was made after the file was mapped.
                raise OSError(errno.ESTALE, _REPLACED)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _file_system(fd: int) -> int:
    """Returns the type of the file system of an open file (``f_type`` of statfs(2)). Raises OSError."""
    buffer = ctypes.create_string_buffer(512)  # struct statfs has 120 bytes on 64-bit machines.
    if _libc.fstatfs(ctypes.c_int(fd), buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(struct.unpack_from("=q", buffer)[0])
