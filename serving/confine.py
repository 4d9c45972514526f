"""Sandboxes a screen's process: it cannot write files, run programs or open TCP connections, and has no
capabilities except CAP_DAC_READ_SEARCH. How much of this is enforced depends on the version of Landlock.

The screen processes input from a browser. If such input exploits a bug in the screen, the sandboxed process
can harm nothing but itself.

Sources: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h in Linux (both system
calls have these numbers on every architecture), capset(2), prctl(2), setrlimit(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_ASK_VERSION = 1
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_CAPABILITY_VERSION_3 = 0x20080522
_READ_SEARCH = 1 << 2
"""CAP_DAC_READ_SEARCH."""

_FILES = (1 << 0) | (1 << 1) | sum(1 << bit for bit in range(4, 13))
"""Denied: executing, writing, removing and creating files of all kinds. Reading is allowed: Python imports
modules when needed."""
_FILES_SINCE = {2: 1 << 13, 3: 1 << 14}
"""Rights that are also denied if the kernel's Landlock has this version or a later one: moving files between
directories (version 2), truncating files (version 3)."""
_TCP_SINCE, _TCP = 4, (1 << 0) | (1 << 1)
"""Denied if Landlock has version 4 or later: binding and connecting TCP sockets."""
_SCOPES_SINCE, _SCOPES = 6, (1 << 0) | (1 << 1)
"""Denied if Landlock has version 6 or later: connecting to abstract Unix sockets of other processes, and
sending signals to other processes."""


def landlock_version() -> int:
    """Returns the version of Landlock in the Linux kernel; 0 if the kernel has no Landlock or it is
    disabled."""
    return max(int(_libc().syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)), 0)


def confine(*, parent: int) -> bool:
    """Sandboxes this process with its future threads and children, and lets the Linux kernel kill this
    process when the process ``parent`` ends.

    Must be called before other threads exist. Returns True if Landlock restricts files. Returns False if the
    Linux kernel has no Landlock: the process can then create and remove files with the user's permissions,
    but not write to them (RLIMIT_FSIZE).
    """
    libc = _libc()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities(libc)
    restricted = _restrict_files(libc)
    _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:  # the parent ended before prctl
        os.kill(os.getpid(), signal.SIGKILL)
    return restricted


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Drops all capabilities but CAP_DAC_READ_SEARCH, which root needs to import from another user's
    directory."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    now = ctypes.create_string_buffer(24)
    _check(libc.capget(header, now))
    effective, permitted = struct.unpack_from("II", now.raw)
    kept = struct.pack("6I", effective & _READ_SEARCH, permitted & _READ_SEARCH, 0, 0, 0, 0)
    _check(libc.capset(header, kept))


def _restrict_files(libc: ctypes.CDLL) -> bool:
    version = landlock_version()
    if not version:
        return False
    files = _FILES | sum(bits for since, bits in _FILES_SINCE.items() if version >= since)
    rules = struct.pack("Q", files)
    if version >= _TCP_SINCE:
        rules += struct.pack("Q", _TCP)
    if version >= _SCOPES_SINCE:
        rules += struct.pack("Q", _SCOPES)
    ruleset = _check(libc.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0))
    try:
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
