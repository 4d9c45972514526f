"""Tests that merged windows of hosts have exactly the calls of these hosts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stalltop.model.fleet.rolling import percentiles_by_tenant, period_of, rolled
from stalltop.model.histograms.hdr import COUNTERS, index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, row_table, window


def hosts(count: int) -> tuple[list[Window], list[int]]:
    random = np.random.default_rng(7)
    windows, durations = [], []
    for host in range(count):
        some = random.lognormal(10, 2, 50).astype(int).tolist()
        durations += some
        rows = [Calls(key(tenant="cri:bb", pid=pid, host=f"n{host}"), some[pid::5]) for pid in range(5)]
        windows.append(window(rows, host=f"n{host}", loss={"no_slot": 2}))
    return windows, durations


def test_percentiles_are_those_of_all_calls_together() -> None:
    windows, durations = hosts(40)
    percents = (50.0, 95.0, 99.0, 99.9, 100.0)
    dense = np.zeros((1, COUNTERS), np.uint64)
    for one in durations:
        dense[0, index_of(one)] += np.uint64(1)
    expected = Histograms.from_dense(dense).percentiles(percents)[0].tolist()
    found = percentiles_by_tenant([rolled(windows, "r1", 1_000, 10)], percents)
    assert found == {"prod/serve": expected}


def test_merging_in_steps_is_merging_at_once() -> None:
    windows, _ = hosts(9)
    at_once = rolled(windows, "r1", 960, 60)
    halves = [rolled(part, "r1", 1_000, 10) for part in (windows[:4], windows[4:])]
    in_steps = rolled(halves, "r1", 960, 60)
    assert row_table(in_steps.rows) == row_table(at_once.rows)
    assert in_steps.tenants == at_once.tenants
    assert in_steps.loss == at_once.loss == {"no_slot": 18}


def test_processes_and_hosts_are_left_out() -> None:
    windows, durations = hosts(3)
    (row,) = rolled(windows, "r1", 1_000, 10).rows.keys
    assert (row.host, row.tenant, row.pid, row.process) == ("r1", "prod/serve", 0, "")
    assert rolled(windows, "r1", 1_000, 10).rows.calls.tolist() == [len(durations)]


def test_nested_calls_stay_apart() -> None:
    calls = [Calls(key(), [10]), Calls(key(nested=True), [10])]
    found = rolled([window(calls)], "r1", 1_000, 10).rows
    assert sorted(one.nested for one in found.keys) == [False, True]


def test_a_window_counts_for_the_period_of_its_middle() -> None:
    assert period_of(replace(window(), start=1_009.4, seconds=1.0), 10) == 1_000
    assert period_of(replace(window(), start=1_009.6, seconds=1.0), 10) == 1_010
