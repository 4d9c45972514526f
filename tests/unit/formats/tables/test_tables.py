"""Tests tables in files: CSV for programs and reports for people."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from stalltop.formats.tables.csv_table import csv_table
from stalltop.formats.tables.sheet import COLUMNS, SheetRow, largest, others, parts, sheet
from stalltop.formats.text.report import report
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.model.window import SPLITS
from tests.windows.by_hand import window
from tests.windows.full import full_window
from tests.windows.hostile import FORMULA, NAMES, hostile_window


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), strict=True))


def test_a_sheet_has_the_groups_of_a_pivot_sorted_by_time() -> None:
    table = sheet(full_window(), ("operation", "layer"), "operations")
    assert [row.names for row in table.rows[:2]] == [
        ("cudaStreamSynchronize", "runtime"),
        ("cudaMemcpyAsync HtoD", "runtime"),
    ]
    inside = next(row for row in table.rows if row.names[0] == "cuLaunchKernel")
    assert inside.inside
    assert inside.label == ("(cuLaunchKernel)", "driver")
    assert table.rows[0].max_ns == 250_000_000
    assert table.rows[0].errors == 1


def test_tables_of_the_whole_window_leave_out_the_shown_one() -> None:
    one = full_window()
    assert [table.by[0] for table in others(one, None)] == ["container", "operation", "process"]
    shown = sheet(one, ("container",), "containers")
    assert [table.by[0] for table in others(one, shown)] == ["operation", "process"]
    narrowed = replace(shown, title="containers   filter: x")
    assert [table.by[0] for table in others(one, narrowed)] == ["container", "operation", "process"]


def test_a_row_has_the_parts_of_its_time() -> None:
    row = SheetRow(("a",), split_ns=(62, 30, 8, *[0] * (len(SPLITS) - 3)))
    assert parts(row) == [("running", 0.62), ("runqueue", 0.3), ("disk", 0.08)]
    assert largest(row) == "running 62% runqueue 30%"
    assert (parts(SheetRow(("a",))), largest(SheetRow(("a",)))) == ([], "")


def test_csv_has_raw_figures_with_units() -> None:
    one = full_window()
    rows = read(csv_table(sheet(one, ("operation", "layer"), ""), one))
    first = rows[0]
    assert list(first)[:2] == ["operation", "layer"]
    assert {column.field for column in COLUMNS if not column.compares} <= set(first)
    assert "p99_before_ns" not in first
    assert (first["operation"], first["layer"]) == ("cudaStreamSynchronize", "runtime")
    assert (first["calls"], first["errors"], first["max_ns"]) == ("3", "1", "250000000")
    assert (first["total_ns"], first["running_ns"], first["disk_ns"]) == ("283000000", "283000000", "0")
    assert (first["window_host"], first["window_start_s"], first["window_seconds"]) == (
        "gpu7",
        "1700000000.25",
        "2",
    )
    assert [row["inside"] for row in rows if row["operation"] == "cuLaunchKernel"] == ["1"]
    assert all(len(row) == len(first) and None not in row for row in rows)


def test_csv_leaves_unknown_figures_empty() -> None:
    one = full_window()
    table = replace(
        sheet(one, ("container",), ""), rows=(SheetRow(("hangs",), open_ns=5, share=float("nan")),)
    )
    (row,) = read(csv_table(table, one))
    known = {name: value for name, value in row.items() if value and not name.startswith("window_")}
    assert known == {"container": "hangs", "open_ns": "5", "inside": "0"}
    head = csv_table(sheet(window(), ("container",), ""), window())
    assert head.count("\n") == 1
    assert "running_ns" not in head


def test_csv_contains_no_formula() -> None:
    one = hostile_window()
    text = csv_table(sheet(one, ("operation", "process"), ""), one)
    rows = read(text)
    assert len(rows) == len(NAMES)
    for row in rows:
        for name in ("operation", "process", "window_host"):
            assert not row[name].startswith(FORMULA), row[name]
            assert row[name].isprintable()
    assert any(row["operation"] == "'-2+3" for row in rows)
    assert "\r" not in text


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [10, 80, 132, 250])
def test_a_report_has_everything_at_any_width(width: int, glyphs: Glyphs) -> None:
    one = full_window()
    shown = sheet(one, ("operation", "layer"), "containers > train > operations")
    text = report(one, shown, width=width, glyphs=glyphs)
    for word in (
        "gpu7",
        "containers > train > operations",
        "containers, whole host",
        "cudaStreamSynchronize",
        "serve loses time between its calls",
        "ncclCommInitRank",
        "CFS throttling",
        "fix 1",
    ):
        assert word in text, word
    assert text.isascii() or glyphs is UNICODE
    tables = [line for line in text.splitlines() if "%" in line and "$" not in line]
    assert all(cell_len(line) <= max(width, 80) for line in tables)
    assert text.endswith("\n")


def test_a_report_of_an_empty_window_says_no_row() -> None:
    one = window()
    text = report(one, sheet(one, ("container",), "containers"), glyphs=UNICODE)
    assert "containers\nno row" in text


def test_a_report_contains_no_terminal_command() -> None:
    one = hostile_window()
    text = report(one, sheet(one, ("operation", "process"), NAMES[7]), width=120, glyphs=UNICODE)
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_report_has_all_rows_of_the_shown_table() -> None:
    from tests.tui.sources import many

    one = many(200)
    shown = sheet(one, ("operation", "layer"), "operations")
    text = report(one, shown, glyphs=UNICODE)
    assert text.count("operation0") + text.count("operation1") == 200
    text = report(one, None, glyphs=UNICODE)
    assert "and 160 more" in text


def test_every_csv_column_is_documented() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "saving.md").read_text(encoding="utf-8")
    one = full_window()
    compared = replace(sheet(one, ("operation", "layer"), ""), compared_with=1.0)
    for head in csv_table(compared, one).splitlines()[0].split(","):
        assert f"`{head}`" in text, head
