"""Runs calls that may hang, such as a call of a driver or a read of a file on a server that is down. They run
on a thread of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class _Job:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.done = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.result = self.work()
        except Exception as error:  # Re-raised in the caller, if it still waits.
            self.error = error
        self.done.set()


class Aside:
    """Runs one call at a time on its own thread. The caller sets the maximum time that it waits for the
    result.

    The thread is a daemon: a call that never returns does not keep the program from ending.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._current: _Job | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        """Returns whether an earlier call is still running. Until that call has returned, no new call is
        made."""
        return self._current is not None and not self._current.done.is_set()

    def call(self, work: Callable[[], T], patience_seconds: float) -> T | None:
        """Runs ``work`` and returns its result. Returns None if ``work`` takes too long, if an earlier call
        is still running, or after `close`.

        Exceptions of ``work`` are raised again. A late result is dropped; if the caller needs it later,
        ``work`` itself must store it.
        """
        if self._closed or self.busy:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        job = _Job(work)
        self._current = job
        self._jobs.put(job)
        if not job.done.wait(patience_seconds):
            return None
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def wait(self, patience_seconds: float) -> bool:
        """Waits for an earlier call that is still running; returns whether it has returned."""
        return self._current is None or self._current.done.wait(patience_seconds)

    def close(self) -> None:
        """Lets the thread end after its current call. Does not wait. May be called twice."""
        self._closed = True
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
