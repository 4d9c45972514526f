"""Named queries: the files of ``ready/``. The first line of a file is the description."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stalltop.model.errors import UsageError


class Ready(NamedTuple):
    """A named query."""

    about: str
    """Description in one line."""
    sql: str


@cache
def queries() -> Mapping[str, Ready]:
    """Return all named queries by name."""
    found = {}
    for file in sorted(Path(__file__).with_name("ready").glob("*.sql")):
        about, _, sql = file.read_text(encoding="utf-8").partition("\n")
        found[file.stem] = Ready(about.removeprefix("-- "), sql.strip())
    return found


def query(name: str) -> str:
    """Return the SQL of the query ``name``. Raises UsageError if there is no such query; the error lists
    similar names."""
    found = queries().get(name)
    if found is None:
        close = difflib.get_close_matches(name, queries(), 3, 0.4)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(queries())}"
        raise UsageError(f'there is no query called "{name}"', remedy)
    return found.sql
