"""Launches by CUDA kernel: how often each CUDA kernel was launched, and how long the launching calls took.

Durations are counted in buckets that are coarser than the counters of a row's histogram: there are four
buckets per factor of 2, and each bucket stands for 32 neighbouring counters (``model.histograms.hdr``). If
the launches of unknown CUDA kernels are included, the buckets of a row therefore add up to the row's
histogram.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_OF_INDEX, index_of

_COUNTERS_OF_BUCKET: Final = 32
BUCKETS: Final = COUNTERS // _COUNTERS_OF_BUCKET
"""Number of buckets: 124."""
MOST_KERNELS: Final = 4096
"""Maximum number of ``KernelCount`` records in a sum that covers all windows since the first. If there are
more, records of processes without calls in the newest window are added up under PID 0; if there are still
more than half of the maximum, only half of the maximum is kept: the records with the most time."""

_HIGHEST: Final[tuple[int, ...]] = tuple(
    HIGHEST_OF_INDEX[_COUNTERS_OF_BUCKET - 1 :: _COUNTERS_OF_BUCKET].tolist()
)


class KernelCount(NamedTuple):
    """Launches of one CUDA kernel in one row (``tenant`` to ``nested``, and ``device``) of a window.

    Launches that a row counts and no KernelCount counts are launches of unknown CUDA kernels. Only outermost
    calls are counted by CUDA kernel, because a driver launch nested in a runtime launch is the same launch.
    """

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    nested: bool
    kernel: str
    """Demangled name: ``void scale<float>(float*, int)``; '' if unknown."""
    calls: int
    errors: int
    total_ns: int
    """Duration of the launching calls, not of the CUDA kernel on the device."""
    max_ns: int
    buckets: tuple[tuple[int, int], ...]
    """(bucket, calls) in ascending order of the buckets; buckets without calls are left out."""
    device: str = ""
    """Label of the device that the launching calls ran on; '' if unknown."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """Key of the row that counts these launches: its ``RowKey`` without the host."""
        return (*self[:6], self.device)

    @property
    def key(self) -> tuple[tuple[str, int, str, str, str, bool, str], str]:
        """Identifies the count: row and CUDA kernel."""
        return self.row, self.kernel


def bucket_of(duration_ns: int) -> int:
    """Returns the bucket that counts a call of ``duration_ns``."""
    return index_of(duration_ns) // _COUNTERS_OF_BUCKET


def bucket_lowest_ns(bucket: int) -> int:
    """Returns the lowest duration (ns) that ``bucket`` counts. Raises IndexError if there is no such
    bucket."""
    if not 0 <= bucket < BUCKETS:
        raise IndexError(f"there is no bucket {bucket}")
    return _HIGHEST[bucket - 1] + 1 if bucket else 0


def bucket_highest_ns(bucket: int) -> int:
    """Returns the highest duration (ns) that ``bucket`` counts. Raises IndexError if there is no such
    bucket."""
    if not 0 <= bucket < BUCKETS:
        raise IndexError(f"there is no bucket {bucket}")
    return _HIGHEST[bucket]


def added_kernels(parts: Iterable[Iterable[KernelCount]]) -> tuple[KernelCount, ...]:
    """Adds up the counts of several windows by row and CUDA kernel, in order of first appearance."""
    some = [tuple(part) for part in parts]
    if sum(map(bool, some)) <= 1:
        return next(filter(None, some), ())
    sums = MovingKernels()
    for part in some:
        sums.add(part)
    return sums.sum()


def with_kernel_tenants(
    kernels: Iterable[KernelCount], renamed: Callable[[str], str]
) -> tuple[KernelCount, ...]:
    """Replaces each tenant id in ``kernels`` by ``renamed(id)``."""
    return tuple([kernel._replace(tenant=renamed(kernel.tenant)) for kernel in kernels])


class _KernelSum:
    """Sum of the counts of one CUDA kernel in one row."""

    __slots__ = ("buckets", "built", "calls", "errors", "largest", "total_ns", "windows")

    def __init__(self) -> None:
        self.calls = self.errors = self.total_ns = 0
        self.windows = 0
        """Number of windows that have a count of this CUDA kernel in this row."""
        self.buckets: dict[int, int] = {}
        self.largest: deque[tuple[int, int]] = deque()
        """Monotonic queue for the sliding maximum: (number of a window, ``max_ns`` in that window), with
        ``max_ns`` descending."""
        self.built: KernelCount | None = None
        """Cached result of ``_built``; None after a change."""


class MovingKernels:
    """Sum of the counts of a sliding range of windows, updated incrementally."""

    def __init__(self) -> None:
        self._coming = self._leaving = 0
        """Numbers of the next window to add (``_coming``) and of the next window to remove (``_leaving``)."""
        self._sums: dict[tuple[Any, ...], _KernelSum] = {}

    def add(self, kernels: Iterable[KernelCount]) -> None:
        """Adds the counts of the newest window."""
        for count in kernels:
            self._add(count)
        self._coming += 1

    def remove(self, kernels: Iterable[KernelCount]) -> None:
        """Subtracts the counts of the oldest window. ``kernels`` must equal the counts that ``add`` got for
        that window."""
        for count in kernels:
            key = count.key
            found = self._sums[key]
            found.windows -= 1
            if not found.windows:
                del self._sums[key]
                continue
            found.calls -= count.calls
            found.errors -= count.errors
            found.total_ns -= count.total_ns
            buckets = found.buckets
            for bucket, calls in count.buckets:
                buckets[bucket] -= calls
            if found.largest and found.largest[0][0] == self._leaving:
                found.largest.popleft()
            found.built = None
        self._leaving += 1

    def sum(self) -> tuple[KernelCount, ...]:
        """Returns the sum as the counts of one window."""
        return tuple([_built(key, found) for key, found in self._sums.items()])

    def bound(self, alive: set[int]) -> None:
        """Limits the number of records to ``MOST_KERNELS``, for a sum from which no window is removed.
        ``alive`` has the PIDs whose records are not added up under PID 0."""
        if len(self._sums) <= MOST_KERNELS:
            return
        folded = MovingKernels()
        for count in self.sum():
            folded._add(count if count.pid in alive else count._replace(pid=0))
        folded._coming = 1
        if len(folded._sums) > MOST_KERNELS // 2:
            most = heapq.nlargest(MOST_KERNELS // 2, folded._sums.items(), key=lambda item: item[1].total_ns)
            folded._sums = dict(most)
        self._sums, self._coming, self._leaving = folded._sums, 1, 0

    def _add(self, count: KernelCount) -> None:
        key = count.key
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _KernelSum()
            found.built = count
        else:
            found.built = None
        found.windows += 1
        found.calls += count.calls
        found.errors += count.errors
        found.total_ns += count.total_ns
        buckets = found.buckets
        for bucket, calls in count.buckets:
            buckets[bucket] = buckets.get(bucket, 0) + calls
        while found.largest and found.largest[-1][1] <= count.max_ns:
            found.largest.pop()
        found.largest.append((self._coming, count.max_ns))


def _built(key: tuple[Any, ...], found: _KernelSum) -> KernelCount:
    if found.built is None:
        buckets = tuple(sorted([item for item in found.buckets.items() if item[1]]))
        longest = found.largest[0][1] if found.largest else 0
        (*who, device), kernel = key
        figures = (found.calls, found.errors, found.total_ns, longest, buckets)
        found.built = KernelCount._make((*who, kernel, *figures, device))
    return found.built
