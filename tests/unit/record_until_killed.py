"""Records in processes that are forked from this one, for tests that kill them: it reads lines on stdin.

``FILE`` forks one that records to FILE, as quickly as it can, going on with what is there. It prints its
process id, then the number of each window once it is written; when it has ended, ``ended``.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from stalltop.recordings.write.bounds import LEAST_BYTES, Bounds
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.thinning import Tier
from tests.unit.recorded_windows import START, second

ROWS = 20
TIERS = (Tier(0, 20.0), Tier(10, 120.0), Tier(60, float("inf")))
"""Short, so that windows are put together at all times."""


def record(path: Path) -> None:
    """Record until killed."""
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
