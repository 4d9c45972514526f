"""Where saved windows go: the XDG state directory. Asking for a path creates nothing."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

from stalltop.model.window import Window

SUFFIX = ".stalltop"
"""File name ending of saved windows."""


def state_directory() -> Path:
    """``$XDG_STATE_HOME/stalltop``, or ``~/.local/state/stalltop`` where that is unset or not absolute."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "stalltop"
    home = os.path.expanduser("~")
    # Without HOME and without an entry in the user database nothing better is known.
    base = Path(home) if os.path.isabs(home) else Path.cwd()
    return base / ".local" / "state" / "stalltop"


def window_name(window: Window) -> str:
    """What files of ``window`` are called, by host and local time: ``gpu7-20260504-031245``."""
    return f"{_in_a_name(window.host)}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(window.end))}"


def recording_path(host: str | None = None) -> Path:
    """Where ``host``, or this one, is recorded to where nothing else is said: hosts may share a home."""
    return state_directory() / f"recording-{_in_a_name(host or platform.node())}{SUFFIX}"


def _in_a_name(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", host).strip("._-")[:64] or "host"


def free(path: Path) -> Path:
    """``path``, or where that exists the first of its name with a number behind: ``name-2.csv``. A name that
    a recording's log still has is not free."""
    found, number = path, 2
    while os.path.lexists(found) or os.path.lexists(f"{found}-wal"):
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return found
