"""Builds a fake host in a directory, with only those files of /proc, cgroups and runtimes that stalltop
reads."""

from __future__ import annotations

import json
from pathlib import Path

CGROUPS = "sys/fs/cgroup"
MOUNTS = {
    "unified": "31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    "hybrid": (
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    ),
    "legacy": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "none": "22 27 0:21 / /proc rw - proc proc rw\n",
}


class FakeHost:
    """Writes the files of a host below ``root``; a directory's inode number serves as its cgroup id."""

    def __init__(self, root: Path, layout: str = "unified") -> None:
        self.root = root
        self.point = root / CGROUPS / ("unified" if layout == "hybrid" else "")
        self.point.mkdir(parents=True, exist_ok=True)
        self.write("proc/self/mountinfo", MOUNTS[layout])

    def write(self, path: str, content: str | bytes | dict[str, object] | list[object]) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, (dict, list)):
            content = json.dumps(content)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def cgroup(self, path: str) -> int:
        """Creates the v2 cgroup ``path`` and returns its id."""
        directory = self.point / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        return directory.stat().st_ino

    def process(
        self, pid: int, lines: str | None = None, *, comm: str = "python", uid: int = 0, start: int = 100
    ) -> None:
        """Adds a process with ``lines`` in ``/proc/PID/cgroup``; a path alone becomes a line of cgroup v2."""
        lines = lines if lines is not None else "/"
        self.write(f"proc/{pid}/cgroup", f"0::{lines}\n" if ":" not in lines else lines)
        self.write(f"proc/{pid}/comm", comm + "\n")
        self.write(f"proc/{pid}/status", f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        self.write(f"proc/{pid}/stat", f"{pid} ({comm}) S {' '.join(['0'] * 18)} {start} 0 0\n")

    def end(self, pid: int) -> None:
        """Removes the process."""
        directory = self.root / f"proc/{pid}"
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()
