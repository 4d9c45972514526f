"""Runs programs that cause the events of ``probes.host.events``: ``python host_programs.py WHAT …``.

Each program waits for a line on stdin before it begins. At its end it prints the number of bytes that it has
read, written or used.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path


def read_direct(path: str, size: int, times: int) -> int:
    """Read without the page cache; return the number of bytes."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, size)
    whole = os.fstat(file).st_size // size
    return sum(os.preadv(file, [buffer], index % whole * size) for index in range(times))


def write_through(path: str, size: int, times: int) -> int:
    """Write without the page cache; return the number of bytes."""
    file = os.open(path, os.O_WRONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, size)
    buffer.write(b"x" * size)
    return sum(os.pwritev(file, [buffer], index * size) for index in range(times))


def read_cached(path: str, size: int, times: int) -> int:
    """Read the file ``times`` times through the page cache; return the number of bytes."""
    read = 0
    for _ in range(times):
        with open(path, "rb", buffering=0) as file:
            while part := file.read(size):
                read += len(part)
    return read


def use_memory(path: str, size: int, times: int) -> int:
    """Allocate ``times`` pieces of ``size`` bytes of memory; return the number of bytes.

    In a cgroup with a lower memory limit the Linux kernel kills the process before it returns.
    """
    pieces = [b"x" * size for _ in range(times)]
    return sum(map(len, pieces))


WHAT = {
    "read-direct": read_direct,
    "write-through": write_through,
    "read-cached": read_cached,
    "use-memory": use_memory,
}


class HostProgram:
    """Runs the program ``what`` of ``WHAT`` in ``cgroups``; the program begins when ``begin`` is called."""

    def __init__(self, what: str, path: Path, size: int, times: int, cgroups: tuple[Path, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, what, str(path), str(size), str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        for cgroup in cgroups:
            (cgroup / "cgroup.procs").write_text(str(self.pid))

    def __enter__(self) -> HostProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def done(self) -> int:
        """Wait until the program is done and return the number of bytes that it prints."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


if __name__ == "__main__":
    _, what, path, size, times = sys.argv
    sys.stdin.readline()
    print(WHAT[what](path, int(size), int(times)), flush=True)
    sys.stdin.readline()
