"""Prevents two threads from reading maps at the same time, and any thread from reading closed maps."""

from __future__ import annotations

import threading
from types import TracebackType


class MapAccess:
    """A lock for maps. ``with access as is_open`` holds it; ``is_open`` is False once the maps are closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_open = True
        """Whether the maps are open."""

    def __enter__(self) -> bool:
        self._lock.acquire()
        return self.is_open

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def end(self) -> None:
        """Records that the maps are closed. The caller has to hold the lock."""
        self.is_open = False
