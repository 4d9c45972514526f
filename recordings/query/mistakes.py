"""Translates errors of SQLite about a query into messages for a person. If a name is unknown, the message
lists similar names that exist."""

from __future__ import annotations

import difflib
import re
import shlex
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from stalltop.model.errors import StalltopError, UsageError
from stalltop.recordings.file import schema
from stalltop.recordings.query import functions
from stalltop.recordings.views import catalogue

_COLUMNS = {view.name: view.names for view in catalogue.VIEWS}
_BUILT_IN = (
    *(
        "abs",
        "avg",
        "coalesce",
        "count",
        "datetime",
        "group_concat",
        "iif",
        "ifnull",
        "json_extract",
        "length",
    ),
    *("lower", "max", "min", "printf", "replace", "round", "strftime", "substr", "sum", "total", "upper"),
)
_USAGE = (
    "percentiles: p(histogram, 99), p99(histogram), p(hmerge(histogram), 99); max_ns may follow as a limit"
)
_READ_ONLY = "one SELECT, or WITH … SELECT: a query only reads"
_STATEMENTS = re.compile(
    "alter|analyze|attach|begin|commit|create|delete|detach|drop|end|insert|pragma|reindex|release|replace"
    "|rollback|savepoint|update|vacuum"
)
"""First words of statements that do more than read."""


def damaged(path: Path, why: str) -> StalltopError:
    """Return the error for a query on a damaged file."""
    return StalltopError(
        f"{path} is damaged: {why}",
        f"copy its readable windows, and query the copy: stalltop merge {shlex.quote(str(path))} --to NEW",
    )


def told(
    error: sqlite3.Error | sqlite3.Warning, sql: str, refused: Sequence[str], path: Path
) -> StalltopError:
    """Return the error to report for ``error``, which SQLite raised when it ran ``sql`` on the file ``path``.
    ``refused`` is the list that ``functions.add`` returned."""
    text = str(error)
    if refused:
        return UsageError(refused[0], 'histograms are in the column "histogram" of the table "operations"')
    begins = _first_word(sql)
    if _STATEMENTS.fullmatch(begins):
        return UsageError("the statement does more than read", _READ_ONLY)
    if begins == "explain":
        return UsageError("EXPLAIN is not supported: SQLite runs a rewritten query", _READ_ONLY)
    kind, _, name = text.partition(": ")
    if kind == "no such table":
        known = [*_COLUMNS, *(table.name for table in schema.TABLES)]
        return UsageError(f"there is no table {_shown(name)}", _like(name, known, "tables", list(_COLUMNS)))
    if kind == "no such column":
        return UsageError(f"there is no column {_shown(name)}", _column(name, sql))
    match = re.fullmatch(r"wrong number of arguments to function (\w+)\(\)", text)
    if match and (called := match[1].lower()) in functions.NAMES:
        return UsageError(f"wrong number of arguments for {called}()", _USAGE)
    if kind == "no such function":
        known = [*functions.NAMES, *_BUILT_IN]
        return UsageError(f"there is no function {_shown(name)}", _like(name, known, "functions", known))
    if "not authorized" in text or "prohibited" in text or "readonly" in text or "cannot modify" in text:
        return UsageError("the statement does more than read", _READ_ONLY)
    if "one statement" in text:
        return UsageError("only one statement at a time", _READ_ONLY)
    if "bindings" in text:
        return UsageError("a query has no parameters: write the value in the place of ? or :name")
    if isinstance(error, sqlite3.DataError) or "too big" in text or "out of memory" in text:
        return StalltopError("the answer needs more memory than a query may have", "ask for less at once")
    if re.search(r"malformed|not a database|disk I/O|corrupt", text):
        return damaged(path, text)
    if match := re.fullmatch(r'near "(.*)": syntax error', text, re.DOTALL):
        return UsageError(f"this is no SQL that SQLite knows, near {_shown(match[1])}{_place(match[1], sql)}")
    if "incomplete input" in text:
        return UsageError("the query ends too early" if sql.strip() else "there is no query", _READ_ONLY)
    return UsageError(f"SQLite cannot run this: {text}")


def _first_word(sql: str) -> str:
    """Return the first word of ``sql`` in lower case, after any comments."""
    found = re.match(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*(\w*)", sql, re.DOTALL)
    return found[1].lower() if found else ""


def _shown(name: str) -> str:
    return f'"{name}"'


def _place(token: str, sql: str) -> str:
    """Return a text such as ``, line 3`` that names the line of ``sql`` in which ``token`` is. Return '' if
    ``token`` occurs more than once, or if ``sql`` has only one line."""
    if not token or sql.count(token) != 1 or "\n" not in sql:
        return ""
    return f", line {sql[: sql.index(token)].count(chr(10)) + 1}"


def _column(name: str, sql: str) -> str:
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    used = [view for view in _COLUMNS if view in words]
    known = list(dict.fromkeys(column for view in used for column in _COLUMNS[view]))
    which = " and ".join(used)
    what = f"columns of {which}" if which else "columns"
    advice = _like(name.rpartition(".")[2], known, what, known)
    if used and not advice.startswith(what):
        advice += f"\n  {what}: {', '.join(known)}"
    return advice


def _like(name: str, known: Sequence[str], what: str, all_: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), sorted(set(known)), 3, 0.5)
    close = close or [one for one in known if name.lower() in one.split("_")][:3]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"{what}: {', '.join(all_)}" if all_ else ""
