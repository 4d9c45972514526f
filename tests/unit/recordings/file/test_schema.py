"""Tests that the tables of a file match the fields of a window, and that the document describes them."""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hdrh.histogram import HdrHistogram

from stalltop.model.chain import Chain
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device
from stalltop.model.evidence import TenantUse
from stalltop.model.stacks.stack import StackCount
from stalltop.model.window import Coverage, Window
from stalltop.recordings.file import schema
from stalltop.recordings.write.saving import save
from tests.windows.full import full_window

ELSEWHERE = {
    "rows": "counts and histograms",
    "normals": "counts",
    "loss": "losses",
    "devices": "devices, and coverage",
    "evidence": "the tables of its lists, windows and coverage",
    "calls": "calls and windows",
    "coverage": "coverage and windows",
    "tenants": "tenants and coverage",
    "host": "windows.host_id",
    "kernels": "kernel_counts",
    "stacks": "stack_counts",
}
"""For each field of a window without a column or table of its name: where the field is stored."""


def names_of(kind: type) -> set[str]:
    return {field.name for field in fields(kind)} if is_dataclass(kind) else set(get_type_hints(kind))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = save(full_window(), tmp_path_factory.mktemp("saved") / "w.stalltop")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        yield connection


def test_every_field_of_a_window_is_stored() -> None:
    tables = {table.name for table in schema.TABLES} | set(schema.WINDOWS.names)
    assert {name for name in names_of(Window) if name not in tables} <= set(ELSEWHERE)


@pytest.mark.parametrize("table", schema.RECORDS, ids=lambda table: table.name)
def test_every_field_of_a_record_has_a_column(table: schema.SqlTable) -> None:
    shared = {other.name: other for other in schema.SHARED}
    found: set[str] = set()
    for column in table.columns:
        found |= set(column.names)
        if column.refers in ("gpus", "limits", "allotments", "chain_texts"):
            for other in shared[column.refers].columns:
                found |= set(other.names)
    assert table.kind is not None
    assert names_of(table.kind) <= found, names_of(table.kind) - found


def test_every_field_of_the_coverage_has_a_column() -> None:
    (table,) = (table for table in schema.SHARED if table.kind is Coverage)
    assert names_of(Coverage) - {"cost_percent"} <= set(table.names)
    assert "cost_percent" in schema.WINDOWS.names


def test_shared_tables_have_their_types() -> None:
    kinds = {table.name: table.kind for table in schema.SHARED if table.kind is not None}
    assert kinds == {
        "coverage": Coverage,
        "limits": TenantUse,
        "gpus": Device,
        "allotments": Allocation,
        "stack_texts": StackCount,
        "chain_texts": Chain,
    }


@pytest.mark.parametrize("table", schema.TABLES, ids=lambda table: table.name)
def test_a_file_has_every_table_and_each_column_is_described(
    table: schema.SqlTable, file: sqlite3.Connection
) -> None:
    found = file.execute(f"PRAGMA table_info({table.name})").fetchall()
    assert [(name, kind) for _, name, kind, *_ in found] == [
        (column.name, column.type) for column in table.columns
    ]
    assert table.about
    assert all(column.about for column in table.columns)
    # A window with a value in every field fills every table.
    assert file.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]


def test_foreign_keys_are_valid(file: sqlite3.Connection) -> None:
    assert file.execute("PRAGMA foreign_key_check").fetchall() == []


def test_the_file_header_is_as_documented(tmp_path: Path) -> None:
    head = save(full_window(), tmp_path / "w.stalltop").read_bytes()
    assert head[68:72] == b"STLT"
    assert int.from_bytes(head[60:64], "big") == schema.VERSION
    document = (Path(__file__).resolve().parents[4] / "docs" / "file-format.md").read_text(encoding="utf-8")
    assert f"format: **{schema.VERSION}**." in document
    assert f"This is version {schema.VERSION}." in document


def crc(rows: Any, before: int = 0) -> int:
    return zlib.crc32(json.dumps(rows, separators=(",", ":"), ensure_ascii=True).encode(), before)


def test_checksums_are_as_documented(file: sqlite3.Connection) -> None:
    for table in schema.SHARED:
        for *values, checksum in file.execute(f"SELECT * FROM {table.name}"):
            assert crc([values]) == checksum
    ((number, *values, checksum),) = file.execute("SELECT * FROM windows")
    found = crc([values])
    for table in schema.PARTS:
        rows = file.execute(f"SELECT * FROM {table.name} WHERE window_id = ? ORDER BY place", (number,))
        plain = [
            [zlib.crc32(value) if isinstance(value, bytes) else value for value in row[1:]] for row in rows
        ]
        found = crc(plain, found)
    assert found == checksum


def test_hdrh_reads_the_payloads(file: sqlite3.Connection) -> None:
    query = "SELECT payload, calls FROM histograms JOIN counts USING (window_id, place)"
    for payload, calls in file.execute(query).fetchall():
        histogram = HdrHistogram.decode(base64.b64encode(payload))
        assert (histogram.get_total_count(), histogram.highest_trackable_value) == (calls, 137_438_953_471)
