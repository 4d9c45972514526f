"""Closes descriptors of perf events without waiting: another process waits instead. The process that closes
an event last has to wait until the Linux kernel has removed the event.

The Linux kernel removes perf events one after the other, some 0.1 s each. A process cannot even end before
its own events are removed. So a helper process inherits copies of the descriptors, and ends after stalltop
has closed its own descriptors. The helper then waits while it exits. It belongs to no terminal, and outlives
stalltop by as long as the Linux kernel needs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence


class Closer:
    """Closes descriptors without waiting. Keeps only the handles of the helper processes, to collect their
    exit status."""

    def __init__(self) -> None:
        self._helpers: list[subprocess.Popen[bytes]] = []

    def close(self, fds: Sequence[int]) -> None:
        """Closes ``fds``. A helper process waits until the Linux kernel has removed the events."""
        self._helpers = [helper for helper in self._helpers if helper.poll() is None]
        if not fds:
            return
        helper = None
        with contextlib.suppress(OSError):  # If no helper can be started, this process itself waits.
            helper = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=fds,
                start_new_session=True,
            )
        for fd in fds:
            os.close(fd)
        if helper is not None and helper.stdin is not None:
            self._helpers.append(helper)
            helper.stdin.close()  # The helper ends now; it alone still holds the descriptors.


if __name__ == "__main__":
    sys.stdin.buffer.read()
    os._exit(0)
