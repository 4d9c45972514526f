"""Reads the launches that the BPF programs count for each CUDA kernel.

A record belongs to the slot in which its launches are counted too, and is freed with the slot. The BPF
programs count a launch in the record before they count it in the slot. Launches that are not in the slot yet
are left for the next read. So no window has more launches of CUDA kernels than launch calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.cuda_kernels import BUCKETS as KNOWN_BUCKETS
from stalltop.model.cuda_kernels import bucket_highest_ns, bucket_lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.probes.file_state import program_identity
from stalltop.probes.layout import (
    BUCKETS,
    FUNCTION_KEY,
    KERNELS,
    NAME_BYTES,
    REGISTERED,
    TOLD_PROGRAM,
    Pool,
)
from stalltop.probes.maps.slots import SlotKey, may_own, rows_of, slot_keys
from stalltop.probes.programs.bpf_calls import delete_all, get
from stalltop.probes.programs.loading import Programs, pid_namespace

_LOWEST: Final = np.array([bucket_lowest_ns(bucket) for bucket in range(KNOWN_BUCKETS)], np.int64)
_HIGHEST: Final = np.array([bucket_highest_ns(bucket) for bucket in range(KNOWN_BUCKETS)], np.int64)


class RawKernel(NamedTuple):
    """Launches of one CUDA kernel by one operation of a process, since the previous read."""

    key: SlotKey
    function: int
    """Argument of the launching call that identifies the CUDA kernel: a function of the program, or a
    handle."""
    born_ns: int
    """When the program was first seen (CLOCK_MONOTONIC). The process may have run other programs before, by
    exec; or another process may have had the same PID."""
    generation: int
    """Distinguishes the CUDA kernel from earlier CUDA kernels of the program that had the same
    ``function``."""
    name: bytes
    """Name that the program gave the CUDA kernel, mangled; empty if it gave none, or if its memory could not
    be read."""
    cut: bool
    """Whether ``name`` is cut, so that only its beginning is known."""
    name_at: int
    """Address of the name in the process's memory; 0 if the program has not given it."""
    calls: int
    errors: int
    total_ns: int
    max_ns: int
    buckets: tuple[tuple[int, int], ...]
    """Histogram of the durations, as in ``model.cuda_kernels.KernelCount``."""


class Kernels:
    """Reads the CUDA kernels of ``bpf/cuda/kernels.h``. Used from one thread at a time."""

    def __init__(self, programs: Programs) -> None:
        self._reach = programs.kernels.reach
        self._kernels = programs.kernels.array
        self._launched = programs.launched
        self._owners = programs.owners
        self._kernel_of = programs.kernel_of
        self._pools = programs.pools
        self._limits = programs.keeping
        # Counts of each record that were already reported.
        self._totals = np.zeros((KERNELS, 2), np.uint64)  # Columns: errors, total_ns.
        self._counters = np.zeros((KERNELS, BUCKETS), np.uint32)
        self._left: list[RawKernel] = []
        """Counts of records that were freed since the latest read."""
        self._freed: dict[int, SlotKey] = {}
        """The keys of the slots that were freed since then."""

    def read(self, risen: tuple[NDArray[np.intp], Histograms]) -> list[RawKernel]:
        """Returns what was launched since the previous read. ``risen`` is ``Slots.risen`` of the read of the
        slots just before: the slots with new counts, and the histograms of these counts."""
        found, self._left = self._left, []
        freed, self._freed = self._freed, {}
        changed = self._changed()
        if not len(changed):
            return found
        slots, histograms = risen
        rows = rows_of(self._owners)
        counted = np.zeros(len(rows), np.int64)
        np.add.at(counted, rows[slots], histograms.totals().astype(np.int64))
        if freed:
            self._balance(rows, counted, freed, found)
        return found + self._read(changed, rows, counted)

    def _balance(
        self,
        rows: NDArray[np.intp],
        counted: NDArray[np.int64],
        freed: dict[int, SlotKey],
        found: Sequence[RawKernel],
    ) -> None:
        """Adds the calls of ``freed`` slots to those that their rows ``counted``, and takes away the launches
        that were ``found`` in their records: they may belong to calls that were counted earlier, because
        launches are held back by row."""
        used = np.flatnonzero(self._owners["operation"])
        row_of = dict(zip(slot_keys(self._owners[used]), rows[used].tolist(), strict=True))
        for slot, key in freed.items():
            if key in row_of and not self._owners["operation"][slot]:
                counted[row_of[key]] += counted[slot]
        for kernel in found:
            if kernel.key in row_of:
                counted[row_of[kernel.key]] -= kernel.calls
        np.maximum(counted, 0, out=counted)

    def let_go(self, slots: NDArray[np.intp]) -> None:
        """Frees the records of ``slots``. These slots are about to be freed and are no longer written."""
        self._freed |= zip(slots.tolist(), slot_keys(self._owners[slots]), strict=True)
        used = np.flatnonzero(self._launched["slot"])
        gone = used[np.isin(self._launched["slot"][used].astype(np.int64) - 1, slots)]
        if not len(gone):
            return
        self._reach(int(gone[-1]) + 1)
        late = gone[self._kernels["total_ns"][gone] != self._totals[gone, 1]]
        if len(late):
            self._left += self._read(late)
        delete_all(self._kernel_of, self._launched[gone])
        for name in ("slot", "total_ns", "errors", "max_ns", "counters"):
            self._kernels[name][gone] = 0
        self._totals[gone] = 0
        self._counters[gone] = 0
        owners = self._owners[self._launched["slot"][gone] - 1]
        self._launched[gone] = np.zeros(1, self._launched.dtype)
        self._pools.free(Pool.KERNELS, gone.tolist(), owners["tgid"].tolist(), owners["cgroup_id"].tolist())

    def _changed(self) -> NDArray[np.intp]:
        used = np.flatnonzero(self._launched["slot"])
        if len(used):
            self._reach(int(used[-1]) + 1)
        writers = self._owners["writer"][self._launched["slot"][used] - 1]
        self._limits["own_kernels"] = may_own(writers, KERNELS)
        changed: NDArray[np.intp] = used[self._kernels["total_ns"][used] != self._totals[used, 1]]
        return changed

    def _read(
        self,
        records: NDArray[np.intp],
        rows: NDArray[np.intp] | None = None,
        counted: NDArray[np.int64] | None = None,
    ) -> list[RawKernel]:
        """Returns what ``records`` counted since the last read. ``rows``, if given, has the row of each slot,
        and ``counted`` the number of new calls of each row: at most so many launches of a row are returned,
        the others are left for the next read."""
        # Counters are read before totals, as in probes/maps/slots.py.
        now = self._kernels["counters"][records]
        # The counters overflow at 2^32, so the difference is taken modulo 2^32.
        rise = (now - self._counters[records]).astype(np.int64)
        totals = np.stack([self._kernels[name][records] for name in ("errors", "total_ns")], axis=1)
        highest = self._kernels["max_ns"][records].astype(np.int64)
        self._kernels["max_ns"][records] = 0
        owners = self._launched[records]
        added = (totals - self._totals[records]).astype(np.int64)
        if rows is not None and counted is not None:
            added[:, 1] -= _hold_back(rise, rows[owners["slot"].astype(np.int64) - 1], counted)
        calls = rise.sum(axis=1)
        added[:, 0] = np.minimum(added[:, 0], calls)
        added[:, 1] = np.maximum(added[:, 1], 0)
        seen = np.flatnonzero(calls)
        told = records[seen]
        kernels, launched = self._kernels[told], owners[seen]
        columns = (
            seen,
            launched["function"],
            launched["born_ns"],
            launched["generation"],
            kernels["name_bytes"],
            kernels["name_at"],
            calls[seen],
            added[seen, 0],
            added[seen, 1],
            highest[seen],
        )
        names = kernels["name"]
        found = []
        keys = slot_keys(self._owners[launched["slot"].astype(np.int64) - 1])
        for at, (key, row, function, *born, known, name_at, count, errors, total, longest) in enumerate(
            zip(keys, *(column.tolist() for column in columns), strict=True)
        ):
            buckets = np.flatnonzero(rise[row])
            top = int(buckets[-1])
            found.append(
                RawKernel(
                    key,
                    function,
                    born[0],
                    born[1],
                    bytes(names[at])[: max(known - 1, 0)],
                    known >= NAME_BYTES,
                    name_at,
                    count,
                    errors,
                    total,
                    max(min(longest, int(_HIGHEST[top])), int(_LOWEST[top])),
                    tuple(zip(buckets.tolist(), rise[row, buckets].tolist(), strict=True)),
                )
            )
        self._totals[told] += added[seen].astype(np.uint64)
        self._counters[told] += rise[seen].astype(np.uint32)
        return found


