"""Describes the tables of a file as data. The writer, the reader and docs/file-format.md use these
descriptions.

A file is a SQLite database. Rows that many windows share (names, series, coverage) are stored once, in the
tables of ``SHARED``. Other rows refer to them by number. Rows that belong to one window are stored in the
tables of ``PARTS``, with the number of the window and their place in the window.

SQLite's integers are signed. A count of 2^63 or more, which no counter reaches in practice, is stored as the
count minus 2^64. NaN and infinity are stored as NULL.
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
"""The letters ``STLT`` as a big-endian number. They are at byte 68 of a file (SQLite's application id), and
identify a file of stalltop."""
VERSION: Final = 1
"""Version of the format: the ``user_version`` at byte 60 of the file. Until a version is released, tables and
columns may be added to it. Files that were saved before such a change are refused, and
``scripts/renew_window.py`` rewrites the file that the tests use. docs/file-format.md says how files of
released versions are migrated."""


ABOUT: Final = SqlTable(
    "about",
    "What the file is: `kind` is `window` (one that was saved) or `recording`.",
    (_c("name", TEXT, "name of the property"), _c("value", TEXT, "value of the property")),
    key=("name",),
)

WINDOWS: Final = SqlTable(
    "windows",
    "The windows: periods of one host. In a recording, later windows have higher numbers, also if they were"
    " merged from others.",
    (
        _c("window_id", INTEGER, "its number"),
        _c("host_id", INTEGER, "its host", refers="hosts"),
        _c("start", REAL, "Unix time, s"),
        _c("seconds", REAL, "its length, s"),
        _c(
            "level",
            INTEGER,
            "0: as it was read; 10, 60: merged from shorter windows to about this many seconds; shorter"
            " before a pause",
        ),
        _c("simulated", INTEGER, "1: simulated, not measured"),
        _c("split", INTEGER, "1: the splits of calls were measured"),
        _c("coverage_id", INTEGER, "what was traced", refers="coverage"),
        _c("cost_percent", REAL, "part of one CPU that all probes took, percent", null=True),
        _c("swap_in_bytes", INTEGER, "by the whole host"),
        _c("swap_out_bytes", INTEGER, "by the whole host"),
        _c("calls_passed_over", INTEGER, "slow calls that are counted in their rows but were not captured"),
        _c(
            "lost_ms_per_s",
            REAL,
            "loss of all open chains except those of severity info; for a merged window, the largest loss of"
            " the windows that it was merged from",
            null=True,
        ),
        _c(
            "worst",
            INTEGER,
            "severity of the worst open chain: 0 critical to 3 low; 5: none was open. Chains of severity info"
            " do not count",
        ),
        _c("began", INTEGER, "severity of the worst chain that began in this window, 0 to 5 as in `worst`"),
        CHECKSUM,
    ),
    key=("window_id",),
)


PARTS: Final = (COUNTS, HISTOGRAMS, *RECORDS, LOSSES)
"""All tables whose rows belong to one window."""
TABLES: Final = (ABOUT, *SHARED, WINDOWS, *PARTS)


def statements() -> Iterator[str]:
    """Yield the SQL statements that create the tables of an empty file."""
    yield f"PRAGMA application_id = {APPLICATION_ID}"
    yield f"PRAGMA user_version = {VERSION}"
    yield from (table.ddl for table in TABLES)
