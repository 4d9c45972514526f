"""Makes the tables of docs/file-format.md from the schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.recordings.file.schema import ABOUT, PARTS, SHARED, WINDOWS, SqlColumn, SqlTable

_GROUPS: Final = (
    ("The file", (ABOUT,)),
    ("Shared rows", SHARED),
    ("Windows", (WINDOWS, *PARTS)),
)


def markdown() -> str:
    """Return the description of all tables as Markdown."""
    return "\n\n".join(f"## {title}\n\n{_tables(tables)}" for title, tables in _GROUPS)


def _tables(tables: Iterable[SqlTable]) -> str:
    return "\n\n".join(
        f"### `{table.name}`\n\n{table.about} Key: {_key(table)}.\n\n"
        "| column | type | description |\n|---|---|---|\n" + "\n".join(map(_line, table.columns))
        for table in tables
    )


def _key(table: SqlTable) -> str:
    return ", ".join(f"`{name}`" for name in table.key)


def _line(column: SqlColumn) -> str:
    about = column.about.replace("|", "\\|")
    if column.refers:
        about += f" (`{column.refers}`)"
    return f"| `{column.name}` | {column.type}{' or NULL' if column.null else ''} | {about} |"
