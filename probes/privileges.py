"""Gives up the capabilities that a process does not need. Sources: capabilities(7), capset(2), prctl(2)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class Capability(IntEnum):
    """Capabilities that stalltop uses, with their numbers (include/uapi/linux/capability.h)."""

    CHOWN = 0
    DAC_OVERRIDE = 1
    DAC_READ_SEARCH = 2
    FOWNER = 3
    NET_BIND_SERVICE = 10
    SYS_PTRACE = 19
    SYS_ADMIN = 21
    SYS_RESOURCE = 24
    PERFMON = 38
    BPF = 39
    CHECKPOINT_RESTORE = 40


OF_THE_SERVICE: Final = frozenset(
    {
        Capability.BPF,
        Capability.PERFMON,
        Capability.SYS_ADMIN,
        Capability.SYS_PTRACE,
        Capability.SYS_RESOURCE,
        Capability.DAC_READ_SEARCH,
        Capability.CHECKPOINT_RESTORE,
    }
)
"""Capabilities of the service (``CapabilityBoundingSet`` of deploy/stalltop-record.service): all that tracing
needs."""
BY_HAND: Final = OF_THE_SERVICE | {
    # Files are written for the user who called sudo, into folders of that user, which may be sticky.
    Capability.CHOWN,
    Capability.FOWNER,
    # The same; and connecting to the socket of a user's own Docker or Podman needs a right to write.
    Capability.DAC_OVERRIDE,
    Capability.NET_BIND_SERVICE,  # stalltop serve --port 443
}
"""Capabilities that stalltop keeps if root starts it."""

_VERSION_3: Final = 0x20080522
_PR_CAPBSET_READ: Final = 23
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38


def capabilities() -> frozenset[int]:
    """Returns the numbers of the capabilities of this thread (its permitted set). Raises OSError."""
    permitted, more = struct.unpack_from("=4xI8xI", _read(_libc()))
    return frozenset(number for number in range(64) if (permitted | more << 32) >> number & 1)


def keep_capabilities(kept: Iterable[int]) -> None:
    """Gives up all capabilities of this thread but ``kept``, also for programs that it will start.

    Rights belong to threads, so it must be called before other threads exist. Capabilities that this thread
    does not have stay missing. Raises OSError.
    """
    libc = _libc()
    bits = sum(1 << number for number in set(kept) & capabilities())
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    number = 0
    while (bounded := libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0)) >= 0:
        if bounded and not bits >> number & 1:
            # Without CAP_SETPCAP the bounding set stays. No program gains from it, because of no_new_privs.
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
        number += 1
    low, high = bits & 0xFFFFFFFF, bits >> 32
    _check(libc.capset(struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", low, low, 0, high, high, 0)))


def _read(libc: ctypes.CDLL) -> bytes:
    """Returns two ``struct __user_cap_data_struct``: effective, permitted and inheritable bits, low and
    high."""
    data = ctypes.create_string_buffer(24)
    _check(libc.capget(struct.pack("=Ii", _VERSION_3, 0), data))
    return data.raw


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
