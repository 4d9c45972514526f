"""Tests the functions that unfold rows, leave rows out, mark what a filter matches, and compute trends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from stalltop.model.merge.packing import Packed, pack
from stalltop.model.text.glyphs import ASCII
from stalltop.model.window import Missing, OpenCall, Window
from stalltop.tui.tables.table import steps_to
from stalltop.tui.views.groups import Key
from stalltop.tui.views.trends import AT_ONCE, ROWS_AT_ONCE, WINDOWS, RowTrends
from stalltop.tui.views.view import ONLY, View
from stalltop.widgets.table import Cell, TableData
from tests.tui.tables.made_table import figures, look, look_at_all
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window


def names(data: TableData) -> list[str]:
    return [row.cells[0].text for row in data.rows]


def keys(data: TableData) -> dict[str, Key]:
    found = {}
    for row in data.rows:
        assert isinstance(row.key, tuple)
        found[row.label] = row.key
    return found


def unfolded(one: Window, view: View, *labels: str) -> View:
    """Return ``view`` after unfolding (or folding, if it is unfolded) the row of each label, one after the
    other."""
    for label in labels:
        view = view.toggled(keys(look(one, view))[label])
    return view


def test_a_row_unfolds_in_place_two_levels_down_and_folds_again() -> None:
    one = full_window()
    assert names(look(one, View())) == ["serve", "train"]
    view = unfolded(one, View(), "train")
    operations = ["  + cudaMemcpyAsync HtoD", "  + cudaLaunchKernel"]
    assert names(look(one, view)) == ["+ serve", "- train", *operations]
    every = replace(view, only="nested")
    assert names(look(one, every)) == ["+ serve", "- train", *operations, "  + (cuLaunchKernel)"]
    deeper = unfolded(one, view, "cudaLaunchKernel")
    data = look(one, deeper)
    at = names(data).index("  - cudaLaunchKernel")
    assert names(data)[at + 1] == "      python3 100"
    assert deeper.toggled(keys(data)["python3 100"]) is deeper  # no rows are below the row of a process
    # Folding a row hides the rows below it; unfolding it shows them as before.
    folded = unfolded(one, deeper, "train")
    assert names(look(one, folded)) == ["+ serve", "+ train"]
    assert names(look(one, unfolded(one, folded, "train"))) == names(data)


def test_rows_of_a_tree_sort_below_their_parents() -> None:
    one = full_window()
    view = replace(unfolded(one, View(), "train", "serve"), sort="name", descending=False)
    assert names(look(one, replace(view, only="nested"))) == [
        "- serve",
        "  + cudaStreamSynchronize",
        "  + ncclAllReduce",
        "  + ncclCommInitRank",
        "- train",
        "  + (cuLaunchKernel)",
        "  + cudaLaunchKernel",
        "  + cudaMemcpyAsync HtoD",
    ]
    turned = names(look(one, replace(view, descending=True)))
    assert turned[0] == "- train"
    assert turned[1] == "  + cudaMemcpyAsync HtoD"


def test_all_rows_unfold_by_one_level_and_new_ones_too() -> None:
    one = full_window()
    view = View().all_toggled()
    assert names(look(one, view))[:2] == ["- serve", "  + ncclCommInitRank"]
    assert len(look(one, view).rows) == 2 + 5
    without = unfolded(one, view, "serve")
    assert names(look(one, without))[0] == "+ serve"
    assert not without.all_toggled().is_tree
    last = View(by="process").entered("gpu7/100/python3", "python3 100")
    assert last.by == "operation"
    assert last.all_toggled() is last


@pytest.mark.parametrize("by", ["container", "operation", "process", "pod", "namespace", "layer", "host"])
def test_a_level_of_a_tree_equals_the_table_inside_the_row(by: str) -> None:
    one = full_window()
    view = View(by=by)  # type: ignore[arg-type]
    inside: dict[str, dict[str, str]] = {}
    for number, (one_key, figures_) in enumerate(figures(look_at_all(one, view.all_toggled()))):
        if view.level_of(one_key) == 0:
            assert not inside, f"the tree lacks rows of the table inside the row: {inside}"
            below = view.entered(one_key[0], one_key[0])
            inside = {names_[0]: found for names_, found in figures(look_at_all(one, below))}
        else:
            assert number
            assert inside.pop(one_key[view.levels()[1].own]) == figures_
    assert not inside


def test_the_path_to_a_row_of_a_tree_equals_that_of_entering_its_parents() -> None:
    one = full_window()
    view = unfolded(one, View(), "train", "cudaLaunchKernel")
    data = look(one, view)
    steps = steps_to(data, view, keys(data)["python3 100"])
    assert [(step.dimension, step.label) for step in steps] == [
        ("container", "train"),
        ("operation", "cudaLaunchKernel"),
        ("process", "python3 100"),
    ]
    inside = View().entered("docker:aa", "train").entered("cudaLaunchKernel", "cudaLaunchKernel")
    assert steps[:2] == inside.path
    below = steps_to(look(one, inside), inside, ("gpu7/100/python3", "docker:aa"))
    assert below == steps


def test_the_choice_of_rows_cycles_and_is_named_in_the_title() -> None:
    quiet = key("cudaFree", tenant="docker:zz", pid=7)
    one = window([Calls(key(), [1_000]), Calls(quiet, [])])
    view = View(by="operation")
    assert names(look(one, view)) == ["cudaLaunchKernel", "cudaFree"]
    every = view.next_only()
    assert names(look(one, every)) == names(look(one, view))
    assert any("all rows" in text for text, _ in look(one, every).title)
    busy = every.next_only()
    assert busy.only == "busy"
    data = look(one, busy)
    assert names(data) == ["cudaLaunchKernel"]
    assert any(ONLY["busy"] in text for text, _ in data.title)
    warned = busy.next_only()
    assert not look(one, warned).rows
    assert "f shows others" in " ".join(look(one, warned).empty)
    marks = {("cudaFree", "runtime"): Cell("H", "bad")}
    assert names(look(one, warned, marks=marks)) == ["cudaFree"]
    hangs = OpenCall("docker:aa", 100, 101, "python3", "runtime", "cudaLaunchKernel", 2_000_000_000)
    assert names(look(replace(one, open_calls=(hangs,)), warned)) == ["cudaLaunchKernel"]
    assert warned.next_only() == view


def test_a_driver_row_that_repeats_a_runtime_row_is_folded_and_the_title_says_so() -> None:
    inner = key("cuStreamSynchronize", layer="driver")
    calls = [
        Calls(key("cudaStreamSynchronize"), [1_000] * 98),
        Calls(inner._replace(nested=True), [900] * 98),
        Calls(inner, [900]),  # it had begun when tracing began
    ]
    view = View(by="operation")
    data = look(window(calls), view)
    assert names(data) == ["cudaStreamSynchronize"]
    assert (" shows 1 more", "dim") in data.title
    assert "cuStreamSynchronize" in names(look(window(calls), view.next_only()))
    own = window([*calls[:2], Calls(inner, [900] * 5)])
    assert "cuStreamSynchronize" in names(look(own, view)), "it has calls of its own"
    other = window([*calls[:2], Calls(inner._replace(tenant="cri:bb", pid=200), [900])])
    assert "cuStreamSynchronize" in names(look(other, view)), "another tenant calls the driver itself"
    runtime, driver = ("cudaStreamSynchronize", "runtime"), ("cuStreamSynchronize", "driver")
    high = Cell("H", "bad")
    assert "cuStreamSynchronize" in names(look(window(calls), view, marks={driver: high}))
    both = {runtime: high, driver: high}
    assert names(look(window(calls), view, marks=both)) == ["cudaStreamSynchronize"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("memcpy", ["Memcpy"]),
        ("cuda async", ["cuda", "Async"]),
        ("/A.y/", ["Asy"]),
        ("op:hto", ["HtoD"[:3]]),
        ("container:cuda", []),
        ("-layer:driver", []),
        ("c", ["c", "c", "c"]),
        ('"c ht"', ["c Ht"]),
    ],
)
def test_matches_of_a_filter_stand_out_in_names(text: str, found: list[str]) -> None:
    one = window([Calls(key("cudaMemcpyAsync HtoD"), [1_000])])
    one = replace(one, tenants={name: replace(tenant, name="cuda") for name, tenant in one.tenants.items()})
    name = look(one, View(by="operation", filter=text)).rows[0].cells[0]
    assert [name.text[start:end] for start, end in name.found] == found


def test_matches_of_a_filter_are_at_the_right_place_in_a_tree() -> None:
    one = full_window()
    view = unfolded(one, View(filter="launch"), "train")
    for row in look(one, view).rows[1:]:
        cell = row.cells[0]
        assert [cell.text[start:end] for start, end in cell.found] == ["Launch"]


def test_rows_with_calls_that_were_not_traced_are_marked() -> None:
    one = window([Calls(key(), [1_000]), Calls(key(tenant="cri:bb", pid=200), [1_000])])

    def marked(of: Window, view: View) -> list[str]:
        return [row.label for row in look(of, view).rows if row.mark is not None and row.mark.text == "?"]

    assert marked(one, View()) == []
    by_process = replace(one.coverage, missing=(Missing("/app", "no symbols", pid=200),))
    assert marked(replace(one, coverage=by_process), View()) == ["serve"]
    assert marked(replace(one, coverage=by_process), View(by="process")) == ["python3 200"]
    assert marked(replace(one, coverage=by_process), View(by="operation")) == []
    by_tenant = replace(one.coverage, missing=(Missing("/app", "no symbols", tenant="docker:aa"),))
    assert marked(replace(one, coverage=by_tenant), View()) == ["train"]
    ended = OpenCall("docker:aa", 100, 101, "python3", "runtime", "cudaLaunchKernel", 2 * 10**9, ended=True)
    assert marked(replace(one, open_calls=(ended,)), View()) == ["train"]
    assert marked(replace(one, open_calls=(ended,)), View(by="operation")) == ["cudaLaunchKernel"]
    assert marked(replace(one, open_calls=(replace(ended, age_ns=1_000),)), View()) == []


# ---- trends


def second(number: int, longest: int, rows: int = 1) -> Window:
    """Return the ``number``-th second, with ``rows`` rows whose longest call takes ``longest`` ns."""
    calls = [Calls(key(f"operation{row:03}"), [1_000] * 3 + [longest]) for row in range(rows)]
    return window(calls, start=1_000.0 + number)


def parts(windows: Sequence[Window]) -> list[Packed]:
    return [pack(one) for one in windows]


def test_trends_cover_the_windows_up_to_the_moment_shown() -> None:
    view, by = View(by="operation"), ("operation", "layer")
    windows = [second(number, 10_000 * (number + 1)) for number in range(AT_ONCE + 2)]
    past = RowTrends()
    for number in range(AT_ONCE, len(windows) + 1):
        past.follow(parts(windows[:number]), windows[number - 1].end)
        found = past.p99_ns(view, by, [("operation000", "runtime"), ("gone", "runtime")])  # type: ignore[arg-type]
    assert found.shape == (2, AT_ONCE + 2)
    assert np.isnan(found[1]).all()
    assert list(found[0]) == [10_000.0 * (number + 1) for number in range(AT_ONCE + 2)]
    # When the screen shows a past moment, the trend ends at this moment.
    past.follow(parts(windows), windows[4].end)
    assert past.p99_ns(view, by, [("operation000", "runtime")]).shape == (1, 5)  # type: ignore[arg-type]
    past.follow([], 0.0)
    assert past.p99_ns(view, by, [("operation000", "runtime")]).shape == (1, 0)  # type: ignore[arg-type]


def test_a_long_trend_is_computed_over_several_pictures_and_is_bounded() -> None:
    rows = ROWS_AT_ONCE // 3
    windows = [second(number, 10_000, rows) for number in range(6)]
    past, view = RowTrends(), View(by="operation")
    widths = []
    for _ in range(4):
        past.follow(parts(windows), windows[-1].end)
        widths.append(past.p99_ns(view, ("operation", "layer"), [("operation000", "runtime")]).shape[1])
    assert widths == [4, 6, 6, 6]
    many = [second(number, 10_000) for number in range(WINDOWS + 20)]
    past = RowTrends()
    for number in range(1, len(many) + 1):
        past.follow(parts(many[max(number - 3, 0) : number]), many[number - 1].end)
        past.p99_ns(view, ("operation", "layer"), [])
    assert past.p99_ns(view, ("operation", "layer"), []).shape[1] <= WINDOWS


def test_a_wide_table_shows_the_trend_of_p99_and_its_ratio_to_its_median() -> None:
    windows = [second(number, 80_000 if number == 9 else 10_000) for number in range(10)]
    past = RowTrends()
    past.follow(parts(windows), windows[-1].end)
    data = look(windows[-1], View(by="operation"), 200, past=past)
    cells = {column.id: cell.text for column, cell in zip(data.columns, data.rows[0].cells, strict=True)}
    assert cells["trend"] == "▁▁▁▁▁▁▁▁▁▇"
    assert cells["change"].strip() == "8.00"
    plain = look(windows[-1], View(by="operation"), 200, past=past, glyphs=ASCII)
    assert all(cell.text.isascii() for cell in plain.rows[0].cells)
    # Narrower tables leave out the ratio first, then the trend.
    narrow = {column.id for column in look(windows[-1], View(by="layer"), 140, past=past).columns}
    assert "trend" in narrow
    assert "change" not in narrow
    assert "trend" not in {
        column.id for column in look(windows[-1], View(by="layer"), 100, past=past).columns
    }


def test_small_operations_are_folded_only_while_others_lose_time() -> None:
    calls = [
        Calls(key("cudaStreamSynchronize"), [1_000_000] * 98),
        Calls(key("cudaLaunchKernel"), [900] * 9),
        Calls(key("cudaMalloc"), [900] * 9, errors=2),
    ]
    view = View(by="operation")
    one, lost = window(calls), {("cudaStreamSynchronize", "runtime"): 20.0}
    assert len(look(one, view).rows) == 3
    data = look(one, view, lost=lost)
    assert names(data) == ["cudaStreamSynchronize", "cudaMalloc"], "errors are never small"
    assert (" shows 1 more", "dim") in data.title
    assert len(look(one, view.next_only(), lost=lost).rows) == 3
    marked = {("cudaLaunchKernel", "runtime"): Cell("?", "warn")}
    assert len(look(one, view, lost=lost, marks=marked).rows) == 3
