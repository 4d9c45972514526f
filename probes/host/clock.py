"""Reads the maximum error of the host's clock, as the Linux kernel estimates it from NTP or PTP."""

from __future__ import annotations

import ctypes
import errno
from typing import Final

TIME_ERROR: Final = 5
"""State that adjtimex(2) returns if the clock is not synchronised."""


class _Timex(ctypes.Structure):
    """The beginning of ``struct timex``, which is 208 bytes on 64-bit Linux."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("rest", ctypes.c_byte * 256),
    )


def clock_error_ns() -> int | None:
    """Returns the maximum error of the clock, in ns; None if nothing synchronises the clock, or if the error
    cannot be read.

    This is the Linux kernel's ``maxerror`` (in µs): half the delay to the time server, plus the possible
    drift of the clock since it was set (RFC 5905, root distance). Reading it needs no privileges.
    """
    time = _Timex(modes=0)
    try:
        state = _LIBC.adjtimex(ctypes.byref(time))
    except AttributeError:
        return None
    if state < 0:
        code = ctypes.get_errno()
        if code not in (errno.EPERM, errno.ENOSYS):  # A sandbox may forbid the call.
            raise OSError(code, "adjtimex")
        return None
    return None if state == TIME_ERROR else max(int(time.maxerror), 0) * 1_000


_LIBC = ctypes.CDLL(None, use_errno=True)
