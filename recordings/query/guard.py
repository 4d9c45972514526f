"""What a query may do: read, for some seconds, with some memory and some of the disk. Nothing else."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from typing import Final

from stalltop.model.errors import StalltopError

MOST_MEMORY: Final = 512 << 20
"""Bytes that SQLite may take, in this process."""
MOST_TEMPORARY: Final = 2 << 30
"""Bytes of the disk that SQLite may take for what it sorts, and for tables that are made for a query."""
LOOK_SECONDS: Final = 0.2
"""Between two looks at what it takes of the disk."""
_TEMPORARY: Final = "/etilqs_"
"""The names of its temporary files begin with this; they are removed as soon as they are there."""
_BLOCK: Final = 512
"""Bytes: what st_blocks counts."""
_STEPS: Final = 20_000
"""Steps of SQLite's machine between two looks at the clock."""
_FORBIDDEN: Final = frozenset({"load_extension", "fts3_tokenizer"})
"""Functions that do more than work something out."""
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})


class QueryTimeoutError(StalltopError):
    """The time that a query may take is over."""


class Patience:
    """How long a query may take. The time of whoever takes its rows does not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._look_at = 0.0
        self.too_large = False
        """Whether it took more of the disk than it may."""

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._until

    @property
    def ended(self) -> bool:
        """Whether it has to stop."""
        now = time.monotonic()
        if now >= self._look_at:
            self.too_large = _temporary_bytes() > MOST_TEMPORARY
            self._look_at = now + LOOK_SECONDS
        return self.too_large or now > self._until

    def check(self) -> None:
        """Raise QueryTimeoutError where the time is over."""
        if self.over:
            raise self.error()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Something that takes no time of the query."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._until += time.monotonic() - began

    def error(self) -> QueryTimeoutError:
        """What is told then."""
        return QueryTimeoutError(
            f"the query took more than {self._seconds:g} s and was stopped",
            "ask for less, with WHERE on window_start for example, or allow more: --limit-seconds N",
        )


def _temporary_bytes() -> int:
    """What temporary files of SQLite take in this process."""
    found = 0
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if _TEMPORARY in os.readlink(f"/proc/self/fd/{number}"):
                    found += os.stat(f"/proc/self/fd/{number}").st_blocks * _BLOCK
    return found


def confine(connection: sqlite3.Connection, patience: Patience) -> None:
    """Bound the time, the memory and the disk of everything that ``connection`` does from now on."""
    connection.execute(f"PRAGMA hard_heap_limit = {MOST_MEMORY}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.set_progress_handler(lambda: int(patience.ended), _STEPS)


@contextlib.contextmanager
def reading_only(connection: sqlite3.Connection) -> Iterator[None]:
    """Refuse everything but reading: no PRAGMA, no ATTACH, no temporary tables either."""
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(authorized)
    try:
        yield
    finally:
        connection.set_authorizer(None)
        connection.execute("PRAGMA query_only = OFF")


def authorized(action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
    """SQLite's question whether a statement may do something."""
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
