"""Tests the order "worst first", and how the loss of a problem is divided among rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from stalltop.model.chain import Chain
from stalltop.model.row_key import RowKey
from stalltop.model.rows.filter import parse
from stalltop.model.telling import Telling
from stalltop.model.window import SPLITS, Window
from stalltop.tui.problems.rows import LEAST_SHARE, row_losses
from stalltop.tui.tables.table import lines_of
from stalltop.tui.tables.worst_first import LOOKS, WorstFirst
from stalltop.tui.views.groups import grouped
from stalltop.tui.views.trends import NO_TRENDS
from stalltop.tui.views.view import View
from tests.tui.faults import chain
from tests.windows.by_hand import Calls, key, window

NAMES = ("cuA", "cuB", "cuC")
MS = 1_000_000


def made(number: int, *each_ms: float, normal_ms: dict[str, float] | None = None) -> Window:
    """Return the ``number``-th window, in which each of NAMES makes 30 calls of ``each_ms``."""
    calls = [Calls(key(name), [round(ms * MS)] * 30) for name, ms in zip(NAMES, each_ms, strict=True)]
    one = window(calls, start=1_000.0 + number)
    normals = {key(name): (round(ms * MS), round(ms * MS)) for name, ms in (normal_ms or {}).items()}
    return replace(one, normals=normals)


def names(
    worst: WorstFirst, one: Window, chains: tuple[Chain, ...] = (), descending: bool = True
) -> list[str]:
    view = View(by="operation", descending=descending)
    lost = row_losses(chains, one, view).lost_ms_per_s
    lines = lines_of(one, view, parse(""), None, NO_TRENDS, {}, lost, worst)
    return [line.key[0] for line in lines]


def test_rows_with_a_problem_come_first_then_slow_ones_then_large_ones() -> None:
    one = made(0, 1, 2, 9, normal_ms={"cuA": 1, "cuB": 0.5, "cuC": 9})
    assert names(WorstFirst(), one) == ["cuB", "cuC", "cuA"]
    assert names(WorstFirst(), one, (chain("storm", key("cuA")),)) == ["cuA", "cuB", "cuC"]
    assert names(WorstFirst(), one, descending=False) == ["cuA", "cuC", "cuB"]
    # A p99 only a little above the baseline, or a p99 of few calls, does not move a row up.
    one = made(0, 1, 2, 9, normal_ms={"cuA": 1, "cuB": 1.5, "cuC": 9})
    assert names(WorstFirst(), one) == ["cuC", "cuB", "cuA"]
    few = replace(window([Calls(key("cuA"), [9 * MS] * 5), Calls(key("cuB"), [10 * MS] * 9)]))
    few = replace(few, normals={key("cuA"): (1, 1)})
    assert names(WorstFirst(), few) == ["cuB", "cuA"]


def test_a_row_moves_only_after_three_looks() -> None:
    worst = WorstFirst()
    assert names(worst, made(0, 3, 2, 1)) == ["cuA", "cuB", "cuC"]
    for number in range(1, LOOKS):
        assert names(worst, made(number, 3, 9, 1)) == ["cuA", "cuB", "cuC"]
        # Drawing the same window again does not count as another window.
        assert names(worst, made(number, 3, 9, 1)) == ["cuA", "cuB", "cuC"]
    assert names(worst, made(LOOKS, 3, 9, 1)) == ["cuB", "cuA", "cuC"]


def test_small_changes_and_short_ones_move_nothing() -> None:
    worst = WorstFirst()
    names(worst, made(0, 3, 2.5, 1))
    for number in range(1, 20):
        wild = 30 if number % LOOKS == 0 else 1  # never in LOOKS consecutive windows
        assert names(worst, made(number, 2.6, 3.4, wild)) == ["cuA", "cuB", "cuC"]


def test_a_change_of_direction_begins_a_new_count() -> None:
    worst = WorstFirst()
    names(worst, made(0, 4, 2, 1))
    for number, ms in enumerate((9, 9, 0.1, 9, 9), start=1):
        assert names(worst, made(number, 4, ms, 1))[0] == "cuA"
    assert names(worst, made(6, 4, 9, 1))[0] == "cuB"


def test_new_rows_find_their_place_at_once_and_the_past_is_shown_as_it_was() -> None:
    worst = WorstFirst()
    first = window([Calls(key("cuA"), [3 * MS] * 30)], start=1_000.0)
    assert names(worst, first) == ["cuA"]
    assert names(worst, made(1, 3, 9, 1)) == ["cuB", "cuA", "cuC"]
    assert names(worst, made(-5, 1, 2, 3)) == ["cuC", "cuB", "cuA"]


def test_many_rows_are_sorted_quickly() -> None:
    import time

    one = window([Calls(key(f"op{n:04}"), [1000 + n] * 2) for n in range(2_000)])
    rows = grouped(one, ("operation", "layer"))
    worst, by_name = WorstFirst(), np.arange(len(rows))
    worst.order("t", rows, {}, by_name)
    later = grouped(replace(one, start=one.start + 1), ("operation", "layer"))
    began = time.process_time()
    worst.order("t", later, {}, by_name)
    assert time.process_time() - began < 0.2


# ---- shares


def _split(one: Window, part: str, *ns: int) -> Window:
    split = np.zeros((len(ns), len(SPLITS)), np.uint64)
    split[:, SPLITS.index(part)] = ns
    return replace(one, rows=replace(one.rows, split_ns=split))


@pytest.mark.parametrize(
    ("parts", "marked"),
    [
        (("runqueue",), {"cuA"}),  # the loss is divided by run-queue time
        ((), {"cuC"}),  # the loss is divided by total time
        (("disk",), {"cuC"}),  # no row waited for a disk: divided by total time
    ],
)
def test_a_letter_marks_rows_with_a_large_part_of_the_loss(parts: tuple[str, ...], marked: set[str]) -> None:
    one = _split(made(0, 1, 1, 98), "runqueue", 90 * MS, 5 * MS, 5 * MS)
    rows: tuple[RowKey, ...] = tuple(key(name) for name in NAMES)
    fault = chain("cpu_contention", rows[0], rows=rows, lost_ms_per_s=100.0, severity="high")
    found = row_losses((fault,), one, View(by="operation"), {fault.cause: Telling("x", "x", parts=parts)})
    assert {name for name, _ in found.marks} == marked
    assert {mark.text for mark in found.marks.values()} == {"H"}
    assert all(lost >= 100.0 * LEAST_SHARE for lost in found.lost_ms_per_s.values())
    # In the table of containers the row of the chain's tenant has the whole loss.
    (whole,) = row_losses((fault,), one, View(), {}).lost_ms_per_s.values()
    assert whole == pytest.approx(100.0)


def test_a_problem_of_a_device_marks_all_its_tenants_but_only_large_losses_of_other_rows() -> None:
    one = made(0, 1, 1, 98)
    rows: tuple[RowKey, ...] = tuple(key(name) for name in NAMES)
    hot = replace(chain("gpu_thermal", rows[0], rows=rows, lost_ms_per_s=100.0, severity="high"), tenant="")
    operations = row_losses((hot,), one, View(by="operation")).marks
    assert {name for name, _ in operations} == {"cuC"}
    small = replace(one, rows=replace(one.rows, keys=tuple(_of_tenants(one.rows.keys))))
    named = replace(hot, rows=tuple(small.rows.keys))
    assert len(row_losses((named,), small, View()).marks) == len(NAMES)


def _of_tenants(keys: Iterable[RowKey]) -> Iterator[RowKey]:
    """Yield ``keys``, each with a tenant of its own."""
    for number, one in enumerate(keys):
        yield one._replace(tenant=f"docker:{number}")


def test_calls_that_all_hang_share_a_loss_equally() -> None:
    one = made(0, 1, 1, 1)
    hung = tuple(key(name, pid=7) for name in NAMES)
    fault = chain("nccl_hang", hung[0], rows=hung, lost_ms_per_s=900.0)
    found = row_losses((fault,), one, View(by="operation"))
    assert set(found.lost_ms_per_s.values()) == {300.0}
