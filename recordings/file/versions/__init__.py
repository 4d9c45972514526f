"""What made the tables of each version of the format that was released before this one, to the letter.

``N.sql`` is never changed. When ``schema.VERSION`` is raised, ``N.sql`` of the version until then is written
from ``schema.TABLES``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

FIRST: Final = 2
"""Version 1 was no database, and is read by ``formats.documents.saved``."""
_BETWEEN: Final = ";\n"
_NAME: Final = re.compile(r"CREATE TABLE (\w+) \(")
_COLUMN: Final = re.compile(r"^  (\w+) (?:INTEGER|REAL|TEXT|BLOB)", re.MULTILINE)


@cache
def tables(version: int) -> Mapping[str, str]:
    """By name what made each table of an earlier version, in order. Raises OSError where it is none."""
    text = (Path(__file__).parent / f"{version}.sql").read_text(encoding="ascii")
    found = {}
    for statement in filter(None, text.split(_BETWEEN)):
        name = _NAME.match(statement)
        assert name is not None
        found[name[1]] = statement
    return found


@cache
def columns(version: int) -> Mapping[str, tuple[str, ...]]:
    """By table the names of its columns, in order."""
    return {name: tuple(_COLUMN.findall(ddl)) for name, ddl in tables(version).items()}
