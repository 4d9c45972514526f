"""Finds the process that has a socket with a given inode number, by reading ``/proc/PID/fd``."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from typing import Final

LOOK_SECONDS: Final = 0.005
"""Time limit for the search in one sample, s. If processes have many thousands of files, the search goes on
in the next samples."""
PATIENCE_LOOKS: Final = 10
"""Number of samples after which the search for a socket's owner is given up."""
KEEP_LOOKS: Final = 60
"""Number of samples for which the owner of a socket is remembered after `look` was last called for the
socket. After that, the inode number may belong to another socket."""
_PREFIX: Final = "socket:["


class SocketOwners:
    """Finds the owners of sockets, and remembers them as long as they are needed. Used from one thread."""

    def __init__(self) -> None:
        self._owner: dict[int, int] = {}
        self._asked: dict[int, int] = {}
        """By socket: the last sample in which `look` was called for it, or the sample in which its owner was
        found."""
        self._looks = 0
        self._wanted: dict[int, int] = {}
        """By socket whose owner is not known: the number of samples in which the owner was searched for."""
        self._next: list[int] = []
        """Processes that are still to be searched."""

    @property
    def wanted(self) -> Collection[int]:
        """Returns the sockets whose owners are still searched for."""
        return self._wanted.keys()

    def look(self, inodes: Collection[int], pids: Collection[int]) -> dict[int, int]:
        """Returns the owners that are known of the sockets ``inodes``. Searches only the processes ``pids``.

        If several processes have a socket (after a fork), the process that is found first is its owner.
        """
        self._looks += 1
        for inode in inodes:
            if inode and inode not in self._owner:
                self._wanted.setdefault(inode, 0)
        self._owner = {
            inode: pid
            for inode, pid in self._owner.items()
            if pid in pids and (inode in inodes or self._looks - self._asked[inode] < KEEP_LOOKS)
        }
        if self._wanted:
            self._search(pids)
        for inode in inodes:
            if inode in self._owner:
                self._asked[inode] = self._looks
        self._asked = {inode: self._asked.get(inode, self._looks) for inode in self._owner}
        return {inode: self._owner[inode] for inode in inodes if inode in self._owner}

    def _search(self, pids: Iterable[int]) -> None:
        end = time.monotonic() + LOOK_SECONDS
        if not self._next:
            self._next = list(pids)
        while self._next and self._wanted and time.monotonic() < end:
            self._search_in(self._next.pop())
        self._wanted = {
            inode: looks + 1 for inode, looks in self._wanted.items() if looks + 1 < PATIENCE_LOOKS
        }

    def _search_in(self, pid: int) -> None:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            return
        for name in names:
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:
                continue
            if target.startswith(_PREFIX):
                inode = int(target[len(_PREFIX) : -1])
                if self._wanted.pop(inode, None) is not None:
                    self._owner[inode] = pid
