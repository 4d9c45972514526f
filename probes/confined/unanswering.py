"""Remembers which file systems did not answer, so that they are not asked again and again.

Each question that gets no answer delays all others (``confined.link.PATIENCE_SECONDS``), and may leave a
process behind that cannot be killed. So a file system that did not answer is left alone for a time, and so is
an owner of processes whose file systems often do not answer: a user can mount many.
"""

from __future__ import annotations

import os
import time
from typing import Final, NamedTuple

from stalltop.probes.confined.link import NoAnswerError

ALONE_SECONDS: Final = 20.0
"""Time for which a file system that did not answer is not asked, s; longer if a process still hangs in it."""
MOST_OF_OWNER: Final = 2
"""Number of file systems and processes of one owner that may be left alone. Then all new files of that owner
are left alone, too."""
_MOST_CGROUP_BYTES: Final = 4096


class _Alone(NamedTuple):
    """A file system, or a process, that is left alone."""

    owner: str
    until: float
    error: NoAnswerError


class Unanswering:
    """The file systems and processes that are left alone. Used from one thread."""

    def __init__(self) -> None:
        self._alone: dict[tuple[str, int | None], _Alone] = {}
        """By device number (`Mapping.device`) or PID."""
        self._owners: set[str] = set()
        """Owners whose new files are left alone."""

    @property
    def error(self) -> NoAnswerError:
        """Returns the error for files that are left alone."""
        return next(alone.error for alone in self._alone.values())

    def begin(self) -> None:
        """Begins an update: forgets what may be asked again."""
        if not self._alone:
            return
        now = time.monotonic()
        for what, alone in [*self._alone.items()]:
            if now >= alone.until and not alone.error.still_hangs():
                del self._alone[what]
        self._count()

    def note(self, pid: int, device: int | None, error: NoAnswerError) -> None:
        """Leaves a file system alone, or, if ``device`` is None, the process ``pid``."""
        what = ("process", pid) if device is None else ("device", device)
        self._alone[what] = _Alone(owner_of(pid), time.monotonic() + ALONE_SECONDS, error)
        self._count()

    def holds(self, pid: int, device: int | None) -> bool:
        """Returns whether the file system ``device`` is left alone, or else all files of process ``pid``."""
        if not self._alone:
            return False
        if ("process", pid) in self._alone or ("device", device) in self._alone:
            return True
        return bool(self._owners) and owner_of(pid) in self._owners

    def _count(self) -> None:
        owners = [alone.owner for alone in self._alone.values()]
        self._owners = {owner for owner in owners if owners.count(owner) >= MOST_OF_OWNER}


def owner_of(pid: int) -> str:
    """Returns who is responsible for a process: its user or, for processes of root, their cgroup, because
    root runs most containers; '' if the process is gone."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        if uid:
            return f"user {uid}"
        with open(f"/proc/{pid}/cgroup", "rb", buffering=0) as file:
            return file.read(_MOST_CGROUP_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
