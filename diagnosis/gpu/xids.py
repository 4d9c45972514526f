"""Explains NVIDIA's XID codes in our own words, based on NVIDIA's public list "XID Errors"."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Xid(NamedTuple):
    """Explanation of one code."""

    text: str
    fix: str
    """What to do; ``{gpu}`` stands for the device's name."""
    program: bool = False
    """Whether the cause is mostly the program that runs, not the hardware."""

    @property
    def short(self) -> str:
        """The first step of ``fix``."""
        return re.split("[,;] ", self.fix, maxsplit=1)[0]


_DEBUG: Final = (
    "run the program under compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1, to find the CUDA kernel"
)
_RESET: Final = "end the processes on {gpu} and reset it; update the driver if the error comes again"
_HARDWARE: Final = "take {gpu} out of service and have it tested (dcgmi diag -r 3)"

XIDS: Final = {
    13: Xid(
        "a CUDA kernel did what the device does not allow (bad address or instruction)", _DEBUG, program=True
    ),
    31: Xid("a CUDA kernel used an address that is not mapped", _DEBUG, program=True),
    43: Xid("the device stopped the work of a program after an error of that program", _DEBUG, program=True),
    45: Xid(
        "the driver ended the work of a program, after an earlier error or because the program was killed",
        "look for an earlier XID, or for what killed the program",
        program=True,
    ),
    48: Xid("a memory error of two bits that could not be corrected", _RESET),
    61: Xid("an early alarm of the device's own controller", _RESET),
    62: Xid("the device's own controller halted", _RESET),
    63: Xid("a bad row of memory was marked for replacement", "reset {gpu} when its processes can be ended"),
    64: Xid("a bad row of memory could not be marked for replacement", _HARDWARE),
    68: Xid(
        "an error of the video decoder", "look at the stream being decoded; update the driver", program=True
    ),
    69: Xid("a program gave the graphics engine a command that it does not know", _DEBUG, program=True),
    74: Xid(
        "an error of an NVLink",
        "look at all links (nvidia-smi nvlink -e), reseat bridge or board; " + _HARDWARE,
    ),
    79: Xid("the device fell off the bus", "restart the host; check power, cooling and seating of {gpu}"),
    92: Xid("corrected memory errors come often", "watch {gpu}: nvidia-smi -q -d ECC; " + _HARDWARE),
    94: Xid(
        "a memory error that was contained: only the program that met it ended",
        "start the program again; reset {gpu} when its other processes can be ended",
    ),
    95: Xid("a memory error that was not contained: all programs on the device are hit", _RESET),
    119: Xid("the device's system processor (GSP) did not answer the driver in time", _RESET),
    120: Xid("the device's system processor (GSP) reported an error", _RESET),
}
"""Explanations by code."""


def meaning_of(code: int) -> Xid:
    """Returns the explanation of ``code``. If ``code`` is not listed here, the result says where to read
    about it."""
    return XIDS.get(code) or Xid("see NVIDIA's XID list", "look the code up in NVIDIA's list of XID errors")
