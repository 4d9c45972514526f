"""Folders on a disk for the time that a process runs, removed for certain: if not by it, by the next one."""

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
    """A new folder, empty. Not below /tmp, which may be memory: files in it are read as from a disk.

    It stays locked for as long as its maker runs: what is there unlocked was left by one that was killed.
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
            # Another one that started may have taken it for left between the two steps.
            if self.path.exists():
                break
            self._lock.close()

    def close(self) -> None:
        """Remove it. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises BlockingIOError, an OSError, where another process has it locked."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(place)
