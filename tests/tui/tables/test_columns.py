"""Tests the columns of tables, how they are chosen, and the comparison of two rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from stalltop.model.devices.device import Device, DeviceProcess, Devices
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import DIMENSIONS, Dimension
from stalltop.model.tenant import Tenant
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.window import SPLITS, Window
from stalltop.tui.columns import against, now
from stalltop.tui.columns.catalogue import (
    BY_ID,
    COLUMNS,
    IDS,
    MARK_COLUMNS,
    PAIR_COLUMNS,
    Need,
    TableColumn,
)
from stalltop.tui.columns.cells import ColumnCells
from stalltop.tui.columns.choice import (
    checked,
    columns,
    defaults,
    offered,
    sort_of,
    sorts,
)
from stalltop.tui.columns.chooser import chooser, listed, moved, possible, toggled
from stalltop.tui.columns.held_needs import HELD_SECONDS, HeldNeeds
from stalltop.tui.columns.now import trend
from stalltop.tui.pair import cells as pair_columns
from stalltop.tui.pair.table import pair_table
from stalltop.tui.tables.picking import Pair
from stalltop.tui.tables.table import available
from stalltop.tui.views.path import PathStep
from stalltop.tui.views.view import View
from stalltop.widgets.table import TableData
from tests.tui.tables.made_table import figures, look, look_at_all
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window

ALL: tuple[Need, ...] = ("split", "past", "baseline", "use", "owner", "held", "loss", "open")


@pytest.mark.parametrize(
    ("catalogued", "cells"),
    [(COLUMNS, now.CELLS), (MARK_COLUMNS, against.CELLS), (PAIR_COLUMNS, pair_columns.CELLS)],
)
def test_every_column_has_cells_and_values_if_rows_sort_by_it(
    catalogued: Sequence[TableColumn], cells: Mapping[str, ColumnCells]
) -> None:
    assert [column.id for column in catalogued] == list(cells)
    for column in catalogued:
        assert (column.sort is None) == (cells[column.id].values is not None), column.id


def test_every_column_has_an_id_of_its_own_and_a_help_line() -> None:
    every = (*COLUMNS, *MARK_COLUMNS, *PAIR_COLUMNS)
    assert len({column.id for column in every}) == len(every)
    for column in every:
        assert re.fullmatch(r"[a-z0-9_]+", column.id)
        assert column.help
        assert "\n" not in column.help
        assert len(column.heading) <= column.width
        assert column.sort in (None, "", "name") or BY_ID[column.sort].sort is None
    assert {column.needs for column in MARK_COLUMNS} == {"mark"}


def test_the_column_of_errors_needs_a_call_that_failed() -> None:
    one = window([Calls(key(), [500])])
    failed = replace(one, rows=replace(one.rows, errors=np.array([1], np.uint64)))
    assert ("errors" in available(one), "errors" in available(failed)) == (False, True)
    for width in (80, 120, 200):
        assert "errors" not in defaults("container", width, available(one))
        assert "errors" in defaults("container", width, available(failed))


def test_the_column_of_owners_needs_an_owner_of_a_row() -> None:
    one = full_window()
    nobody = {name: replace(tenant, user="", namespace="") for name, tenant in one.tenants.items()}
    gone = {"docker:gone": Tenant("docker:gone", "gone", user="7")}
    assert "owner" in available(one)
    assert "owner" not in available(replace(one, tenants={**nobody, **gone}))


@pytest.mark.parametrize("by", DIMENSIONS)
def test_default_columns_exist_and_the_essential_ones_fit(by: str) -> None:
    for width in (80, 110, 120, 150, 170, 200):
        ids = defaults(by, width, ALL)  # type: ignore[arg-type]
        assert checked(ids) == ids
        shown = columns(by, width, ALL)  # type: ignore[arg-type]
        assert [column.id for column in shown] == ["name", *ids]
        used = 1 + sum(column.width + 1 for column in shown)
        if width == 200 or (width == 120 and by not in ("process", "pod")):
            assert used <= width, (by, width, used)
        names = [column.id for column in shown]
        for essential in ("open", "split") if width == 80 else ():
            ends = 1 + sum(column.width + 1 for column in shown[: names.index(essential) + 1])
            assert ends <= width, (by, essential)


def test_chosen_columns_are_shown_in_their_order_where_the_table_has_them() -> None:
    shown = columns("container", 80, (), ("n", "p99", "split", "beside"))
    assert [column.id for column in shown] == [
        "name",
        "n",
        "p99",
    ]  # no ``split``: none is measured; no ``beside``: tables of containers do not have it
    assert [column.id for column in columns("process", 80, ALL, ("beside", "split"))][1:] == [
        "beside",
        "split",
    ]
    data = look(full_window(), View(by="process"), chosen=("procs", "beside", "n"))
    assert [cell.text.strip() for cell in data.rows[0].cells] == ["tritonserver 200", "1", "serve", "5"]
    with pytest.raises(ValueError, match="no column 'p98'; columns: beside, problem_time, calls"):
        checked(("p99", "p98"))
    with pytest.raises(ValueError, match="twice"):
        checked(("p99", "p99"))
    assert offered(("p99", "trend", "nonsense"), ()) == ("p99",)


def test_rows_show_the_mean_duration_of_their_calls_and_sort_by_it() -> None:
    calls = [Calls(key("a"), [1_000_000] * 99 + [101_000_000]), Calls(key("b"), [1_500_000] * 4)]
    data = look(window([*calls, Calls(key("c"), [])]), View(by="operation", sort="mean"), chosen=("mean",))
    assert [f"{row.label} {row.cells[-1].text.strip()}" for row in data.rows] == [
        "a 2.00ms",
        "b 1.50ms",
        "c –",
    ]


def test_rows_sort_by_the_time_in_which_their_calls_were_kept_waiting_by_the_host() -> None:
    calls = [Calls(key("a"), [10_000_000]), Calls(key("b"), [9_000_000]), Calls(key("c"), [8_000_000])]
    split = np.zeros((3, len(SPLITS)), np.uint64)
    split[0, SPLITS.index("gpu")] = 10_000_000
    for part in ("runqueue", "disk", "memory"):
        split[1, SPLITS.index(part)] = 1_000_000
    split[1, SPLITS.index("lock")] = 6_000_000
    split[2, SPLITS.index("runqueue")] = 8_000_000
    made = window(calls)
    made = replace(made, rows=replace(made.rows, split_ns=split))
    data = look(made, View(by="operation", sort="starved"), chosen=("starved",))
    assert [f"{row.label} {row.cells[-1].text.strip()}" for row in data.rows] == [
        "c 8.00ms",
        "b 3.00ms",
        "a 0ns",
    ]
    unmeasured = look(window(calls), View(by="operation", sort="starved"), chosen=("starved", "n"))
    assert [column.id for column in unmeasured.columns] == ["name", "n"]


def gpu_memory(one: Window, by: Dimension) -> list[str]:
    data = look(one, View(by=by, sort="gpu_memory"), chosen=("gpu_memory",))
    return [f"{row.label} {row.cells[-1].text.strip()}" for row in data.rows]


def test_rows_show_the_gpu_memory_of_their_processes() -> None:
    two = [Device(0, "GPU-0", ""), Device(1, "GPU-1", "")]
    held = [
        (DeviceProcess(100, "C", 3 << 30, "docker:aa"), DeviceProcess(200, "C", 1 << 30, "cri:bb")),
        (DeviceProcess(100, "C", 1 << 30, "docker:aa"), DeviceProcess(300, "C", None, "docker:aa")),
    ]
    devices = Devices(tuple(replace(one, processes=on) for one, on in zip(two, held, strict=True)))
    calls = [
        Calls(key("a", device="0"), [1_000]),
        Calls(key("b", device="1"), [1_000]),
        Calls(key("a", tenant="cri:bb", pid=200, device="0"), [1_000]),
        Calls(key("a", pid=300, process="other", device="1"), [1_000]),
    ]
    one = replace(window(calls), devices=devices)
    assert gpu_memory(one, "container") == ["train 4.00GiB", "serve 1.00GiB"]
    # The driver reports no memory for process 300.
    assert gpu_memory(one, "process") == ["python3 100 4.00GiB", "python3 200 1.00GiB", "other 300 –"]
    assert gpu_memory(one, "device") == ["GPU 0 4.00GiB", "GPU 1 1.00GiB"]
    assert gpu_memory(replace(one, devices=Devices()), "container") == ["serve –", "train –"]


def test_rows_sort_by_shown_columns_only() -> None:
    shown = columns("operation", 200, ALL, ("bar", "share", "n", "max", "split", "trend"))
    assert sorts(shown) == ("name", "total", "calls", "max", "change")
    assert sort_of("split") == ""
    assert sort_of("beside") == "name"
    assert sort_of("nonsense") == ""


def test_unknown_values_sort_last_in_both_directions() -> None:
    one = full_window()  # ncclCommInitRank hangs: none of its calls is counted
    for descending in (True, False):
        rows = look(one, View(by="operation", sort="p99", descending=descending)).rows
        assert rows[-1].label == "ncclCommInitRank"


def test_percentiles_of_few_calls_are_unsure_and_errors_stand_out() -> None:
    data = look(window([Calls(key(), [1_000], errors=1)]), View())
    found = {column.id: cell for column, cell in zip(data.columns, data.rows[0].cells, strict=True)}
    assert [name for name, cell in found.items() if cell.unsure] == ["p50", "p95", "p99"]
    assert found["errors"].role == "bright"


@pytest.mark.parametrize(("ns", "role"), [(850_000, "dim"), (14_700_000, "text"), (2_500_000_000, "bright")])
def test_the_longer_a_duration_the_brighter(ns: int, role: str) -> None:
    data = look(window([Calls(key(), [ns])]), View())
    found = {column.id: cell.role for column, cell in zip(data.columns, data.rows[0].cells, strict=True)}
    assert [found[name] for name in ("p50", "p95", "p99", "max")] == [role] * 4
    # A sum grows with the window and with the threads.
    assert found["total"] == ("" if role == "bright" else role)


@pytest.mark.parametrize(
    ("past", "text"),
    [
        ([], "    "),
        ([float("nan")] * 6, "    "),
        ([5.0], "   ▁"),
        ([100, 100, 101, 100], "▁▁▁▁"),
        ([100, 200, 400, 800], "▁▃▅▇"),
        ([1, 2, float("nan"), 64], "▁▂ ▇"),
        ([9e9, 1, 1, 1, 1e12], "▁▁▁▇"),
        ([0.0, 1.0], "  ▁"),
    ],
)
def test_a_trend_is_as_wide_as_asked_with_the_newest_at_the_right(past: list[float], text: str) -> None:
    found = trend(np.array(past, np.float64), most=4)
    assert found == text.rjust(4)
    plain = trend(np.array(past, np.float64), most=4, glyphs=ASCII)
    assert plain.isascii()
    assert len(plain) == 4


# ---- choosing


def test_columns_are_shown_hidden_and_moved() -> None:
    ids = ("calls", "p99", "n")
    assert toggled(ids, "p99") == ("calls", "n")
    assert toggled(ids, "max") == ("calls", "p99", "n", "max")
    assert moved(ids, "n", -1) == ("calls", "n", "p99")
    assert moved(ids, "n", 5) == ids
    assert moved(ids, "calls", -1) == ids
    assert moved(ids, "max", 1) == ids
    assert set(listed(ids, possible("process"))) == set(IDS)
    assert listed(ids, possible("process"))[:3] == ids


def test_the_list_of_columns_says_what_each_shows() -> None:
    for glyphs in (UNICODE, ASCII):
        data = chooser(
            "containers", ("p99", "n"), listed(("p99", "n"), possible("process")), width=80, glyphs=glyphs
        )
        assert [row.key for row in data.rows[:2]] == ["p99", "n"]
        assert [row.cells[1].text for row in data.rows[:3]] == ["1", "2", ""]
        assert all(row.cells[2].text == BY_ID[str(row.key)].help for row in data.rows)
        assert glyphs is UNICODE or all(cell.text.isascii() for row in data.rows for cell in row.cells)


# ---- two rows


def steps(*names: str) -> tuple[PathStep, ...]:
    dimensions = ("container", "operation", "process")
    return tuple(PathStep(dimensions[at], name, name) for at, name in enumerate(names))  # type: ignore[arg-type]


def pair(a: tuple[PathStep, ...], b: tuple[PathStep, ...]) -> Pair:
    found = Pair.of(a, b)
    assert found is not None
    return found


def test_only_two_rows_of_one_kind_can_be_compared() -> None:
    assert Pair.of((), steps("a")) is None
    assert Pair.of(steps("a"), steps("a")) is None
    assert Pair.of(steps("a"), steps("a", "b")) is None
    assert pair(steps("a"), steps("b")).view.by == "operation"
    # Rows inside two different containers have no process in common, so the comparison lists operations.
    assert pair(steps("a", "x"), steps("b", "x")).view.by == "operation"
    assert pair(steps("a", "x"), steps("a", "y")).view.by == "process"
    assert pair(steps("a", "x", "p"), steps("a", "x", "q")).view.by == "operation"


def test_a_comparison_of_two_containers_sorts_by_difference() -> None:
    def calls(tenant: str, operation: str, durations: list[int]) -> Calls:
        return Calls(key(operation, tenant=tenant), durations)

    one = window(
        [
            calls("docker:aa", "cudaLaunchKernel", [10_000] * 100),
            calls("cri:bb", "cudaLaunchKernel", [40_000] * 100),
            calls("docker:aa", "cudaMalloc", [5_000_000]),
            calls("cri:bb", "cudaFree", [1_000]),
        ]
    )
    both = pair(steps("docker:aa"), steps("cri:bb"))
    data = pair_table(one, both, width=80)
    assert [row.label for row in data.rows] == ["cudaMalloc", "cudaLaunchKernel", "cudaFree"]
    texts = {
        row.label: {c.id: cell.text.strip() for c, cell in zip(data.columns, row.cells, strict=True)}
        for row in data.rows
    }
    launch = texts["cudaLaunchKernel"]
    assert (launch["p99_a"], launch["p99_b"], launch["ratio"]) == ("10.0µs", "40.0µs", "4.00")
    assert (launch["total_a"], launch["total_b"], launch["more"]) == ("1.00ms", "4.00ms", "+3.00ms")
    assert (texts["cudaMalloc"]["p99_b"], texts["cudaMalloc"]["more"]) == ("–", "-5.00ms")
    assert (texts["cudaFree"]["p99_a"], texts["cudaFree"]["ratio"]) == ("–", "–")
    assert "A docker:aa   B cri:bb" in "".join(text for text, _ in data.title)
    # The columns up to the calls of the second container fit into 80 cells.
    used = 1 + sum(
        column.width + 1 for column in data.columns[: [c.id for c in data.columns].index("calls_b") + 1]
    )
    assert used <= 80
    up = pair_table(one, both, sort="ratio", descending=False, width=80)
    assert up.rows[0].label == "cudaLaunchKernel"
    for column in data.columns:
        for descending in (True, False):
            assert len(pair_table(one, both, sort=column.id, descending=descending, width=80).rows) == 3
    plain = pair_table(one, both, width=80, glyphs=ASCII)
    assert all(cell.text.isascii() for row in plain.rows for cell in row.cells)


def test_a_comparison_shows_the_splits_of_both_rows() -> None:
    calls = [Calls(key(tenant=tenant), [10_000] * 100) for tenant in ("docker:aa", "cri:bb")]
    both = pair(steps("docker:aa"), steps("cri:bb"))
    data = pair_table(window(calls, split=True), both, width=80)
    ids = [column.id for column in data.columns]
    split = [data.rows[0].cells[ids.index(name)].parts for name in ("split_a", "split_b")]
    assert split[0] == split[1] == (("R", "text"), ("━" * 9, "running_line"))
    assert 1 + sum(column.width + 1 for column in data.columns[: ids.index("split_b") + 1]) <= 80
    assert "split_a" not in [column.id for column in pair_table(window(calls), both, width=80).columns]


def test_both_sides_of_a_comparison_equal_the_tables_inside_each_row() -> None:
    one = full_window()
    names = {"cri:bb": "serve", "docker:aa": "train"}
    data = pair_table(one, pair(steps("docker:aa"), steps("cri:bb")), width=200)
    for side, tenant in (("a", "docker:aa"), ("b", "cri:bb")):
        flat = dict(figures(look_at_all(one, replace(View().entered(tenant, names[tenant]), only="nested"))))
        for row in data.rows:
            texts = {c.id: cell.text for c, cell in zip(data.columns, row.cells, strict=True)}
            assert isinstance(row.key, tuple)
            mine = flat.get(row.key, dict.fromkeys(("calls", "p50", "p99", "total"), "–"))
            for name in ("calls", "p50", "p99", "total"):
                assert texts[f"{name}_{side}"].strip() == mine[name].strip()


def test_a_comparison_without_rows_says_so() -> None:
    data: TableData = pair_table(replace(window()), pair(steps("a"), steps("b")), width=80)
    assert not data.rows
    assert "Neither" in data.empty[0]


def normal_window(normals: dict[RowKey, tuple[int, int]]) -> Window:
    """Return a window of one tenant with the baselines ``normals`` and two operations, ``a`` and ``b``.

    ``a`` takes three times as long as ``b``.
    """
    calls = [Calls(key("a"), [3_000_000] * 200), Calls(key("b"), [1_000_000] * 200)]
    return replace(window(calls), normals=normals)


def against_normal(one: Window, by: Dimension) -> list[str]:
    data = look(one, View(by=by, sort="normal"), chosen=("normal",))
    return [f"{row.label} {row.cells[-1].text.strip()}" for row in data.rows]


def test_rows_show_their_ratio_to_the_baseline_and_sort_by_it() -> None:
    one = normal_window({key("a"): (1, 3_000_000), key("b"): (1, 400_000)})
    assert against_normal(one, "operation") == ["b 2.50", "a 1.00"]


def test_a_row_of_several_operations_has_the_mean_ratio_weighted_by_time() -> None:
    # b takes twice its baseline and has a quarter of the time; a takes exactly its baseline. The mean ratio
    # is 2 ** 0.25, which is 1.19.
    one = normal_window({key("a"): (1, 3_000_000), key("b"): (1, 500_000)})
    assert against_normal(one, "container") == ["train 1.19"]
    # Operations without a baseline do not count in the mean.
    assert against_normal(normal_window({key("b"): (1, 500_000)}), "container") == ["train 2.00"]


def test_an_operation_without_a_baseline_shows_a_dash_and_without_any_there_is_no_column() -> None:
    assert against_normal(normal_window({key("b"): (1, 500_000)}), "operation") == ["b 2.00", "a –"]
    assert [column.id for column in look(normal_window({}), View(), chosen=("normal", "n")).columns] == [
        "name",
        "n",
    ]


def test_rows_show_the_time_that_they_lose_through_problems_and_sort_by_it() -> None:
    one = full_window()
    assert "problem_time" not in {column.id for column in look(one, View()).columns}
    for width in (80, 120, 200):
        data = look(one, View(sort="problem_time"), width, lost={("docker:aa",): 12.0})
        assert [column.id for column in data.columns][1] == "problem_time"
        assert [row.cells[1].text.strip() for row in data.rows] == ["12.0ms", ""]


def test_columns_of_what_comes_and_goes_stay_for_a_while() -> None:
    needs = HeldNeeds()
    assert needs.hold("container", {"split", "open"}, 100.0) == {"split", "open"}
    assert needs.hold("container", set(), 100.0 + HELD_SECONDS - 1) == {"open"}
    assert needs.hold("process", set(), 101.0) == set()
    assert needs.hold("container", set(), 99.0) == set(), "after a step into the past"
    assert needs.hold("container", set(), 100.0 + HELD_SECONDS) == set()
