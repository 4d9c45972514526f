"""Queries that are run by name: the files of ``ready/``, whose first line says what each one tells."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stalltop.model.errors import UsageError


class Ready(NamedTuple):
    """A query."""

    about: str
    """One line."""
    sql: str


@cache
def queries() -> Mapping[str, Ready]:
    """All of them, by name."""
    found = {}
    for file in sorted(Path(__file__).with_name("ready").glob("*.sql")):
        about, _, sql = file.read_text(encoding="utf-8").partition("\n")
        found[file.stem] = Ready(about.removeprefix("-- "), sql.strip())
    return found


def query(name: str) -> str:
    """The query called ``name``. Raises UsageError, with names that are like it, where there is none."""
    found = queries().get(name)
    if found is None:
        close = difflib.get_close_matches(name, queries(), 3, 0.4)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(queries())}"
        raise UsageError(f'there is no query called "{name}"', remedy)
    return found.sql
