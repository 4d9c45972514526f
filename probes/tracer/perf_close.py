"""Closes descriptors in another process: whoever closes a perf event last waits for the kernel to remove it.

The kernel removes them one after the other, some 0.1 s each, and a process cannot even end before its own
are gone. So a helper process inherits copies and ends when ours are closed: the waiting is its own, in its
last moment. It belongs to no terminal and outlives the program by as long as the kernel needs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence


class Closer:
    """Closes descriptors without waiting. Keeps no more than the helpers' handles, to collect their end."""

    def __init__(self) -> None:
        self._helpers: list[subprocess.Popen[bytes]] = []

    def close(self, fds: Sequence[int]) -> None:
        """Close ``fds``, and let a helper process wait for what that takes the kernel."""
        self._helpers = [helper for helper in self._helpers if helper.poll() is None]
        if not fds:
            return
        helper = None
        with contextlib.suppress(OSError):  # no helper: then the waiting is ours
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
            helper.stdin.close()  # the helper's sign that it is the last to hold them


if __name__ == "__main__":
    sys.stdin.buffer.read()
    os._exit(0)
