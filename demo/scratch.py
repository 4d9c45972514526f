"""Provides folders on a disk that exist while a process runs; if that process fails to remove its folder, the
next process that makes one here does."""

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
    """A new, empty folder. It is not below /tmp, which may be in memory, because files in it have to be read
    from a disk.

    The folder stays locked while the process that made it runs. So an unlocked folder belonged to a process
    that was killed.
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
            # Between mkdtemp and the lock, another process that was starting may have taken the folder for
            # abandoned and removed it.
            if self.path.exists():
                break
            self._lock.close()

    def close(self) -> None:
        """Removes the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder. Raises BlockingIOError, an OSError, if another process has locked it."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(place)
