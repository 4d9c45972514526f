"""Tests single calls derived from counts: their number, sum and maximum equal the counted ones."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.cuda_kernels import bucket_of
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS, index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.recordings.views.divide import REST, Divided, KernelPart, SeriesCounts, Single, divide

_DURATIONS = st.one_of(st.integers(0, 300), st.integers(0, 50_000), st.integers(0, HIGHEST_NS))
_CALL = st.tuples(
    st.sampled_from((REST, REST, 1, 2)),  # CUDA kernel
    _DURATIONS,
    st.booleans(),  # error
    st.integers(0, 5_000),  # bytes
    st.booleans(),  # captured
)
_ROWS = st.lists(st.lists(_CALL, max_size=25), min_size=1, max_size=4)

Counted = tuple[list[SeriesCounts], Histograms, list[KernelPart], list[Single]]


def counted(rows: list[list[tuple[int, int, bool, int, bool]]]) -> Counted:
    dense = np.zeros((len(rows), COUNTERS), np.uint64)
    sums, parts, singles = [], [], []
    for number, calls in enumerate(rows):
        if any(kernel != REST for kernel, *_ in calls):  # launches move no bytes
            calls = [(*call[:3], 0, call[4]) for call in calls]
        by_kernel = defaultdict(list)
        for kernel, duration, error, moved, kept in calls:
            dense[number, index_of(duration)] += np.uint64(1)
            by_kernel[kernel].append((duration, error))
            if kept:
                singles.append(Single(number, kernel, duration, moved, int(error)))
        durations = [duration for _, duration, *_ in calls]
        errors, moved = sum(call[2] for call in calls), sum(call[3] for call in calls)
        sums.append(SeriesCounts(len(calls), errors, moved, sum(durations), max(durations, default=0)))
        for kernel, found in by_kernel.items():
            if kernel != REST:
                buckets = sorted(Counter(bucket_of(duration) for duration, _ in found).items())
                total, longest = sum(one for one, _ in found), max(one for one, _ in found)
                failed = sum(error for _, error in found)
                parts.append(KernelPart(number, kernel, len(found), failed, total, longest, buckets))
    return sums, Histograms.from_dense(dense), parts, singles


def all_of(divided: Divided, singles: list[Single]) -> list[tuple[int, int, int, int, int, int]]:
    """Returns (row, CUDA kernel, duration, bytes, error, weight) of all calls."""
    alike = divided.alike
    columns = (divided.row, divided.kernel, alike.duration_ns, alike.bytes, alike.errors, alike.weight)
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    for at, kernel in zip(divided.kept.tolist(), divided.kept_kernel.tolist(), strict=True):
        single = singles[at]
        found.append((single.row, kernel, single.duration_ns, single.bytes, single.error, 1))
    return found


@given(_ROWS)
def test_number_sum_and_maximum_are_exact(rows: list[list[tuple[int, int, bool, int, bool]]]) -> None:
    sums, histograms, parts, singles = counted(rows)
    found = all_of(divide(sums, histograms, parts, singles), singles)
    assert all(weight > 0 and duration >= 0 for _, _, duration, _, _, weight in found)
    for number, row in enumerate(sums):
        mine = [one for one in found if one[0] == number]
        assert sum(one[5] for one in mine) == row.calls
        assert sum(one[2] * one[5] for one in mine) == row.total_ns
        assert sum(one[3] * one[5] for one in mine) == row.bytes
        assert sum(one[4] * one[5] for one in mine) == row.errors
        assert max((one[2] for one in mine), default=0) <= row.max_ns
        if not any(single.row == number for single in singles):
            kernels = [part.max_ns for part in parts if part.row == number]
            if not kernels or row.max_ns > max(kernels):
                assert max((one[2] for one in mine), default=0) == row.max_ns
    for part in parts:
        mine = [one for one in found if one[:2] == (part.row, part.kernel)]
        assert sum(one[5] for one in mine) == part.calls
        assert sum(one[2] * one[5] for one in mine) == part.total_ns
        assert max(one[2] for one in mine) == part.max_ns


@given(_ROWS)
def test_without_cuda_kernels_every_call_stays_in_its_counter(
    rows: list[list[tuple[int, int, bool, int, bool]]],
) -> None:
    rows = [[(REST, *call[1:]) for call in calls] for calls in rows]
    sums, histograms, parts, singles = counted(rows)
    found = all_of(divide(sums, histograms, parts, singles), singles)
    dense = np.zeros((len(rows), COUNTERS), np.uint64)
    for number, _, duration, _, _, weight in found:
        dense[number, index_of(duration)] += np.uint64(weight)
    assert np.array_equal(dense, histograms.dense())
    assert len(found) >= len(singles)


@given(_ROWS, st.integers(-3, 3), st.integers(0, HIGHEST_NS))
def test_the_number_of_calls_wins_over_contradicting_sums(
    rows: list[list[tuple[int, int, bool, int, bool]]], more: int, total: int
) -> None:
    sums, histograms, parts, singles = counted(rows)
    sums = [row._replace(calls=max(row.calls + more, 0), total_ns=total) for row in sums]
    parts = [part._replace(calls=part.calls + 1) for part in parts]
    found = all_of(divide(sums, histograms, parts, singles), singles)
    for number, row in enumerate(sums):
        told = sum(part.calls for part in parts if part.row == number)
        assert sum(one[5] for one in found if one[0] == number) == max(row.calls, told)
    assert all(weight > 0 for *_, weight in found)
