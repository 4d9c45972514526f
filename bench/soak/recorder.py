"""Runs stalltop with clocks that can be set: ``python -m bench.soak.recorder FILE BYTES ARGUMENTS…``.

Setting the clock of the host, or suspending it, would disturb everything else on it. So this process alone
sees other clocks: FILE contains two numbers, seconds by which CLOCK_REALTIME and CLOCK_BOOTTIME are ahead.
They are read at the start and at each SIGUSR1.

BYTES is its memory for the past.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Final

NANOSECONDS: Final = 1_000_000_000


class ShiftedClocks:
    """Replaces the clocks of the module ``time`` by clocks that are ahead of them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ahead_ns = {time.CLOCK_REALTIME: 0, time.CLOCK_BOOTTIME: 0}
        self._true = time.clock_gettime_ns
        self.read()
        signal.signal(signal.SIGUSR1, lambda *_: self.read())
        time.clock_gettime_ns = self.ns
        time.clock_gettime = lambda clock: self.ns(clock) / NANOSECONDS
        time.time_ns = lambda: self.ns(time.CLOCK_REALTIME)
        time.time = lambda: self.ns(time.CLOCK_REALTIME) / NANOSECONDS

    def read(self) -> None:
        """Reads from the file how far the clocks are ahead."""
        wall, always = map(float, self._file.read_text().split())
        self._ahead_ns = {
            time.CLOCK_REALTIME: int(wall * NANOSECONDS),
            time.CLOCK_BOOTTIME: int(always * NANOSECONDS),
        }

    def ns(self, clock: int) -> int:
        """Returns what ``clock`` says, ns."""
        return self._true(clock) + self._ahead_ns.get(clock, 0)


def main() -> int:
    """Runs the command and returns its exit code."""
    ShiftedClocks(Path(sys.argv[1]))
    from stalltop.cli import host
    from stalltop.cli.main import main as stalltop

    host.PAST_BYTES = int(sys.argv[2])  # type: ignore[misc]
    sys.argv = ["stalltop", *sys.argv[3:]]
    return stalltop()


if __name__ == "__main__":
    sys.exit(main())
