"""The limits of time and disk space for one query."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Final

from stalltop.model.errors import StalltopError

MOST_TEMPORARY: Final = 2 << 30
"""Limit for SQLite's temporary files, in bytes. SQLite uses them for sorting, and for temporary tables."""
LOOK_SECONDS: Final = 0.2
"""Seconds between two checks of the size of temporary files."""
_TEMPORARY: Final = "/etilqs_"
"""Beginning of the names of SQLite's temporary files. SQLite unlinks each file as soon as it has opened
it."""
_BLOCK: Final = 512
"""Size in bytes of a block of ``st_blocks`` (stat(2))."""


class QueryTimeoutError(StalltopError):
    """A query exceeded its time limit."""


class Patience:
    """The limits of time and disk space for a query. The time that the caller spends on rows that it has
    received does not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._look_at = 0.0
        self.too_large = False
        """Whether temporary files exceeded their limit."""

    @property
    def over(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self._until

    @property
    def ended(self) -> bool:
        """Whether the query has exceeded a limit and has to stop."""
        now = time.monotonic()
        if now >= self._look_at:
            self.too_large = _temporary_bytes() > MOST_TEMPORARY
            self._look_at = now + LOOK_SECONDS
        return self.too_large or now > self._until

    def check(self) -> None:
        """Raise QueryTimeoutError if the time limit has passed."""
        if self.over:
            raise self.error()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Extend the time limit by the time that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._until += time.monotonic() - began

    def error(self) -> QueryTimeoutError:
        """Return the error for a query that exceeded its time limit."""
        return QueryTimeoutError(
            f"the query took more than {self._seconds:g} s and was stopped",
            "ask for less, with WHERE on window_start for example, or allow more: --limit-seconds N",
        )


def _temporary_bytes() -> int:
    """Return the size of SQLite's temporary files in this process, bytes."""
    found = 0
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if _TEMPORARY in os.readlink(f"/proc/self/fd/{number}"):
                    found += os.stat(f"/proc/self/fd/{number}").st_blocks * _BLOCK
    return found
