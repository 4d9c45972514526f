"""Where the host's own files are: sockets and state files of runtimes, names of users.

Seen from a container they are not below ``/``. A container in the host's PID namespace reaches them through
the host's first process, with nothing mounted; one that may not look there has them mounted somewhere, and is
told where.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "STALLTOP_HOST_ROOT"
"""The environment variable that says where they are."""
_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
"""linux/proc_ns.h: PROC_PID_INIT_INO, 0xEFFFFFFC."""
_MOST_LINKS: Final = 40
"""As many as Linux follows in one path."""


def host_files() -> Path:
    """The root of the host's files, as far as this process can see them."""
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
    """Whether process ids are the host's here. Raises OSError where that cannot be told."""
    return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE


def inside(root: Path, path: str) -> Path:
    """``path`` below ``root``, as the host sees it: links that lead to absolute paths stay below ``root``."""
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
        except (OSError, ValueError):  # no link, or not there
            found.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            return root / path
        if target.startswith("/"):
            found = []
        left += reversed(Path(target.lstrip("/")).parts)
    return root.joinpath(*found)
