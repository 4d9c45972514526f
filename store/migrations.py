"""From one version of the format to the next: files of earlier versions are read as copies that were changed.

The files themselves stay as they are. Version 1 was no database, and is read by ``outputs.saved``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from store import schema


@dataclass(frozen=True, slots=True)
class Step:
    """From one version to the next."""

    tables: Mapping[str, str]
    """By name what made each table of the earlier version, to the letter: a file with others is refused."""
    change: Callable[[sqlite3.Connection], object]
    """Makes them those of the next version, in a copy of the file, within a transaction. What a checksum is
    over may only change where the checksum was right before; it is then to be made anew."""


STEPS: dict[int, Step] = {}
"""By the version that each begins with: from the first one on there is one for every version until the last.
To be added to when ``schema.VERSION`` is raised, with the tables as they were."""


def is_known(version: int) -> bool:
    """Whether files of that version can be read."""
    return version == schema.VERSION or version in STEPS


def tables(version: int) -> Mapping[str, str]:
    """By name what makes each table of a version that is known."""
    if version in STEPS:
        return STEPS[version].tables
    return {table.name: table.ddl for table in schema.TABLES}


def migrated(source: sqlite3.Connection, version: int) -> sqlite3.Connection:
    """A private copy of ``source``, whose tables were found to be those of ``version``, as of now.

    It lies in SQLite's temporary folder where it is large, without a name, and goes with its connection.
    Raises sqlite3.Error, and what a step raises.
    """
    copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = MEMORY")
        copy.execute("PRAGMA trusted_schema = OFF")
        copy.execute("BEGIN")
        for number in range(version, schema.VERSION):
            STEPS[number].change(copy)
        copy.execute(f"PRAGMA user_version = {schema.VERSION}")
        copy.execute("COMMIT")
    except BaseException:
        copy.close()
        raise
    return copy
