"""Work beside the screen, one piece at a time: of what waits, only the newest is ever done."""

from __future__ import annotations

import threading
from collections.abc import Callable

Work = Callable[[Callable[[], bool]], None]
"""Gets a function that says whether something newer waits: what is worth nothing then may end early."""


class Latest:
    """Runs what it is asked for in a daemon thread of its own: a held key asks faster than anything is done,
    and only where it ends counts."""

    def __init__(self, name: str, failed: Callable[[Exception], object]) -> None:
        """``failed`` gets, in that thread, what a piece of work raised."""
        self._name = name
        self._failed = failed
        self._lock = threading.Lock()
        self._waiting: Work | None = None
        self._running = False

    def ask(self, work: Work) -> None:
        """Do ``work`` next, in place of what waited."""
        with self._lock:
            self._waiting = work
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _stale(self) -> bool:
        return self._waiting is not None

    def _run(self) -> None:
        while True:
            with self._lock:
                work, self._waiting = self._waiting, None
                if work is None:
                    self._running = False
                    return
            try:
                work(self._stale)
            except Exception as error:
                self._failed(error)
