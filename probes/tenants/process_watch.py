"""Reports when processes have ended, and never confuses a process with a later process that has the same
PID."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterable


class ProcessWatch:
    """Watches processes by pidfds. A pidfd refers to one process, and becomes readable when that process has
    ended."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._pid_of: dict[int, int] = {}
        self._fd_of: dict[int, int] = {}
        self._ended: set[int] = set()

    def watch(self, pids: Iterable[int]) -> None:
        """Watches these PIDs from now on. If one of these processes has already ended, the next ``ended``
        returns it."""
        for pid in set(pids) - self._fd_of.keys() - self._ended:
            try:
                fd = os.pidfd_open(pid)
            except OSError as error:
                # If descriptors run out, nothing is reported and the next call tries again.
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    self._ended.add(pid)
                continue
            self._fd_of[pid] = fd
            self._pid_of[fd] = pid
            self._poll.register(fd, select.POLLIN)

    def ended(self) -> set[int]:
        """Returns the watched processes that have ended since the previous call, and stops watching them."""
        gone, self._ended = self._ended, set()
        for fd, _ in self._poll.poll(0):
            pid = self._pid_of.pop(fd)
            del self._fd_of[pid]
            self._poll.unregister(fd)
            os.close(fd)
            gone.add(pid)
        return gone

    def close(self) -> None:
        """Closes all descriptors. May be called twice."""
        for fd in self._pid_of:
            os.close(fd)
        self._pid_of.clear()
        self._fd_of.clear()


def is_alive(pid: int) -> bool:
    """Returns whether a process with this PID runs now; False for a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        state, threads = fields[0], int(fields[17])
    except (OSError, IndexError):
        return False
    # If only the first thread of a process has ended, the process looks like a zombie, but has other threads.
    return state not in (b"Z", b"X") or threads > 1
