"""Numbers that whoever runs a program can change while it runs: a file with eight doubles."""

import mmap
import os
import struct

_FILE = os.open(os.environ["CONTROL"], os.O_RDONLY)
_NUMBERS = mmap.mmap(_FILE, 64, prot=mmap.PROT_READ)


def number(place: int = 0) -> float:
    """Returns the number at a place, 0 to 7."""
    return struct.unpack_from("d", _NUMBERS, 8 * place)[0]


def ready() -> None:
    """Says that the program is in its loop."""
    print("ready", flush=True)