def inherited_name(programs: Programs, tgid: int, function: int) -> int:
    """Returns the address of a function's name in the memory of process ``tgid``, if the parent of the
    process registered the function; otherwise 0.

    A program that forks first and then launches has registered its CUDA kernels before the fork. In a PID
    namespace other than the initial one, parents have other PIDs than in the Linux kernel, so the answer is
    0.
    """
    if pid_namespace():
        return 0
    try:
        with open(f"/proc/{tgid}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
        # If the process has executed another program since the fork, it has other data at these addresses.
        program = program_identity(tgid)
        if program is None or program != program_identity(parent):
            return 0
        key = np.array([(function, _born_ns(programs, parent))], FUNCTION_KEY)
        found = np.frombuffer(get(programs.registered, key.tobytes(), REGISTERED.itemsize), REGISTERED)
        return int(found["name_at"][0])
    except (OSError, ValueError, IndexError):
        return 0


def runs_program(programs: Programs, tgid: int, born_ns: int) -> bool:
    """Returns whether process ``tgid`` still runs the program that was first seen at ``born_ns``.

    In a PID namespace other than the initial one, where the Linux kernel uses other PIDs, True is assumed.
    """
    if pid_namespace():
        return True
    try:
        return _born_ns(programs, tgid) == born_ns
    except OSError:
        return False


def _born_ns(programs: Programs, tgid: int) -> int:
    """Returns when the program of the process was first seen (CLOCK_MONOTONIC, ns). Raises OSError if the
    process has neither registered, looked up nor launched a CUDA kernel, or if it has ended."""
    told = get(programs.told_programs, np.uint32(tgid).tobytes(), TOLD_PROGRAM.itemsize)
    return int(np.frombuffer(told, TOLD_PROGRAM)["born_ns"][0])


def _hold_back(
    rise: NDArray[np.int64], rows: NDArray[np.intp], counted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Removes from ``rise`` the launches that their rows have not counted yet. Returns, for each record, the
    shortest time that the removed launches may have taken, ns."""
    sums = np.bincount(rows, rise.sum(axis=1), len(counted))
    held_ns = np.zeros(len(rise), np.int64)
    for row in np.flatnonzero(sums > counted).tolist():
        excess = int(sums[row] - counted[row])
        for record in np.flatnonzero(rows == row).tolist():
            for bucket in np.flatnonzero(rise[record]).tolist():
                some = min(excess, int(rise[record, bucket]))
                rise[record, bucket] -= some
                held_ns[record] += some * int(_LOWEST[bucket])
                excess -= some
    return held_ns
