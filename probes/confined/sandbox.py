"""Takes from a process every right that examining others' files does not need.

The process keeps what it has open and may open files for reading. It may not open files for writing, connect
anywhere, start programs or processes, load code, or send anything except over the socket to stalltop. System
calls are restricted by seccomp, not by Landlock: a process in a Landlock domain may not read
``/proc/PID/maps`` of processes outside of it (``hook_ptrace_access_check`` in security/landlock/ptrace.c).

Sources: Documentation/userspace-api/seccomp_filter.rst, include/uapi/linux/{seccomp,filter,audit,prctl}.h.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
import struct
from collections.abc import Iterator
from typing import Final

from stalltop.probes.privileges import Capability, capabilities, keep_capabilities

MEMORY_BYTES: Final = 2 << 30
"""Limit of the address space for examining, bytes; it is added to what the process has when it starts. A
table of 4 million symbols takes some 0.3 GiB."""

_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_REFUSE: Final = 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
"""Instructions of classic BPF: load a word of ``seccomp_data``, jump if it is equal to a constant, has one of
its bits, or is not below it; return a constant."""
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
"""Offsets in ``struct seccomp_data``, bytes."""
_X32_NUMBERS: Final = 0x40000000
_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | (os.O_TMPFILE & ~os.O_DIRECTORY)
_PROT_EXEC: Final = 4

_ALLOWED: Final = {
    # Numbers on x86-64 and aarch64 (asm/unistd_64.h, asm-generic/unistd.h); -1: there is none.
    "read": (0, 63),
    "pread64": (17, 67),
    "lseek": (8, 62),
    "close": (3, 57),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "fstatfs": (138, 44),
    "readlink": (89, -1),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "dup": (32, 23),
    "recvmsg": (47, 212),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "getrandom": (318, 278),
    "uname": (63, 160),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
"""System calls that are allowed with any arguments."""
_ALLOWED_WITHOUT: Final = {
    "openat": ((257, 56), 2, _WRITES),
    "mmap": ((9, 222), 2, _PROT_EXEC),
    "mprotect": ((10, 226), 2, _PROT_EXEC),
}
"""System calls that are allowed if an argument (its number) has none of these bits."""
_ALLOWED_ONLY_WITH: Final = {
    "fcntl": (
        (72, 25),
        1,
        (fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL),
    ),
}
"""System calls that are allowed if an argument (its number) has one of these values. With other commands,
``fcntl`` sends signals to any process (F_SETOWN, F_SETSIG), and makes others wait (F_SETLEASE, F_SETLK)."""
_SENDS: Final = {"sendmsg": (46, 211)}
"""System calls that are allowed for the socket to stalltop only."""
_KEPT: Final = (
    Capability.SYS_PTRACE,  # for /proc/PID/maps and mem
    Capability.DAC_READ_SEARCH,  # for files that root may not read otherwise
)


class SandboxError(OSError):
    """The process could not be confined."""


def confine(connection: int) -> bool:
    """Confines this process, which keeps the descriptor ``connection`` to send on. Returns whether its system
    calls are restricted: not in a Linux kernel without seccomp. Raises OSError.

    Must be called before other threads exist, because rights belong to threads.
    """
    if len(os.listdir("/proc/self/task")) != 1:
        raise SandboxError("there are other threads")
    with open("/proc/self/statm", "rb") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    least = now + MEMORY_BYTES if most == resource.RLIM_INFINITY else min(most, now + MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (least, least))
    # CAP_SYS_ADMIN includes CAP_CHECKPOINT_RESTORE, for a container that was given the former only.
    restore = Capability.CHECKPOINT_RESTORE
    held = capabilities()
    keep_capabilities({*_KEPT, restore if restore in held else Capability.SYS_ADMIN})
    instructions = list(_instructions(connection))
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    memory = ctypes.create_string_buffer(program)
    header = struct.pack("=HxxxxxxQ", len(instructions), ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0) != 0:
        code = ctypes.get_errno()
        if code == errno.EINVAL:
            return False
        raise SandboxError(code, os.strerror(code))
    return True


def _instructions(connection: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields the filter: instruction, number of instructions to skip if true and if false, constant."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxError(f"the numbers of system calls are not known for {machine}")
    column = list(_ARCHITECTURES).index(machine)
    yield _LOAD, 0, 0, _ARCHITECTURE_AT
    yield _EQUAL, 1, 0, _ARCHITECTURES[machine]
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER_AT
    yield _AT_LEAST, 0, 1, _X32_NUMBERS
    yield _RETURN, 0, 0, _REFUSE
    for numbers in _ALLOWED.values():
        if numbers[column] >= 0:
            yield _EQUAL, 0, 1, numbers[column]
            yield _RETURN, 0, 0, _ALLOW
    for numbers, argument, bits in _ALLOWED_WITHOUT.values():
        yield _EQUAL, 0, 4, numbers[column]
        yield _LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument
        yield _ANY_BIT, 0, 1, bits
        yield _RETURN, 0, 0, _REFUSE
        yield _RETURN, 0, 0, _ALLOW
    for numbers, argument, values in _ALLOWED_ONLY_WITH.values():
        yield _EQUAL, 0, 2 + 2 * len(values), numbers[column]
        yield _LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument
        for value in values:
            yield _EQUAL, 0, 1, value
            yield _RETURN, 0, 0, _ALLOW
        yield _RETURN, 0, 0, _REFUSE
    for numbers in _SENDS.values():
        yield _EQUAL, 0, 4, numbers[column]
        yield _LOAD, 0, 0, _ARGUMENTS_AT
        yield _EQUAL, 1, 0, connection
        yield _RETURN, 0, 0, _REFUSE
        yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _REFUSE
