"""Deletes shared rows to which no window refers any more, such as rows of processes that were only in windows
that have been dropped."""

from __future__ import annotations

import sqlite3

from stalltop.recordings.file.schema import PARTS, SHARED, WINDOWS


def forget(connection: sqlite3.Connection) -> int:
    """Delete the rows of ``SHARED`` to which nothing refers. Return their number. The caller commits.

    This reads all windows. For a million rows of ``counts``, it takes about a second.
    """
    deleted = 0
    # Rows of a table refer only to rows of tables that precede it in ``SHARED``.
    for table in reversed(SHARED):
        used = [
            f"SELECT {column.name} FROM {other.name} WHERE {column.name} IS NOT NULL"
            for other in (*SHARED, WINDOWS, *PARTS)
            for column in other.columns
            if column.refers == table.name
        ]
        if table.name == "tenants":
            used.append("SELECT json_each.value FROM coverage, json_each(coverage.tenants)")
        if used:
            number = table.key[0]
            # The last row is kept, so that its number is not given to a new row: readers cache rows by
            # number.
            statement = (
                f"DELETE FROM {table.name} WHERE {number} NOT IN ({' UNION '.join(used)})"
                f" AND {number} < (SELECT max({number}) FROM {table.name})"
            )
            deleted += connection.execute(statement).rowcount
    return deleted
