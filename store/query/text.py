"""The tables and the queries that are ready, as the documents list them."""

from __future__ import annotations

from store.query import ready
from store.query.views import EVENT_COLUMNS, EVENTS, VIEWS


def tables_markdown() -> str:
    """Every table with its columns."""
    lines = ["| table | a row is | columns |", "|---|---|---|"]
    for view in VIEWS:
        same = view.name in EVENTS and view.name != next(iter(EVENTS))
        columns = "the same" if same else ", ".join(f"`{name}`" for name in view.names)
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
