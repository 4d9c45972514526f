"""The tables and the queries that are ready, as the documents list them."""

from __future__ import annotations

from stalltop.recordings.query import ready
from stalltop.recordings.query.view import SqlView
from stalltop.recordings.query.views import EVENT_COLUMNS, EVENTS, VIEWS

_COLUMN_WIDTH = max(len(name) for view in VIEWS for name in view.names) + 2


def _same(view: SqlView) -> bool:
    """Whether its columns are those of the first view of single calls."""
    return view.name in EVENTS and view.name != next(iter(EVENTS))


def tables_text() -> str:
    """Every table with its columns and what they are, for a terminal."""
    lines = []
    for view in VIEWS:
        lines.append(f"{view.name}: {view.about}")
        columns = [("…", f"the columns of {next(iter(EVENTS))}")] if _same(view) else view.columns
        lines += [f"  {name:{_COLUMN_WIDTH}}{what}".rstrip() for name, what in columns]
        lines.append("")
    return "\n".join(lines)


def tables_markdown() -> str:
    """Every table with its columns."""
    lines = ["| table | a row is | columns |", "|---|---|---|"]
    for view in VIEWS:
        columns = "the same" if _same(view) else ", ".join(f"`{name}`" for name in view.names)
        lines.append(f"| `{view.name}` | {view.about} | {columns} |")
    return "\n".join(lines)


def calls_markdown() -> str:
    """The columns of a view of single calls."""
    lines = ["| column | what it is |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {what} |" for name, what in EVENT_COLUMNS)])


def queries_markdown() -> str:
    """Every query that is ready."""
    lines = ["| `--named` | what it tells |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {one.about} |" for name, one in ready.queries().items())])
