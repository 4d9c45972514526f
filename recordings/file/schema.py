"""Every table of a file, as data: what is written, what is read and what the documents say come from here.

A file is a SQLite database. What many windows say alike (names, series, what is traced) stands once, in the
tables of ``SHARED``, and is referred to by number; what belongs to one window stands in the tables of
``PARTS`` under the window's number, in the order it had there.

Counts of 2^63 and more, which no counter reaches in practice, are stored as that count minus 2^64: SQLite's
integers have a sign. A float that is no finite number is stored as NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.recordings.file.part_tables import COUNTS, HISTOGRAMS, LOSSES, RECORDS
from stalltop.recordings.file.shared_tables import SHARED
from stalltop.recordings.file.table import CHECKSUM, INTEGER, REAL, TEXT, SqlColumn, SqlTable
from stalltop.recordings.file.table import column as _c

__all__ = [
    "ABOUT",
    "APPLICATION_ID",
    "COUNTS",
    "HISTOGRAMS",
    "LOSSES",
    "PARTS",
    "RECORDS",
    "SHARED",
    "TABLES",
    "VERSION",
    "WINDOWS",
    "SqlColumn",
    "SqlTable",
    "statements",
]

APPLICATION_ID: Final = 0x53544C54
"""``STLT``: at byte 68 of every file, big endian."""
VERSION: Final = 1
"""Of the format, as the file's ``user_version``, at byte 60. Tables and columns may be added to a version
until it is released. docs/file-format.md says how files of a version that was released are migrated."""


ABOUT: Final = SqlTable(
    "about",
    "What the file is: `kind` is `window` (one that was saved) or `recording`.",
    (_c("name", TEXT, "of the property"), _c("value", TEXT, "of the property")),
    key=("name",),
)

WINDOWS: Final = SqlTable(
    "windows",
    "The windows: stretches of time of one host. In a recording later ones have higher numbers, but for those"
    " that older ones were put together to.",
    (
        _c("window_id", INTEGER, "its number"),
        _c("host_id", INTEGER, "whose it is", refers="hosts"),
        _c("start", REAL, "Unix time, s"),
        _c("seconds", REAL, "how long it lasted"),
        _c("level", INTEGER, "0: as it came; 10, 60: put together to windows of at least so many seconds"),
        _c("simulated", INTEGER, "1: made up, not measured"),
        _c("split", INTEGER, "1: it was measured where the time of calls went"),
        _c("coverage_id", INTEGER, "what was traced", refers="coverage"),
        _c("cost_percent", REAL, "share of one CPU that all probes took", null=True),
        _c("swap_in_bytes", INTEGER, "by the whole host"),
        _c("swap_out_bytes", INTEGER, "by the whole host"),
        _c("calls_passed_over", INTEGER, "slow calls that are counted in their rows and not kept one by one"),
        _c(
            "lost_ms_per_s",
            REAL,
            "time that open chains cost together; the most, where windows were put together",
            null=True,
        ),
        _c("worst", INTEGER, "severity of the worst open chain: 0 critical to 4 info; 5: none was open"),
        _c("began", INTEGER, "the same of chains that began within"),
        CHECKSUM,
    ),
    key=("window_id",),
)


PARTS: Final = (COUNTS, HISTOGRAMS, *RECORDS, LOSSES)
"""All tables of what belongs to one window."""
TABLES: Final = (ABOUT, *SHARED, WINDOWS, *PARTS)


def statements() -> Iterator[str]:
    """What makes an empty file."""
    yield f"PRAGMA application_id = {APPLICATION_ID}"
    yield f"PRAGMA user_version = {VERSION}"
    yield from (table.ddl for table in TABLES)
