"""Paths of saved windows and recordings, in the XDG state directory. Asking for a path creates nothing."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

from stalltop.model.window import Window

SUFFIX = ".stalltop"
"""The ending of the names of saved windows and recordings."""


def state_directory() -> Path:
    """Return ``$XDG_STATE_HOME/stalltop``, or ``~/.local/state/stalltop`` if that is unset or not
    absolute."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "stalltop"
    home = os.path.expanduser("~")
    # A user without HOME and without an entry in the user database has no home directory.
    base = Path(home) if os.path.isabs(home) else Path.cwd()
    return base / ".local" / "state" / "stalltop"


def window_name(window: Window) -> str:
    """Return the name, without ending, of a file of ``window``: host and local time of its end, such as
    ``gpu7-20260504-031245``."""
    return f"{_in_a_name(window.host)}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(window.end))}"


def recording_path(host: str | None = None) -> Path:
    """Return the default path of the recording of ``host``, or of this host if None."""
    return state_directory() / f"recording-{_in_a_name(host or platform.node())}{SUFFIX}"


def _in_a_name(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", host).strip("._-")[:64] or "host"


def free(path: Path) -> Path:
    """Return ``path`` if it is free, else the first free name with a number: ``name-2.csv``. A name is not
    free while the log of a recording has it."""
    found, number = path, 2
    while os.path.lexists(found) or os.path.lexists(f"{found}-wal"):
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return found
