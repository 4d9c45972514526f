"""Records in forked processes, for tests that kill them. Each line on stdin names a file.

For each file, a forked process records to it as fast as possible; if the recording exists already, the
process continues it. Stdout gets the PID of the process, then the number of each window once the window is
written, and ``ended`` when the process has ended.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from stalltop.recordings.write.bounds import LEAST_BYTES, Bounds
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.thinning import Tier
from tests.windows.cheap import START, second

ROWS = 20
TIERS = (Tier(0, 20.0), Tier(10, 120.0), Tier(60, float("inf")))
"""Short tiers, so that windows are merged all the time."""


def record(path: Path) -> None:
    """Records until the process is killed."""
    recording = Recording(path, Bounds(LEAST_BYTES), TIERS)
    newest = recording.newest
    number = 0 if newest is None else round(newest.start - START) + 1
    while True:
        recording.add(second(number, rows=ROWS))
        os.write(1, f"{number}\n".encode())
        recording.tend()
        number += 1


def main() -> None:
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.write(1, f"{os.getpid()}\n".encode())
            record(Path(line.rstrip("\n")))
        os.waitpid(child, 0)
        os.write(1, b"ended\n")


if __name__ == "__main__":
    main()
