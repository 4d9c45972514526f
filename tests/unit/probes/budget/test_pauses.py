"""Tests what calls after pauses are estimated to cost, as a number of calls."""

from __future__ import annotations

import numpy as np
import pytest

from stalltop.model.histograms.hdr import COUNTERS, index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.probes.budget.demand import PAUSES, Demand, Rate, calls_by_process
from stalltop.probes.budget.pauses import extra_calls
from stalltop.probes.layout import HOST_GAP
from stalltop.probes.maps.slots import Counts, SlotKey
from stalltop.probes.tracer.calibrating import ProbeTime

MS = 1_000_000
PAUSE_CALLS = 5.0


def counts(*rows: tuple[int, int, dict[int, int]]) -> Counts:
    """Counts of rows: PID, operation, and number of calls (or gaps) by duration in ns."""
    dense = np.zeros((len(rows), COUNTERS), np.uint64)
    for row, (_, _, durations) in enumerate(rows):
        for ns, count in durations.items():
            dense[row, index_of(ns)] += np.uint64(count)
    keys = tuple(SlotKey(1, pid, operation, nested=False) for pid, operation, _ in rows)
    calls = dense.sum(axis=1)
    return Counts(keys, calls, calls, calls, calls, calls, Histograms.from_dense(dense))


def test_a_call_after_a_pause_costs_more_the_longer_it_was() -> None:
    def extra(gap_ns: int) -> float:
        return extra_calls(counts((7, HOST_GAP, {gap_ns: 100})), PAUSE_CALLS)[7]

    assert extra(MS) == pytest.approx(100 * PAUSE_CALLS, rel=0.01)
    assert extra(4 * MS) == pytest.approx(200 * PAUSE_CALLS, rel=0.01)
    assert extra(MS // 4) == pytest.approx(50 * PAUSE_CALLS, rel=0.01)
    assert extra(MS // 10) == pytest.approx(50 * PAUSE_CALLS, rel=0.01)
    assert extra(5_000) == 0.0, "no pause"
    assert extra(10_000 * MS) == extra(60_000 * MS), "caches are not colder than cold"


def test_pauses_are_those_of_each_process_and_calls_are_not_pauses() -> None:
    found = extra_calls(
        counts((7, HOST_GAP, {MS: 10, 500: 90}), (7, 1, {MS: 100}), (8, HOST_GAP, {MS: 2}), (9, 1, {500: 3})),
        PAUSE_CALLS,
    )
    assert found == pytest.approx({7: 50.0, 8: 10.0}, rel=0.01)
    assert extra_calls(counts(), PAUSE_CALLS) == {}


def test_they_are_part_of_what_a_process_costs() -> None:
    told = counts((7, 1, {500: 100}), (7, HOST_GAP, {MS: 10}))
    extra = {7: 50.0}
    assert calls_by_process(told, extra) == {7: 150.0}
    rates = Demand().add(told, extra, 2.0)
    assert rates is not None
    assert rates[7][PAUSES] == Rate(0.0, 25.0)
    assert sum(rate.calls for rate in rates[7].values()) == 75.0


def test_the_cost_of_a_pause_is_a_number_of_calls() -> None:
    assert ProbeTime(1_000.0, 5_000.0).pause_calls == 5.0
    assert ProbeTime(0.0, 0.0).pause_calls == 0.0
