"""Tests how a window becomes a table: grouping, entering rows, sorting and filtering."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stalltop.model.evidence import HOST_GAP, HOST_LAYER
from stalltop.model.text.glyphs import ASCII
from stalltop.model.window import Window
from stalltop.tui.columns.catalogue import IDS
from stalltop.tui.columns.choice import sorts
from stalltop.tui.tables.table import table
from stalltop.tui.views.outermost import calls_per_s, outermost_ns
from stalltop.tui.views.path import PathStep, scope
from stalltop.tui.views.view import View
from stalltop.widgets.table import TableData
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window


def cells(data: TableData) -> dict[str, dict[str, str]]:
    """Return the text of every cell by the name of its row and the id of its column."""
    ids = [column.id for column in data.columns]
    return {
        row.cells[0].text: {name: cell.text.strip() for name, cell in zip(ids, row.cells, strict=True)}
        for row in data.rows
    }


def look(one: Window, view: View, width: int = 0) -> TableData:
    """Return the table with the usual columns for ``width`` cells; 0: with all columns."""
    return table(one, view, width=width or 240, chosen=() if width else IDS)


def test_containers_count_outermost_calls_only() -> None:
    rows = cells(look(full_window(), View()))
    assert rows["train"]["n"] == "6"
    assert rows["serve"]["n"] == "5"
    assert rows["serve"]["errors"] == "1"
    assert rows["serve"]["open"] == "42.0s"
    # The open call of train is nested, and only outermost open calls count.
    assert rows["train"]["open"] == ""


def test_calls_inside_other_calls_are_shown_on_demand_and_marked() -> None:
    assert "(cuLaunchKernel)" not in cells(look(full_window(), View(by="operation")))
    assert "(cuLaunchKernel)" in cells(look(full_window(), View(by="operation", filter="launch")))
    rows = cells(look(full_window(), View(by="operation", only="nested")))
    assert rows["(cuLaunchKernel)"]["n"] == "4"
    assert rows["(cuLaunchKernel)"]["beside"] == "driver"
    assert rows["cudaLaunchKernel"]["p50"] == "5.02µs"


def test_a_hung_call_that_was_never_counted_has_a_row() -> None:
    rows = cells(look(full_window(), View(by="operation")))
    assert rows["ncclCommInitRank"]["open"] == "42.0s"
    assert rows["ncclCommInitRank"]["p99"] == "–"


def test_an_open_call_sorts_by_its_time_in_the_window_and_is_visible_at_80_columns() -> None:
    one = full_window()
    assert one.seconds == 2.0  # the call has been open for 42 s, but only the window's 2 s count
    busy = replace(one, rows=replace(one.rows, total_ns=np.full(len(one.rows), 10**9, np.uint64)))
    data = look(busy, View(by="operation"), 80)
    assert next(iter(cells(data))) == "ncclCommInitRank"
    opened = next(at for at, column in enumerate(data.columns) if column.id == "open")
    assert data.rows[0].cells[opened].role == "bad"
    # The mark and the columns up to ``open``, with a blank after each, fit into 80 cells.
    assert 1 + sum(column.width + 1 for column in data.columns[: opened + 1]) <= 80
    slow = replace(busy, rows=replace(one.rows, total_ns=np.full(len(one.rows), 3 * 10**9, np.uint64)))
    assert list(cells(look(slow, View(by="operation"), 80)))[-1] == "ncclCommInitRank"


def test_shares_of_containers_add_up() -> None:
    one = full_window()
    data = look(one, View())
    shares = [float(row["share"].rstrip("%")) for row in cells(data).values()]
    assert abs(sum(shares) - 100) < 0.3
    assert outermost_ns(one) == int(one.rows.total_ns[[0, 2, 3, 4]].sum())


def test_rows_can_be_entered_and_left() -> None:
    one = full_window()
    inside = View().entered("cri:bb", "serve")
    assert inside.by == "operation"
    rows = cells(look(one, inside))
    assert set(rows) == {"cudaStreamSynchronize", "ncclAllReduce", "ncclCommInitRank"}
    below = inside.entered("cudaStreamSynchronize", "cudaStreamSynchronize")
    assert below.by == "process"
    assert set(cells(look(one, below))) == {"tritonserver 200"}
    assert below.below() is None
    assert below.entered("x", "x") is below
    assert below.left() == inside
    assert inside.left() == View()
    assert View().left() == View()


def test_a_nested_operation_leads_to_its_containers() -> None:
    inside = View(by="operation").entered("cuLaunchKernel", "cuLaunchKernel")
    rows = cells(look(full_window(), inside))
    assert rows["train"]["n"] == "4"
    assert rows["train"]["share"] == "100%"


def test_a_pivot_keeps_the_path_unless_the_path_has_that_dimension() -> None:
    inside = View().entered("cri:bb", "serve")
    assert inside.pivoted("process").path == inside.path
    assert inside.pivoted("container") == View()
    assert len(scope(full_window(), (PathStep("process", "gpu7/200/tritonserver", ""),)).rows) == 2


def test_every_sort_gives_a_complete_order_both_ways() -> None:
    one = full_window()
    for sort in (*sorts(look(one, View(), 200).columns), "unknown"):
        view = View(by="operation", sort=sort)
        down = [row.key for row in look(one, view).rows]
        up = [row.key for row in look(one, replace(view, descending=False)).rows]
        assert sorted(map(str, down)) == sorted(map(str, up))
    by_p99 = [row.key[0] for row in look(one, View(by="operation", sort="p99")).rows]  # type: ignore[index]
    assert by_p99[0] == "cudaStreamSynchronize"
    by_name = look(one, View(by="operation", sort="name", descending=False)).rows
    assert [row.key for row in by_name] == sorted(row.key for row in by_name)  # type: ignore[type-var]


def test_sort_columns_cycle_and_a_second_click_reverses_the_order() -> None:
    view = View()
    among = sorts(look(full_window(), view).columns)
    assert len(set(among)) == len(among) > 8
    seen = []
    for _ in among:
        view = view.next_sort(1, among)
        seen.append(view.sort)
    assert sorted(seen) == sorted(among)
    assert view.next_sort(-1, among).next_sort(1, among).sort == view.sort
    assert View(sort="p50").sorted_by("p99").sort == "p99"
    assert not View(sort="p99").sorted_by("p99").descending


def test_a_filter_keeps_shares_and_is_named_in_the_title() -> None:
    one = full_window()
    whole = cells(look(one, View()))
    narrowed = look(one, View(filter="serve"))
    assert set(cells(narrowed)) == {"serve"}
    assert cells(narrowed)["serve"]["share"] == whole["serve"]["share"]
    assert any("filter: serve" in text for text, _ in narrowed.title)
    wrong = look(one, View(filter="/(/"))
    assert not wrong.rows
    assert any(role == "bad" for _, role in wrong.title)


def test_a_p99_of_99_calls_is_unsure() -> None:
    data = look(window([Calls(key(), [1000] * 99)]), View())
    unsure = {column.id for column, cell in zip(data.columns, data.rows[0].cells, strict=True) if cell.unsure}
    assert unsure == {"p99"}


def test_an_empty_table_says_why_and_what_to_do() -> None:
    nothing = window()
    assert "stalltop demo" in " ".join(look(nothing, View()).empty)
    no_tracing = replace(nothing, coverage=replace(nothing.coverage, tracing="needs root"))
    assert "needs root" in " ".join(look(no_tracing, View()).empty)
    assert "filter" in " ".join(look(nothing, View(filter="x")).empty)
    assert "Esc" in " ".join(look(nothing, View().entered("a", "b")).empty)


def test_every_width_and_grouping_has_as_many_cells_as_columns() -> None:
    one = full_window()
    for by in ("container", "operation", "process", "layer", "pod", "namespace", "host"):
        for width in (40, 80, 120, 200):
            data = table(one, View(by=by), width=width, glyphs=ASCII)
            assert data.rows
            assert {len(row.cells) for row in data.rows} == {len(data.columns)}
            assert all(cell.text.isascii() for row in data.rows for cell in row.cells)


def test_calls_per_s_leave_nested_ones_out() -> None:
    assert calls_per_s(full_window()) == 11 / 2.0


def test_the_host_gap_is_an_operation_and_counts_in_no_total() -> None:
    gap = key(HOST_GAP, layer=HOST_LAYER)
    one = window([Calls(key(), [1_000, 2_000]), Calls(gap, [50_000_000, 60_000_000])])
    assert cells(look(one, View()))["train"]["n"] == "2"
    assert outermost_ns(one) == 3_000
    rows = cells(look(one, View(by="operation")))
    assert rows["time between calls"]["total"] == "110ms"
    assert (rows["time between calls"]["share"], rows["time between calls"]["bar"]) == ("–", "")
    assert rows["cudaLaunchKernel"]["share"] == "100%"
    inside = View(by="operation").entered("host gap", "host gap")
    assert cells(look(one, inside))["train"]["n"] == "2"
