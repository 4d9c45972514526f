"""Paths of saved windows and recordings, in the XDG state directory. The functions create no files or
folders."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.files.owner import home

if TYPE_CHECKING:
    from stalltop.model.window import Window

SUFFIX = ".stalltop"
"""The ending of the names of saved windows and recordings."""


def state_directory() -> Path:
    """Return ``$XDG_STATE_HOME/stalltop``, or ``~/.local/state/stalltop`` if ``XDG_STATE_HOME`` is unset or
    not absolute. If stalltop runs by sudo, ``~`` is the home directory of the user who called sudo."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "stalltop"
    base = home()
    # A user without HOME and without an entry in the user database has no home directory.
    return (Path(base) if os.path.isabs(base) else Path.cwd()) / ".local" / "state" / "stalltop"


def copied_path() -> Path:
    """Return the path of the file with the text that the user copied last: in the user's runtime directory
    (``$XDG_RUNTIME_DIR``), which is empty after a boot, or else in the state directory."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = os.path.isabs(runtime) and os.path.isdir(runtime) and os.stat(runtime).st_uid == os.getuid()
    return (Path(runtime) / "stalltop" if usable else state_directory()) / "copied"


def window_name(window: Window) -> str:
    """Return the name, without ending, of a file for ``window``: the host and the local time at which the
    window ends, such as ``gpu7-20260504-031245``."""
    return f"{_in_a_name(window.host)}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(window.end))}"


def recording_path(host: str | None = None) -> Path:
    """Return the default path of the recording of ``host``; of this host if ``host`` is None."""
    return state_directory() / f"recording-{_in_a_name(host or platform.node())}{SUFFIX}"


def _in_a_name(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", host).strip("._-")[:64] or "host"


def free(path: Path) -> Path:
    """Return ``path`` if no file has this name; else the first free name with a number, such as
    ``name-2.csv``. A name is also taken if the log of a recording with this name exists."""
    found, number = path, 2
    while os.path.lexists(found) or os.path.lexists(f"{found}-wal"):
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return found
