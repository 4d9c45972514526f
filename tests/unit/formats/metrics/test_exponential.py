"""Tests that exponential buckets have the calls that belong into them, with the error that is stated."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stalltop.formats.metrics.exponential import BASE, EXPONENTIAL, OFFSET, SCALE, ZERO_COLUMN
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS, HIGHEST_OF_INDEX, index_of, lowest_ns
from stalltop.model.histograms.histograms import Histograms

ERROR = 1.004
"""How far beyond an edge a call may be, as the document says."""


def edges(column: int) -> tuple[float, float]:
    """Returns the edges (s) of the bucket in a column, as the specification has them."""
    number = column - 1 + OFFSET
    return 2.0 ** (number / 2**SCALE), 2.0 ** ((number + 1) / 2**SCALE)


@given(st.lists(st.integers(0, HIGHEST_NS), min_size=1, max_size=50))
def test_each_duration_is_in_its_bucket_or_within_the_error_of_an_edge(durations: list[int]) -> None:
    dense = np.zeros((len(durations), COUNTERS), np.uint64)
    for row, duration in enumerate(durations):
        dense[row, index_of(duration)] = 1
    counts = EXPONENTIAL.counted(Histograms.from_dense(dense))
    assert counts.sum(axis=1).tolist() == [1] * len(durations)
    for row, duration in enumerate(durations):
        (column,) = np.flatnonzero(counts[row]).tolist()
        if duration == 0:
            assert column == ZERO_COLUMN
            continue
        low, high = edges(column)
        assert low / ERROR < duration / 1e9 <= high * ERROR


def test_most_counters_lie_inside_one_bucket() -> None:
    index = np.arange(1, COUNTERS)
    columns = EXPONENTIAL.of_index[index]
    inside = [
        edges(column)[0] < low / 1e9 and high / 1e9 <= edges(column)[1]
        for column, low, high in zip(
            columns.tolist(), lowest_ns(index).tolist(), HIGHEST_OF_INDEX[index].tolist(), strict=True
        )
    ]
    assert sum(inside) / len(inside) > 0.7


def test_the_columns_cover_all_durations_without_a_gap() -> None:
    assert EXPONENTIAL.number == EXPONENTIAL.of_index.max() + 1 == 1186
    assert (np.diff(EXPONENTIAL.of_index) >= 0).all()
    assert edges(1)[0] < 1e-9 <= edges(1)[1]
    assert edges(EXPONENTIAL.number - 1)[1] > HIGHEST_NS / 1e9 / ERROR
    assert 1.0218 < BASE < 1.0220
