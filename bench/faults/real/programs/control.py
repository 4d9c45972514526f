"""Access to a program's control file of eight doubles. Numbers 0 to 6 tell the program what to do and can be
changed from outside while it runs; in number 7 the program counts its steps."""

import mmap
import os
import struct

_FILE = os.open(os.environ["CONTROL"], os.O_RDWR)
_NUMBERS = mmap.mmap(_FILE, 64)
_STEPS = 7


def number(place: int = 0) -> float:
    """Returns number ``place`` of the control file, 0 to 7."""
    return struct.unpack_from("d", _NUMBERS, 8 * place)[0]


def count_step() -> None:
    """Adds one to the number of steps (number 7 of the control file)."""
    struct.pack_into("d", _NUMBERS, 8 * _STEPS, number(_STEPS) + 1)


def ready() -> None:
    """Prints ``ready``: the program has started its loop."""
    print("ready", flush=True)
