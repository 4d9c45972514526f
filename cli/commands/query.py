"""Query a saved window or a recording in SQL. The file is never written; time and memory of a query are
limited.

The tables cuda_events, nccl_events and host_events have a row for every call that was made. Most rows are
computed from stored counts; rows with kept = 1 are captured calls. See docs/sql.md.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stalltop.cli.fleet.given import host_named
from stalltop.cli.tracing import number, say
from stalltop.model.errors import UsageError
from stalltop.model.text.clean import clean

if TYPE_CHECKING:
    from stalltop.fleet.connection import ServerAccess
    from stalltop.model.fleet.host_summary import HostAddress

_MOST_SQL = 1 << 20
"""Maximum length of a query that is read from stdin, in characters."""
FORMATS = ("table", "json", "jsonl", "csv")
"""Output formats."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a saved window or a recording")
    parser.add_argument(
        "sql",
        nargs="?",
        metavar="SQL",
        help="one SELECT statement; - reads it from stdin (default in a pipe)",
    )
    parser.add_argument("--named", metavar="NAME", help="run a predefined query (see --list)")
    parser.add_argument("--list", action="store_true", help="list the predefined queries")
    parser.add_argument("--tables", action="store_true", help="list the tables and their columns")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="output format; jsonl: one JSON object per line (default: %(default)s)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="verify the checksums of all windows first, even if that takes long",
    )
    parser.add_argument(
        "--limit-seconds",
        type=number(float, 0.01, 86400),
        default=10.0,
        metavar="N",
        help="stop a query that takes longer (default: %(default)g)",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the result of the query; returns 1 if it exceeds its limits, 2 if it is invalid."""
    from stalltop.recordings.query import ready

    if options.list:
        _print_table(
            options, ("query", "description"), [(name, one.about) for name, one in ready.queries().items()]
        )
        return 0
    if options.tables:
        return _print_tables(options)
    if options.file is None:
        raise UsageError("no file given", "usage: stalltop query FILE SQL; --list and --tables need no file")
    if options.named is not None and options.sql is not None:
        raise UsageError("SQL and --named cannot be combined", "use one of them")
    sql = ready.query(options.named) if options.named is not None else _typed(options.sql)
    if (named := host_named(str(options.file))) is not None:
        return _host_answers(options, *named, sql)
    from stalltop.recordings.query.ask import answer
    from stalltop.recordings.read.reading import open_file

    with open_file(options.file) as recorded:
        found = answer(recorded, sql, options.limit_seconds, check=options.check)
        for warning in found.warnings:
            say(warning)
        if not _print_table(options, found.columns, found.rows) and sys.stdout.isatty():
            say("no rows")
    return 0


def _host_answers(options: argparse.Namespace, access: ServerAccess, address: HostAddress, sql: str) -> int:
    """Prints what a host of a fleet answers, on its own recording. Raises FleetError."""
    from stalltop.cli.fleet.host_past import host_answer
    from stalltop.fleet.answers import QUERY_SECONDS

    if options.check:
        raise UsageError("--check is for files: the host has its own", "leave it out")
    if "@" in str(options.file):
        raise UsageError("a host answers SQL on all of its recording, without @TIME", "use WHERE instead")
    if options.limit_seconds > QUERY_SECONDS:
        raise UsageError(f"--limit-seconds: a host works on an answer for at most {QUERY_SECONDS:g} s")
    found = host_answer(access, address, sql, options.limit_seconds)
    for warning in found.warnings:
        say(clean(warning))
    if not _print_table(options, list(map(clean, found.columns)), found.rows) and sys.stdout.isatty():
        say("no rows")
    if found.more:
        say("there are more rows than the host sends; use LIMIT, or sums")
    return 0


def _typed(sql: str | None) -> str:
    if sql is None and not _is_piped():
        raise UsageError(
            "no query given",
            'add a query such as "SELECT * FROM containers", or --named NAME, or - to read it from stdin',
        )
    if sql is not None and sql != "-":
        return sql
    text = sys.stdin.read(_MOST_SQL + 1)
    if len(text) > _MOST_SQL:
        raise UsageError(f"the query is too long: more than {_MOST_SQL:,} characters")
    return text


def _is_piped() -> bool:
    """Returns True if stdin is a pipe or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _print_tables(options: argparse.Namespace) -> int:
    from stalltop.cli.printing import style
    from stalltop.recordings.query.text import tables_text
    from stalltop.recordings.views.catalogue import VIEWS

    if options.format == "table":
        text = tables_text()
        sys.stdout.write(text.replace("…", style().glyphs.dots))
        return 0
    rows = [(view.name, column, what) for view in VIEWS for column, what in (("", view.about), *view.columns)]
    _print_table(options, ("table", "column", "what it is"), rows)
    return 0


def _print_table(options: argparse.Namespace, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    from stalltop.cli.printing import style
    from stalltop.recordings.query.printing import write

    shown = style()
    width = shown.width if sys.stdout.isatty() else None
    return write(sys.stdout, options.format, columns, rows, width=width, glyphs=shown.glyphs)
