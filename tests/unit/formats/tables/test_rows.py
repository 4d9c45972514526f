"""Tests rows of windows as CSV, Parquet and JSON lines, with hostile names too."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from stalltop.formats.documents import json_lines
from stalltop.formats.documents.window import document
from stalltop.formats.tables import csv_rows, parquet
from stalltop.formats.tables.columns import COLUMNS, table
from stalltop.model.errors import StalltopError
from stalltop.model.rows.pivot import bounded
from stalltop.model.window import SPLITS, Window
from tests.windows.by_hand import window
from tests.windows.drawn import FEW, windows
from tests.windows.exported import hostile, several
from tests.windows.full import full_window
from tests.windows.hostile import FORMULA

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "export.md"


def csv_of(found: list[Window]) -> list[dict[str, str]]:
    text = b"".join(csv_rows.pieces(found)).decode()
    return list(csv.DictReader(io.StringIO(text), strict=True))


def parquet_of(found: list[Window]) -> list[dict[str, Any]]:
    file = io.BytesIO()
    parquet.write(found, file)
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(file.getvalue())).to_pylist()
    return rows


def test_a_csv_line_has_the_figures_of_its_row() -> None:
    one = full_window()
    rows = csv_of([one])
    assert len(rows) == len(one.rows)
    assert list(rows[0]) == [column.name for column in COLUMNS]
    percentiles = bounded(one.rows.histograms.percentiles((50.0, 95.0, 99.0)), one.rows.max_ns)
    for at, (row, key) in enumerate(zip(rows, one.rows.keys, strict=True)):
        assert (row["operation"], row["process"], row["pid"]) == (key.operation, key.process, str(key.pid))
        assert row["container"] == one.tenants[key.tenant].name
        assert (row["window_start_s"], row["window_seconds"]) == ("1700000000.25", "2")
        assert int(row["calls"]) == one.rows.calls[at]
        assert float(row["calls_per_s"]) == one.rows.calls[at] / 2
        assert [int(row[name]) for name in ("p50_ns", "p95_ns", "p99_ns")] == percentiles[at].tolist()
        assert sum(int(row[f"{name}_ns"]) for name in SPLITS) == one.rows.total_ns[at]
        assert row["inside"] == str(int(key.nested))
        assert (row["device"], row["pod_uid"]) == (key.device, one.tenants[key.tenant].pod_uid)
    assert sum(float(row["share"]) for row in rows if row["inside"] == "0") == pytest.approx(1.0)


def test_unknown_values_are_empty_or_null() -> None:
    one = window([])
    one = replace(full_window(), rows=replace(full_window().rows, split_ns=None))
    assert {row["running_ns"] for row in csv_of([one])} == {""}
    assert {row["running_ns"] for row in parquet_of([one])} == {None}
    # A row with only an open call has no percentiles.
    none = np.zeros(len(one.rows), np.uint64)
    empty = replace(one, rows=replace(one.rows, calls=none))
    assert {row["p99_ns"] for row in csv_of([empty])} == {""}
    assert {row["p99_ns"] for row in parquet_of([empty])} == {None}


def test_parquet_and_csv_hold_the_same_values() -> None:
    found = several()
    plain, typed = csv_of(found), parquet_of(found)
    assert len(plain) == len(typed) == sum(len(one.rows) for one in found)
    for line, row in zip(plain, typed, strict=True):
        for column in COLUMNS:
            value = row[column.name]
            if column.kind == "text":
                assert line[column.name] == value
            elif value is None:
                assert line[column.name] == ""
            else:
                assert float(line[column.name]) == pytest.approx(float(value), rel=1e-14)


def test_parquet_describes_its_columns_and_is_written_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 7)
    file = io.BytesIO()
    parquet.write(several(4), file)
    found = pq.ParquetFile(io.BytesIO(file.getvalue()))
    assert found.num_row_groups == 2
    assert found.metadata.num_rows == 20
    assert {str(field.type) for field in found.schema_arrow} == {"string", "double", "uint64", "bool"}
    assert found.schema_arrow.field("max_ns").metadata[b"about"] == b"duration of the longest call"


def test_counts_beyond_63_bits_are_exact() -> None:
    one = full_window()
    huge = np.full(len(one.rows), (1 << 64) - 1, np.uint64)
    one = replace(one, rows=replace(one.rows, bytes=huge))
    assert {row["bytes"] for row in csv_of([one])} == {str((1 << 64) - 1)}
    assert {row["bytes"] for row in parquet_of([one])} == {(1 << 64) - 1}


def test_without_pyarrow_the_message_names_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StalltopError, match="pyarrow") as told:
        parquet.write([full_window()], io.BytesIO())
    assert "--to csv" in told.value.remedy


def test_no_name_is_a_formula_or_a_terminal_command() -> None:
    one = hostile()
    rows = csv_of([one])
    assert len(rows) == len(one.rows)
    for row in rows:
        for column in COLUMNS:
            assert row[column.name].isprintable(), column.name
            if column.kind == "text":
                assert not row[column.name].startswith(FORMULA), row[column.name]
    for typed in parquet_of([one]):
        assert all(value.isprintable() for value in typed.values() if isinstance(value, str))


def test_json_has_one_window_per_line() -> None:
    found = several(3)
    lines = b"".join(json_lines.pieces(found)).decode().splitlines()
    assert [json.loads(line) for line in lines] == [document(one) for one in found]


def test_json_of_hostile_names_is_valid_utf_8() -> None:
    text = b"".join(json_lines.pieces([hostile()])).decode("utf-8")
    assert text.count("\n") == 1
    assert not [letter for letter in text[:-1] if ord(letter) < 32]
    found = json.loads(text)
    assert any(row["operation"] == "<script>alert(1)</script>" for row in found["operations"])


@FEW
@given(windows())
def test_any_window_gives_columns_of_the_declared_types(one: Window) -> None:
    kinds = {"text": (str,), "count": (int,), "number": (float,), "flag": (bool,)}
    for column, values in zip(COLUMNS, table(one), strict=True):
        assert len(values) == len(one.rows)
        for value in values:
            assert value is None or isinstance(value, kinds[column.kind]), column.name
    assert len(csv_of([one])) == len(one.rows)


def test_the_document_describes_every_column() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    listed = text.partition("<!-- columns -->")[2].partition("<!-- /columns -->")[0]
    lines = [line for line in listed.splitlines() if line.startswith("| `")]
    assert lines == [f"| `{column.name}` | {column.about} |" for column in COLUMNS]
