"""Answers one query on a file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stalltop.model.errors import StalltopError
from stalltop.recordings.file import schema
from stalltop.recordings.query import checking, functions, guard
from stalltop.recordings.query.mistakes import damaged, told
from stalltop.recordings.read.reading import Recorded
from stalltop.recordings.views import catalogue, making, sums
from stalltop.recordings.views.patience import Patience

_VIEWS = {view.name: frozenset(view.names) for view in catalogue.VIEWS}
_TABLES = {table.name: frozenset(table.names) for table in schema.TABLES}

_AT_ONCE: Final = 1000
"""Number of rows that are fetched at a time. If an error occurs while the first rows are fetched, ``answer``
raises it before it returns any row."""

_LESS: Final = "ask for less, with WHERE or without ORDER BY"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    """The rows of the result. They are computed while the caller reads them. Reading may raise StalltopError,
    such as QueryTimeoutError."""
    warnings: tuple[str, ...] = ()
    """Warnings about damage, simulated figures and losses, one line each."""


def answer(recorded: Recorded, sql: str, seconds: float, *, check: bool = False, least: int = 0) -> Answer:
    """Return the result of ``sql`` on ``recorded``. Call this only once for each ``recorded``. With
    ``check``, all windows are first compared with their checksums; otherwise only as many as there is time
    for. ``least`` is for tests: forms below ``views.forms.Form(least)`` are not used. The answer stays the
    same, but calls are read at another speed.

    Raises UsageError if ``sql`` is not a query, or names something that does not exist. Raises StalltopError
    if the query takes more than ``seconds``, or more memory than allowed.
    """
    warnings = checking.damages(recorded, None if check else checking.SECONDS) + checking.missing(recorded)
    return _Question(recorded, sql, seconds, least).answer(warnings)


class _Question:
    def __init__(self, recorded: Recorded, sql: str, seconds: float, least: int) -> None:
        self._connection = recorded.connection
        self._path = recorded.path
        self._least = least
        self._sql = sql.strip().rstrip(";").rstrip()
        self._patience = Patience(seconds)
        self._refused: list[str] = []

    def answer(self, warnings: tuple[str, ...]) -> Answer:
        """Return the answer, with ``warnings`` (see the function ``answer`` of this module)."""
        try:
            guard.confine(self._connection, self._patience)
            self._connection.execute("BEGIN")  # All statements read the same state of the file.
            self._refused = functions.add(self._connection)
            with self._damage_told():
                making.make(self._connection)
            with guard.reading_only(self._connection):
                self._connection.execute(f"EXPLAIN {self._sql}").fetchall()
            cursor = self._run(self._prepared())
            columns = self._columns(cursor)
            first = cursor.fetchmany(_AT_ONCE)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise self._told(error) from None
        if len(first) < _AT_ONCE:
            self._end()
            return Answer(columns, iter(first), warnings)
        return Answer(columns, self._rows(first, cursor), warnings)

    def _prepared(self) -> str:
        """Make the views that the query needs. Return the SQL to run."""
        if not any(name in self._sql.lower() for name in catalogue.EVENTS):
            return self._sql
        from stalltop.recordings.query.rewrite import planned, unread
        from stalltop.recordings.views.alike import unfold
        from stalltop.recordings.views.forms import Form

        plan = planned(self._sql, _columns_of, least=Form(self._least))
        for need in plan.needs:
            if need.form is Form.SUMS:
                known = sums.make(self._connection, need.events, kernels=need.kernels, windows=need.windows)
                if need.longest and not known:
                    plan = planned(self._sql, _columns_of, least=Form(self._least), maxima=False)
                    break
        for _ in range(2):
            for need in plan.needs:
                if need.form is Form.SUMS:
                    sums.make(self._connection, need.events, kernels=need.kernels, windows=need.windows)
                else:
                    with self._damage_told():
                        unfold(self._connection, need, self._patience)
            try:
                with guard.reading_only(self._connection):
                    self._connection.execute(f"EXPLAIN {plan.sql}").fetchall()
                return plan.sql
            except sqlite3.Error:
                plan = unread(self._sql)
        return plan.sql

    def _run(self, sql: str) -> sqlite3.Cursor:
        # The connection stays read-only until ``_end``, because rows are fetched after this method has
        # returned.
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.set_authorizer(guard.authorized)
        return self._connection.execute(sql)

    def _columns(self, cursor: sqlite3.Cursor) -> tuple[str, ...]:
        """Return the names of the columns of the result. They are taken from the query as the user typed it,
        because rewriting it may change names."""
        try:
            typed = self._connection.execute(f"SELECT * FROM (\n{self._sql}\n) LIMIT 0").description
        except sqlite3.Error:
            typed = cursor.description
        return tuple(column[0] for column in typed)

    def _rows(self, rows: Sequence[tuple[Any, ...]], cursor: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
        while rows:
            with self._patience.waiting():
                yield from rows
            try:
                rows = cursor.fetchmany(_AT_ONCE)
            except sqlite3.Error as error:
                raise self._told(error) from None
        self._end()

    def _end(self) -> None:
        """End the transaction. Until it ends, a recorder that writes the file cannot truncate the write-ahead
        log."""
        self._connection.set_authorizer(None)
        self._connection.rollback()

    @contextlib.contextmanager
    def _damage_told(self) -> Iterator[None]:
        """Turn errors about wrong values in the file into StalltopError."""
        try:
            yield
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise damaged(self._path, f"its counts cannot be read ({error})") from None

    def _told(self, error: sqlite3.Error | sqlite3.Warning) -> StalltopError:
        if "interrupted" in str(error):
            if self._patience.too_large:
                return StalltopError("the query needs more room on the disk than it may have", _LESS)
            if self._patience.over:
                return self._patience.error()
            # Ctrl-C was pressed while the progress handler ran. SQLite does not pass on exceptions of this
            # handler.
            raise KeyboardInterrupt
        return told(error, self._sql, self._refused, self._path)


def _columns_of(schema_name: str, table: str) -> Collection[str] | None:
    found: Sequence[dict[str, frozenset[str]]] = {
        "": (_VIEWS, _TABLES),
        "temp": (_VIEWS,),
        "main": (_TABLES,),
    }.get(schema_name, ())
    return next((known[table] for known in found if table in known), None)
