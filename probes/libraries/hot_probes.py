"""Removes and attaches probes of hot functions, file by file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from stalltop.probes.budget.reduced import HotFunction
from stalltop.probes.libraries.probed_file import Attach, ProbedFile, close_together


class HotProbes:
    """The probes of hot functions (``probes/budget/hot.py``) of all probed files. ``files`` returns these
    files; ``lock`` protects them."""

    def __init__(self, lock: threading.Lock, files: Callable[[], Iterable[ProbedFile]]) -> None:
        self._lock = lock
        self._files = files
        self._known: set[ProbedFile] = set()

    def functions(self) -> list[HotFunction]:
        """Returns the functions of all probed files that have probes of their own, in place or not.

        Never waits: while files are being probed, returns those of the files that were known before.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._known = set(self._files())
            finally:
                self._lock.release()
        return [
            HotFunction(file, symbol) for file in self._known if file.probed for symbol in file.hot_symbols()
        ]

    def attach(self, functions: Iterable[HotFunction]) -> None:
        """Puts the probes of ``functions`` in place again. Skips those whose file is no longer probed."""
        with self._lock:
            files = set(self._files())
            for function in functions:
                if isinstance(function.file, ProbedFile) and function.file in files and function.file.probed:
                    function.file.attach(function.symbol)

    def detach(self, functions: Iterable[HotFunction]) -> None:
        """Removes the probes of ``functions``, all together. Calls of them that have begun may lack their
        returns."""
        with self._lock:
            taken = [
                function.file.take(function.symbol)
                for function in functions
                if isinstance(function.file, ProbedFile)
            ]
        close_together([probes for probes in taken if probes is not None])

    def exchange(
        self, functions: Iterable[HotFunction], attach: Attach | None = None
    ) -> tuple[HotFunction, ...]:
        """Replaces the probes of ``functions`` by those of ``attach``; None: by the usual ones. Returns the
        functions for which that worked. For some 0.1 s, probes of both kinds are in place."""
        with self._lock:
            taken = {
                function: before
                for function in functions
                if isinstance(function.file, ProbedFile)
                if (before := function.file.exchange(function.symbol, attach)) is not None
            }
        close_together([*taken.values()])
        return tuple(taken)

    def cookies(self, functions: Iterable[HotFunction]) -> set[int]:
        """Returns the ids of ``functions``, with all variants (``Function.id``)."""
        return {
            cookie
            for function in functions
            if isinstance(function.file, ProbedFile)
            for cookie in function.file.hot_cookies(function.symbol)
        }
