"""Tests histograms of many rows: their counters and percentiles equal those of hdrh."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from stalltop.model.histograms.hdr import (
    COUNTERS,
    HIGHEST_NS,
    HIGHEST_OF_INDEX,
    highest_ns,
    index_of,
    indices_of,
    lowest_ns,
)
from stalltop.model.histograms.histograms import Histograms

COUNTS = st.one_of(st.integers(1, 5), st.integers(1, 1 << 40), st.integers((1 << 52) - 3, 1 << 55))
CELLS = st.dictionaries(st.integers(0, COUNTERS - 1), COUNTS, max_size=8)
PERCENTS = st.lists(st.floats(0, 100), min_size=1, max_size=4)
PLACES = np.arange(COUNTERS)


def reference(cells: dict[int, int]) -> HdrHistogram:
    histogram = HdrHistogram(1, HIGHEST_NS, 2)
    for index, count in sorted(cells.items()):
        histogram.record_value(int(lowest_ns(np.array([index]))[0]), count)
    return histogram


def histograms(rows: list[dict[int, int]]) -> Histograms:
    dense = np.zeros((len(rows), COUNTERS), np.uint64)
    for row, cells in enumerate(rows):
        for index, count in cells.items():
            dense[row, index] = count
    return Histograms.from_dense(dense)


def test_the_geometry_equals_that_of_hdrh() -> None:
    reference_ = HdrHistogram(1, HIGHEST_NS, 2)
    assert reference_.counts_len == COUNTERS
    assert [reference_.get_value_from_index(i) for i in range(COUNTERS)] == lowest_ns(PLACES).tolist()
    assert [
        reference_.get_highest_equivalent_value(int(value)) for value in lowest_ns(PLACES)
    ] == HIGHEST_OF_INDEX.tolist()


def test_counters_cover_every_duration_once() -> None:
    assert lowest_ns(PLACES)[0] == 0
    assert np.array_equal(lowest_ns(PLACES)[1:], highest_ns(PLACES)[:-1] + 1)
    assert highest_ns(PLACES)[-1] == HIGHEST_NS
    assert np.array_equal(indices_of(lowest_ns(PLACES)), PLACES)
    assert np.array_equal(indices_of(highest_ns(PLACES)), PLACES)


@given(st.integers(0, 2**64 - 1))
def test_the_index_of_a_duration_is_that_of_its_counter(value: int) -> None:
    index = index_of(value)
    assert indices_of(np.array([value], np.uint64))[0] == index
    if value <= HIGHEST_NS:
        assert lowest_ns(np.array([index]))[0] <= value <= highest_ns(np.array([index]))[0]
    else:
        assert index == COUNTERS - 1


@settings(max_examples=20)  # hdrh is slow
@given(st.lists(CELLS, max_size=5), PERCENTS)
def test_percentiles_equal_those_of_hdrh(rows: list[dict[int, int]], percents: list[float]) -> None:
    found = histograms(rows).percentiles(percents)
    assert found.shape == (len(rows), len(percents))
    for row, cells in enumerate(rows):
        expected = reference(cells)
        for column, percent in enumerate(percents):
            value = expected.get_value_at_percentile(percent) if cells else 0
            if cells and expected.get_target_count_at_percentile(percent) > expected.get_total_count():
                # hdrh rounds the rank up to one more than the number of calls, and so finds no value.
                value = HIGHEST_OF_INDEX[max(cells)]
            assert found[row, column] == value


def test_percentiles_of_counts_near_the_limit_do_not_overflow() -> None:
    both = histograms([{10: 2**62, 20: 2**62 - 1}, {30: 1}])
    assert both.percentiles([50.0, 100.0]).tolist() == [[10, 20], [30, 30]]


def test_percentiles_without_calls_are_zero() -> None:
    assert Histograms.empty().percentiles([50.0]).shape == (0, 1)
    assert Histograms.empty(3).percentiles([0.0, 50.0]).tolist() == [[0, 0]] * 3
    assert histograms([{}, {7: 1}, {}]).percentiles([50.0]).tolist() == [[0], [7], [0]]


@given(st.lists(CELLS, max_size=5))
def test_dense_and_sparse_histograms_are_equal(rows: list[dict[int, int]]) -> None:
    sparse = histograms(rows)
    again = Histograms.from_dense(sparse.dense())
    assert np.array_equal(again.start, sparse.start)
    assert np.array_equal(again.index, sparse.index)
    assert np.array_equal(again.count, sparse.count)
    assert sparse.totals().tolist() == [sum(cells.values()) for cells in rows]


@given(st.lists(st.tuples(CELLS, st.integers(-1, 3)), max_size=6), st.booleans())
def test_grouping_adds_rows(pairs: list[tuple[dict[int, int], int]], crowded: bool) -> None:
    if crowded:  # so many entries that they are added in a dense array instead of being sorted
        pairs = [*pairs, (dict.fromkeys(range(COUNTERS), 1), 0)]
    sparse = histograms([cells for cells, _ in pairs])
    group = np.array([target for _, target in pairs], np.int64)
    expected = np.zeros((4, COUNTERS), np.uint64)
    for row, target in enumerate(group):
        if target >= 0:
            expected[target] += sparse.dense()[row]
    grouped = sparse.grouped(group, 4)
    assert len(grouped) == 4
    assert np.array_equal(grouped.dense(), expected)
    assert np.all(grouped.count > 0)


@given(st.lists(CELLS, min_size=1, max_size=4), st.data())
def test_rows_can_be_taken_in_any_order(rows: list[dict[int, int]], data: st.DataObject) -> None:
    sparse = histograms(rows)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    assert np.array_equal(sparse.take(np.array(chosen, np.int64)).dense(), sparse.dense()[chosen])


@given(st.lists(st.lists(CELLS, max_size=3), max_size=3))
def test_parts_are_concatenated(parts: list[list[dict[int, int]]]) -> None:
    together = Histograms.concatenate([histograms(part) for part in parts])
    expected = histograms([cells for part in parts for cells in part])
    assert np.array_equal(together.dense(), expected.dense())


def test_a_negated_row_is_subtracted() -> None:
    both = histograms([{3: 5, 900: 2}, {3: 5, 900: 1}])
    minus = Histograms(both.start, both.index, np.concatenate((both.count[:2], np.negative(both.count[2:]))))
    rest = minus.grouped(np.array([0, 0]), 1)
    assert (rest.index.tolist(), rest.count.tolist()) == ([900], [1])


def test_an_array_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="expected shape"):
        Histograms.from_dense(np.zeros((2, 5), np.uint64))
