"""Limits what a query may do: it only reads, within limits of time, memory and disk space."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from typing import Final

from stalltop.model.errors import StalltopError

MOST_MEMORY: Final = 512 << 20
"""Memory limit of SQLite in this process, bytes."""
MOST_TEMPORARY: Final = 2 << 30
"""Limit of SQLite's temporary files, bytes: sorting, and temporary tables."""
LOOK_SECONDS: Final = 0.2
"""Seconds between two checks of the size of temporary files."""
_TEMPORARY: Final = "/etilqs_"
"""Beginning of the names of SQLite's temporary files, which it unlinks when it has opened them."""
_BLOCK: Final = 512
"""Bytes of a block in ``st_blocks``: stat(2)."""
_STEPS: Final = 20_000
"""Instructions of SQLite's virtual machine between two checks of the limits."""
_FORBIDDEN: Final = frozenset({"load_extension", "fts3_tokenizer"})
"""SQL functions with effects besides their result."""
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})


class QueryTimeoutError(StalltopError):
    """A query exceeded its time limit."""


class Patience:
    """The limits of time and disk space of a query. Time that the caller spends on rows it has received does
    not count."""

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
        """Extend the time limit by the duration of the block."""
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


def confine(connection: sqlite3.Connection, patience: Patience) -> None:
    """Limit time, memory and disk space of all further statements of ``connection``."""
    connection.execute(f"PRAGMA hard_heap_limit = {MOST_MEMORY}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.set_progress_handler(lambda: int(patience.ended), _STEPS)


@contextlib.contextmanager
def reading_only(connection: sqlite3.Connection) -> Iterator[None]:
    """Refuse all statements but SELECT in the block: no PRAGMA, no ATTACH, no temporary tables."""
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(authorized)
    try:
        yield
    finally:
        connection.set_authorizer(None)
        connection.execute("PRAGMA query_only = OFF")


def authorized(action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
    """Return whether a statement may do ``action``: SQLite calls this (sqlite3_set_authorizer)."""
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
