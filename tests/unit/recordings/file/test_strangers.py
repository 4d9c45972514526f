"""Tests files that a stranger changed and gave valid checksums: if such a file opens, every view and format
can show it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from stalltop.formats.documents.explain import explain_document
from stalltop.formats.documents.window import document
from stalltop.formats.text.explain import explain_text
from stalltop.formats.text.window import table
from stalltop.model.errors import UsageError
from stalltop.model.merge.merging import merge
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.text.style import Style
from stalltop.recordings.file import schema
from stalltop.recordings.file.seal import sealed
from stalltop.recordings.file.values import Sql, checksum
from stalltop.recordings.read.reading import load
from stalltop.recordings.write.saving import save
from tests.windows.full import full_window

VALUES: tuple[Sql, ...] = (
    *(None, 0, 1, -1, 5, 1 << 40, (1 << 63) - 1, -(1 << 63)),
    *(0.5, -1e300, 1e300, float("inf"), "", "5", "\x1b[2J", "x" * 5_000, "\u202e"),
    *("[]", "{}", "[[]]", "null", "[1, 2]", '[{"a": 1}]', "[" * 5_000, "[1e999]", "NaN"),
    *(b"", b"\x00\xff", b"x" * 100),
)


def seal(connection: sqlite3.Connection) -> None:
    """Recomputes all checksums, as a stranger would after changing the file."""
    for shared in schema.SHARED:
        key = shared.key[0]
        for *values, _ in connection.execute(f"SELECT * FROM {shared.name}").fetchall():
            connection.execute(
                f"UPDATE {shared.name} SET checksum = ? WHERE {key} = ?", (checksum([values]), values[0])
            )
    ((_, *values, _),) = connection.execute("SELECT * FROM windows").fetchall()
    parts = {
        part.name: [row[1:] for row in connection.execute(f"SELECT * FROM {part.name} ORDER BY place")]
        for part in schema.PARTS
    }
    connection.execute("UPDATE windows SET checksum = ?", (sealed(values, parts),))


@pytest.mark.parametrize(
    "part", [table_ for table_ in schema.TABLES if table_ is not schema.ABOUT], ids=lambda part: part.name
)
def test_any_value_is_refused_or_can_be_shown(part: schema.SqlTable, tmp_path: Path) -> None:
    good = save(full_window(), tmp_path / "good.stalltop").read_bytes()
    path = tmp_path / "w.stalltop"
    random = Random(part.name)
    results: Counter[str] = Counter()
    for column in part.columns:
        for value in random.sample(VALUES, 3):
            path.write_bytes(good)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
                try:
                    connection.execute("PRAGMA synchronous = OFF")
                    connection.execute("BEGIN")
                    connection.execute(f"UPDATE {part.name} SET {column.name} = ?", (value,))
                    seal(connection)
                    connection.execute("COMMIT")
                except (sqlite3.Error, ValueError):
                    results["impossible"] += 1
                    continue
            try:
                found = load(path)
            except UsageError:
                results["refused"] += 1
                continue
            results["shown"] += 1
            merge([found, found])
            chains = found.chains
            json.dumps([document(found), explain_document(found, chains)], allow_nan=False)
            for text in (
                explain_text(found, chains, Style(100, False, UNICODE)),
                table(found, Style(100, False, UNICODE)),
                repr(found),
            ):
                assert not {"\x1b", "\u202e"} & set(text)
    assert results["refused"] + results["shown"] > 0
