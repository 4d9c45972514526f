"""Runs work in the background, one piece at a time. Of the pieces that wait, only the newest is run."""

from __future__ import annotations

import threading
from collections.abc import Callable

Work = Callable[[Callable[[], bool]], None]
"""A piece of work. It is called with a function that returns True as soon as newer work waits; the piece of
work may then end early."""


class Latest:
    """Runs work in a daemon thread. A key that is held down requests work faster than it is done, and only
    the last result matters."""

    def __init__(self, name: str, failed: Callable[[Exception], object]) -> None:
        """``failed`` is called in the thread of the work, with the error that a piece of work raised."""
        self._name = name
        self._failed = failed
        self._lock = threading.Lock()
        self._waiting: Work | None = None
        self._running = False

    def ask(self, work: Work) -> None:
        """Run ``work`` after the work that is running. If other work waits already, drop that."""
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
