"""Tests that the buckets of histograms for Prometheus have exactly the calls that belong into them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stalltop.formats.metrics.buckets import EDGES, EDGES_NS, POWERS
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS, index_of, lowest_ns
from stalltop.model.histograms.histograms import Histograms

EXACT = st.one_of(
    st.integers(0, HIGHEST_NS),
    st.sampled_from(EDGES_NS),
    st.sampled_from(EDGES_NS).map(lambda edge: edge + 1),
)


@given(st.lists(st.lists(EXACT, max_size=30), min_size=1, max_size=4))
def test_each_bucket_has_exactly_the_durations_up_to_its_edge(rows: list[list[int]]) -> None:
    dense = np.zeros((len(rows), COUNTERS), np.uint64)
    for number, durations in enumerate(rows):
        for duration in durations:
            dense[number, index_of(duration)] += np.uint64(1)
    cumulative = np.cumsum(POWERS.counted(Histograms.from_dense(dense)), axis=1).tolist()
    wanted = [
        [sum(duration <= edge for duration in durations) for edge in (*EDGES_NS, HIGHEST_NS)]
        for durations in rows
    ]
    assert cumulative == wanted


def test_no_counter_lies_on_both_sides_of_an_edge() -> None:
    lowest = lowest_ns(np.arange(COUNTERS))
    assert set(np.array(EDGES_NS) + 1) <= set(lowest.tolist())


def test_edges_are_seconds_and_double() -> None:
    assert len(EDGES) == POWERS.number == 28
    assert EDGES[0] == "1.023e-06"
    assert EDGES[-1] == "+Inf"
    assert [round(float(edge) * 1e9) for edge in EDGES[:-1]] == list(EDGES_NS)
    ratios = (np.array(EDGES_NS[1:]) + 1) / (np.array(EDGES_NS[:-1]) + 1)
    assert set(ratios.tolist()) == {2.0}
