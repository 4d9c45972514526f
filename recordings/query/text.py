"""Lists the tables and the named queries, for ``--tables`` and for the documents."""

from __future__ import annotations

from stalltop.recordings.query import ready
from stalltop.recordings.views.catalogue import EVENT_COLUMNS, EVENTS, VIEWS
from stalltop.recordings.views.view import SqlView

_COLUMN_WIDTH = max(len(name) for view in VIEWS for name in view.names) + 2


def _same(view: SqlView) -> bool:
    """Return whether ``view`` is a view of single calls other than the first. All these views have the same
    columns, which are listed only once, for the first view."""
    return view.name in EVENTS and view.name != next(iter(EVENTS))


def tables_text() -> str:
    """Return all tables, with descriptions of their columns, as text for a terminal."""
    lines = []
    for view in VIEWS:
        lines.append(f"{view.name}: {view.about}")
        columns = [("…", f"the columns of {next(iter(EVENTS))}")] if _same(view) else view.columns
        lines += [f"  {name:{_COLUMN_WIDTH}}{what}".rstrip() for name, what in columns]
        lines.append("")
    return "\n".join(lines)


def tables_markdown() -> str:
    """Return all tables, with their columns, as Markdown."""
    lines = ["| table | a row is | columns |", "|---|---|---|"]
    for view in VIEWS:
        columns = "those of `cuda_events`" if _same(view) else ", ".join(f"`{name}`" for name in view.names)
        lines.append(f"| `{view.name}` | {view.about} | {columns} |")
    return "\n".join(lines)


def calls_markdown() -> str:
    """Return the columns of the views of single calls as Markdown."""
    lines = ["| column | what it is |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {what} |" for name, what in EVENT_COLUMNS)])


def queries_markdown() -> str:
    """Return the named queries as Markdown."""
    lines = ["| `--named` | description |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {one.about} |" for name, one in ready.queries().items())])
