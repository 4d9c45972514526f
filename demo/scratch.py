"""Provides folders on a disk. A folder exists while a process runs. If the process fails to remove its
folder, the next process that makes a folder here removes it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stalltop.demo.build import cache_folder

_PREFIX: Final = "scratch-"


class Scratch:
    """A new, empty folder. It is not below /tmp, because /tmp may be in memory, and files in the folder have
    to be read from a disk.

    The folder stays locked while the process that made it runs. So if a folder is not locked, its process was
    killed.
    """

    def __init__(self) -> None:
        base = cache_folder()
        for left in base.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError), _locked(left):
                shutil.rmtree(left, ignore_errors=True)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
            self._lock = contextlib.ExitStack()
            self._lock.enter_context(_locked(self.path))
            # Between mkdtemp and the lock, another process that was starting may have found the folder
            # unlocked, and removed it.
            if self.path.exists():
                break
            self._lock.close()

    def close(self) -> None:
        """Removes the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder. Raises BlockingIOError if another process has locked it, and OSError for other
    failures."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(place)
