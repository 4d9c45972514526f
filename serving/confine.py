"""Takes from a process what a screen does not need: writing, running programs, connections, capabilities.

What is typed in a browser reaches a screen. Even one that does what it is told can then harm nothing but
itself.

Landlock and its numbers: Linux, Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h;
both system calls have these numbers on every architecture. Capabilities: capset(2); the rest: prctl(2),
setrlimit(2).
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
"""Executing, writing, removing and making of every kind. Reading stays: modules are loaded when needed."""
_FILES_SINCE = {2: 1 << 13, 3: 1 << 14}
"""Moving between folders, truncating: by the version of Landlock that has them."""
_TCP_SINCE, _TCP = 4, (1 << 0) | (1 << 1)
"""Listening and connecting."""
_SCOPES_SINCE, _SCOPES = 6, (1 << 0) | (1 << 1)
"""Abstract Unix sockets of others, and signals to them."""


def landlock_version() -> int:
    """The version of Landlock that this kernel has; 0: none, or not enabled."""
    return max(int(_libc().syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)), 0)


def confine(*, parent: int) -> bool:
    """Confine this process and every thread and process that it will have; end it when ``parent`` ends.

    To be called before there are other threads. False where the kernel has no Landlock: files can then be
    made and removed as far as the user may, but nothing can be written to them.
    """
    libc = _libc()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities(libc)
    restricted = _restrict_files(libc)
    _check(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if os.getppid() != parent:  # it ended before that was said
        os.kill(os.getpid(), signal.SIGKILL)
    return restricted


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Keep reading at most: root's own may be needed for a program in another user's folder."""
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
