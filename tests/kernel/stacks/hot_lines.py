"""A training loop, as a program of its own, that loses its time at one known line: ``LIBRARY FILE MODE``.

The mode says at which: ``cpu``, ``gil`` or ``disk``. The lines that tests look for end with a comment.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import zlib

DATA = bytes(64 << 10)


def compute() -> int:
    total = 0
    for number in range(100_000):
        total += number * number % 7  # hot: cpu
    return total


def check() -> int:
    found = 0
    for _ in range(20):
        found = zlib.crc32(DATA, found)  # hot: gil
    return found


def save(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(file, DATA)
    os.fsync(file)  # hot: disk
    os.close(file)


def count_for_ever() -> None:
    while True:
        sum(range(10_000))  # holds the GIL


def main() -> None:
    library, mode = ctypes.CDLL(sys.argv[1]), sys.argv[3]
    if mode == "gil":
        threading.Thread(target=count_for_ever, daemon=True).start()
    while True:
        library.cuLaunchKernel(*[None] * 11)
        if mode == "cpu":
            compute()
        elif mode == "gil":
            check()
        else:
            save(sys.argv[2])


main()
