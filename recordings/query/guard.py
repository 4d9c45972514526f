"""Limits what a query may do: it may only read, within limits of time, memory and disk space."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Final

from stalltop.recordings.views.patience import Patience

MOST_MEMORY: Final = 512 << 20
"""Memory limit of SQLite in this process, bytes."""
_STEPS: Final = 20_000
"""Number of instructions of SQLite's virtual machine between two checks of the limits."""
_FORBIDDEN: Final = frozenset({"load_extension", "fts3_tokenizer"})
"""SQL functions that do more than return a result."""
_ALLOWED: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})


def confine(connection: sqlite3.Connection, patience: Patience) -> None:
    """Limit time, memory and disk space of all statements that ``connection`` runs from now on."""
    connection.execute(f"PRAGMA hard_heap_limit = {MOST_MEMORY}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.set_progress_handler(lambda: int(patience.ended), _STEPS)


@contextlib.contextmanager
def reading_only(connection: sqlite3.Connection) -> Iterator[None]:
    """In the block, refuse all statements except SELECT: no PRAGMA, no ATTACH, no temporary tables."""
    connection.execute("PRAGMA query_only = ON")
    connection.set_authorizer(authorized)
    try:
        yield
    finally:
        connection.set_authorizer(None)
        connection.execute("PRAGMA query_only = OFF")


def authorized(action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
    """Return SQLITE_OK if a statement may do ``action``; otherwise SQLITE_DENY. SQLite calls this function
    while it compiles a statement (sqlite3_set_authorizer)."""
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
