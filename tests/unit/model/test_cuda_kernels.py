"""Tests counts of launches by CUDA kernel: buckets of durations, and sums of windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.cuda_kernels import (
    BUCKETS,
    MOST_KERNELS,
    KernelCount,
    MovingKernels,
    added_kernels,
    bucket_highest_ns,
    bucket_lowest_ns,
    bucket_of,
)
from stalltop.model.histograms.hdr import HIGHEST_NS
from tests.windows.drawn import random_kernels


def count(kernel: str = "scale", calls: int = 1, ns: int = 1_000, pid: int = 1) -> KernelCount:
    return KernelCount(
        *("docker:aa", pid, "python3", "runtime", "cudaLaunchKernel", False),
        *(kernel, calls, 0, calls * ns, ns, ((bucket_of(ns), calls),)),
    )


@given(st.integers(0, HIGHEST_NS))
def test_a_duration_lies_in_its_bucket(ns: int) -> None:
    bucket = bucket_of(ns)
    assert 0 <= bucket < BUCKETS
    assert bucket_lowest_ns(bucket) <= ns <= bucket_highest_ns(bucket)


def test_buckets_are_contiguous_four_to_an_octave() -> None:
    edges = [bucket_lowest_ns(bucket) for bucket in range(BUCKETS)]
    assert edges[0] == 0
    assert [bucket_highest_ns(bucket) + 1 for bucket in range(BUCKETS)] == [*edges[1:], HIGHEST_NS + 1]
    assert [edges[at + 4] / edges[at] for at in range(4, BUCKETS - 4)] == [2.0] * (BUCKETS - 8)


@pytest.mark.parametrize("bucket", [-1, BUCKETS])
def test_other_bucket_numbers_are_refused(bucket: int) -> None:
    for edge in (bucket_lowest_ns, bucket_highest_ns):
        with pytest.raises(IndexError):
            edge(bucket)


def test_counts_of_one_cuda_kernel_add_up() -> None:
    both = added_kernels([[count(calls=2), count("add")], [], [count(ns=5_000)]])
    assert both == (
        count()._replace(
            calls=3, total_ns=7_000, max_ns=5_000, buckets=((bucket_of(1_000), 2), (bucket_of(5_000), 1))
        ),
        count("add"),
    )


@given(st.lists(st.integers(0, 1 << 32), min_size=1, max_size=8), st.data())
def test_a_moving_sum_equals_the_sum_of_the_parts_left(seeds: list[int], data: st.DataObject) -> None:
    parts = [random_kernels(seed) for seed in seeds]
    gone = data.draw(st.integers(0, len(parts)))
    moving = MovingKernels()
    for part in parts:
        moving.add(part)
    for part in parts[:gone]:
        moving.remove(part)
    assert sorted(moving.sum()) == sorted(added_kernels(parts[gone:]))
    assert moving.sum() == moving.sum()


def test_an_unbounded_sum_keeps_the_cuda_kernels_with_most_time() -> None:
    moving = MovingKernels()
    moving.add([count(f"kernel {number}", ns=1_000 + number) for number in range(MOST_KERNELS + 1)])
    moving.add([count("mine", pid=2, ns=1 << 30)])
    moving.bound({2})
    kept = moving.sum()
    assert len(kept) == MOST_KERNELS // 2
    assert {kernel.pid for kernel in kept} == {0, 2}
    assert min(kernel.total_ns for kernel in kept) > 1_000 + MOST_KERNELS // 2


def test_counts_of_ended_programs_are_folded() -> None:
    moving = MovingKernels()
    for pid in range(1, MOST_KERNELS + 2):
        moving.add([count(pid=pid)])
    moving.bound(set())
    assert moving.sum() == (count(calls=MOST_KERNELS + 1, pid=0),)
