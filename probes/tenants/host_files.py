"""Finds the host's own files: sockets and state files of runtimes, and names of users.

In a container, the host's files are not below ``/``. A container in the host's PID namespace reaches them
through the host's first process (``/proc/1/root``), without any mount. If a container lacks the privilege for
that, the host's files have to be mounted into it, and the environment variable ``STALLTOP_HOST_ROOT`` has to
contain the path of the mount.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "STALLTOP_HOST_ROOT"
"""Environment variable that names the folder where the host's files are mounted."""
_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
"""Target of ``/proc/self/ns/pid`` in the initial PID namespace (linux/proc_ns.h: PROC_PID_INIT_INO,
0xEFFFFFFC)."""
_MOST_LINKS: Final = 40
"""The maximum number of links that Linux follows in one path."""


def host_files() -> Path:
    """Returns the root of the host's files, as far as this process can see them."""
    told = os.environ.get(VARIABLE, "")
    if told:
        return Path(told)
    through = Path("/proc/1/root")
    try:
        if sees_host_pids():
            first, own = os.stat(through), os.stat("/")
            if (first.st_dev, first.st_ino) != (own.st_dev, own.st_ino):
                return through
    except OSError:
        pass
    return Path("/")


def sees_host_pids() -> bool:
    """Returns whether this process is in the host's PID namespace. Raises OSError if that cannot be
    determined."""
    return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE


def inside(root: Path, path: str) -> Path:
    """Returns ``path`` below ``root``, as the host sees it: a link to an absolute path leads to that path
    below ``root``."""
    if root == Path("/"):
        return root / path
    found: list[str] = []
    left = list(reversed(Path(path).parts))
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            found = found[:-1]
            continue
        try:
            target = os.readlink(root.joinpath(*found, part))
        except (OSError, ValueError):  # This part is not a link, or does not exist.
            found.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            return root / path
        if target.startswith("/"):
            found = []
        left += reversed(Path(target.lstrip("/")).parts)
    return root.joinpath(*found)
