"""Launches told apart by their kernel: how often each was launched, and how long the launching calls took.

A kernel's durations are counted in buckets coarser than those of its row: four to an octave, each made of
32 neighbouring counters of the row's histogram (``model.histograms.hdr``). So the buckets of all kernels of
a row, and those of its launches of unknown kernels, add up to the row's own.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_OF_INDEX, index_of

_COUNTERS_OF_BUCKET: Final = 32
BUCKETS: Final = COUNTERS // _COUNTERS_OF_BUCKET
"""Buckets that there are: 124."""
MOST_KERNELS: Final = 4096
"""Counts that a sum without end keeps. Above that, those of processes that are gone are added up under
process id 0, and of what is still too much those with most time are kept."""

LAUNCHING: Final = frozenset(
    (
        *("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel"),
        *("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"),
        *("cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync"),
    )
)
"""Operations that launch one kernel: a graph has many, and is none of these."""

_HIGHEST: Final[tuple[int, ...]] = tuple(
    HIGHEST_OF_INDEX[_COUNTERS_OF_BUCKET - 1 :: _COUNTERS_OF_BUCKET].tolist()
)


class KernelCount(NamedTuple):
    """Launches of one kernel, of one row (``tenant`` to ``nested``, and ``device``) of a window.

    Launches of the row that are in no KernelCount are of unknown kernels. Only outermost calls are told
    apart: a launch by the driver within a launch by the runtime is the same launch.
    """

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    nested: bool
    kernel: str
    """Its name, demangled: ``void scale<float>(float*, int)``. Empty where it is not known."""
    calls: int
    errors: int
    total_ns: int
    """Time in the launching calls, not on the device."""
    max_ns: int
    buckets: tuple[tuple[int, int], ...]
    """(bucket, calls), rising; only buckets with calls."""
    device: str = ""
    """Label of the device that they ran on; empty where that is not known."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """The row that they are counted in: its ``RowKey`` without the host."""
        return (*self[:6], self.device)

    @property
    def key(self) -> tuple[tuple[str, int, str, str, str, bool, str], str]:
        """What tells counts apart: row and kernel."""
        return self.row, self.kernel


def bucket_of(duration_ns: int) -> int:
    """The bucket that a call of ``duration_ns`` is counted in."""
    return index_of(duration_ns) // _COUNTERS_OF_BUCKET


def bucket_lowest_ns(bucket: int) -> int:
    """The lowest duration (ns) counted in ``bucket``. Raises IndexError where there is no such bucket."""
    if not 0 <= bucket < BUCKETS:
        raise IndexError(f"there is no bucket {bucket}")
    return _HIGHEST[bucket - 1] + 1 if bucket else 0


def bucket_highest_ns(bucket: int) -> int:
    """The highest duration (ns) counted in ``bucket``. Raises IndexError where there is no such bucket."""
    if not 0 <= bucket < BUCKETS:
        raise IndexError(f"there is no bucket {bucket}")
    return _HIGHEST[bucket]


def added_kernels(parts: Iterable[Iterable[KernelCount]]) -> tuple[KernelCount, ...]:
    """The counts of several windows as those of one, in order of first appearance."""
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
    """``kernels`` with other ids of tenants."""
    return tuple([kernel._replace(tenant=renamed(kernel.tenant)) for kernel in kernels])


class _Sum:
    """The counts of one kernel."""

    __slots__ = ("buckets", "built", "calls", "errors", "largest", "total_ns", "windows")

    def __init__(self) -> None:
        self.calls = self.errors = self.total_ns = 0
        self.windows = 0
        """How many windows have a count of it."""
        self.buckets: dict[int, int] = {}
        self.largest: deque[tuple[int, int]] = deque()
        """(number of a window, its ``max_ns``), falling: those that are, or may become, the largest one."""
        self.built: KernelCount | None = None
        """The sum, as long as nothing changes."""


class MovingKernels:
    """The sum of counts of windows that come and go, kept up to date by what changes."""

    def __init__(self) -> None:
        self._coming = self._leaving = 0
        """Numbers of the windows that come and leave next."""
        self._sums: dict[tuple[Any, ...], _Sum] = {}

    def add(self, kernels: Iterable[KernelCount]) -> None:
        """Take in the counts of the newest window."""
        for count in kernels:
            self._add(count)
        self._coming += 1

    def remove(self, kernels: Iterable[KernelCount]) -> None:
        """Take away the counts of the oldest window, just as they were added."""
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
        """All of it as that of one window."""
        return tuple([_built(key, found) for key, found in self._sums.items()])

    def bound(self, alive: set[int]) -> None:
        """Keep a sum that nothing leaves from growing without end; ``alive`` are the processes of now."""
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
            found = self._sums[key] = _Sum()
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


def _built(key: tuple[Any, ...], found: _Sum) -> KernelCount:
    if found.built is None:
        buckets = tuple(sorted([item for item in found.buckets.items() if item[1]]))
        longest = found.largest[0][1] if found.largest else 0
        (*who, device), kernel = key
        figures = (found.calls, found.errors, found.total_ns, longest, buckets)
        found.built = KernelCount._make((*who, kernel, *figures, device))
    return found.built


def kernels_by_row(kernels: Iterable[KernelCount]) -> Mapping[tuple[Any, ...], list[KernelCount]]:
    """``kernels`` by their ``row``, those with most time first."""
    found: dict[tuple[Any, ...], list[KernelCount]] = {}
    for count in kernels:
        found.setdefault(count.row, []).append(count)
    for counts in found.values():
        counts.sort(key=lambda count: (-count.total_ns, count.kernel))
    return found
