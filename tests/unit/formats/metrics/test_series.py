"""Tests that the number of series is bounded, that the sum over them is complete, and that no total falls."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stalltop.formats.metrics.series import BoundedSeries


class Tag(NamedTuple):
    name: str


class TaggedLabels(NamedTuple):
    tag: Tag
    kind: str


REST = TaggedLabels(Tag("other"), "other")


def labels(number: int) -> TaggedLabels:
    return TaggedLabels(Tag(f"t{number}"), f"k{number % 3}")


def add(series: BoundedSeries[TaggedLabels], counted: dict[int, int], start: float = 0.0) -> None:
    values = np.array([[value, 1] for value in counted.values()], np.uint64).reshape(len(counted), 2)
    series.add([labels(number) for number in counted], values, start)


def totals(series: BoundedSeries[TaggedLabels]) -> dict[TaggedLabels, list[int]]:
    return {one.labels: one.values.tolist() for one in series}


@given(st.lists(st.dictionaries(st.integers(0, 9), st.integers(0, 1000), max_size=8), max_size=12))
def test_the_sum_is_complete_and_no_total_falls(windows: list[dict[int, int]]) -> None:
    series: BoundedSeries[TaggedLabels] = BoundedSeries(2, 4, REST)
    expected: Counter[int] = Counter()
    before: dict[TaggedLabels, list[int]] = defaultdict(lambda: [0, 0])
    for number, counted in enumerate(windows):
        add(series, counted, float(number + 1))
        expected.update(counted)
        now = totals(series)
        assert len(series) <= 4
        assert sum(values[0] for values in now.values()) == expected.total()
        assert all(values[0] >= before[name][0] for name, values in now.items())
        before.update(now)


def test_the_largest_of_many_new_labels_get_the_places() -> None:
    series: BoundedSeries[TaggedLabels] = BoundedSeries(2, 2, REST)
    add(series, {1: 5, 2: 70, 3: 60, 4: 1}, 10.0)
    assert totals(series) == {labels(2): [70, 1], labels(3): [60, 1], REST: [6, 2]}
    assert series.folded == 2
    add(series, {2: 1})
    assert series.folded == 0


def test_a_free_place_begins_at_zero_and_the_rest_keeps_what_it_has() -> None:
    series: BoundedSeries[TaggedLabels] = BoundedSeries(2, 1, REST)
    add(series, {1: 5}, 10.0)
    add(series, {2: 7}, 20.0)
    series.drop({Tag("t1")})
    assert totals(series) == {REST: [7, 1]}
    add(series, {2: 8}, 30.0)
    assert totals(series) == {labels(2): [8, 1], REST: [7, 1]}
    assert {one.labels: one.created for one in series} == {labels(2): 30.0, REST: 20.0}


def test_rows_with_equal_labels_share_one_series() -> None:
    series: BoundedSeries[TaggedLabels] = BoundedSeries(2, 1, REST)
    series.add([labels(1), labels(1)], np.array([[3, 1], [4, 1]], np.uint64), 5.0)
    assert totals(series) == {labels(1): [7, 2]}
