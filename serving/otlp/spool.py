"""A bounded queue on disk: requests that the receiver has not taken yet, also those of earlier runs."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.files.private_file import UnsuitableFileError, read_regular, replace_file

MOST_BYTES: Final = 64 << 20
"""Room for the requests of one signal. At 1,000 series, every 30 s, that is about two hours."""
_SUFFIX: Final = ".otlp.gz"


class KeptRequest(NamedTuple):
    """A request in the queue."""

    path: Path
    size: int


class Spool:
    """The requests of one signal in a folder, one file each, oldest first. Any thread may use it."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        """Takes over what earlier runs left in ``folder``, which need not exist. Raises OSError if it cannot
        be read."""
        self._folder = folder
        self._most = most_bytes
        self._lock = threading.Lock()
        paths = sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []
        self._kept = deque(KeptRequest(path, path.lstat().st_size) for path in paths)
        self._bytes = sum(one.size for one in self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, content: bytes) -> int:
        """Adds a request, and returns how many old ones were removed to make room. Raises OSError if it
        cannot be written."""
        with self._lock:
            last = int(self._kept[-1].path.name.removesuffix(_SUFFIX)) if self._kept else 0
            path = self._folder / f"{max(time.time_ns(), last + 1):020}{_SUFFIX}"
            replace_file(path, content)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}.lock")
            self._kept.append(KeptRequest(path, len(content)))
            self._bytes += len(content)
            removed = 0
            while self._bytes > self._most and len(self._kept) > 1:
                self._remove(self._kept[0])
                removed += 1
            return removed

    def first(self) -> tuple[KeptRequest, bytes] | None:
        """Returns the oldest request; None if there is none."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                one = self._kept[0]
            try:
                content = read_regular(one.path, self._most)
            except (OSError, UnsuitableFileError):
                content = None
            if content:
                return one, content
            self.remove(one)  # somebody else removed or emptied it

    def remove(self, one: KeptRequest) -> None:
        """Removes a request, unless it was removed already."""
        with self._lock:
            if one in self._kept:
                self._remove(one)

    def _remove(self, one: KeptRequest) -> None:
        self._kept.remove(one)
        self._bytes -= one.size
        with contextlib.suppress(OSError):
            one.path.unlink()
