"""Knows the helper processes of this process, which examine files of other users, read NVML or demangle
names. What they cost is part of what stalltop costs."""

from __future__ import annotations

import subprocess
import threading
import weakref
from typing import Any, Final

_LOCK: Final = threading.Lock()
_STARTED: Final = weakref.WeakSet[subprocess.Popen[Any]]()


def started(helper: subprocess.Popen[Any]) -> None:
    """Notes a helper that was started."""
    with _LOCK:
        _STARTED.add(helper)


def running() -> list[int]:
    """Returns the PIDs of all helpers that were not seen to end: no other process has these PIDs."""
    with _LOCK:
        return [helper.pid for helper in _STARTED if helper.returncode is None]
