"""Reads the histograms that the BPF programs fill, and frees the histograms of ended processes.

A slot goes through these stages. Free: its number is in the free queue. Used: the BPF programs took it at the
first call of an operation of a process; ``owners`` says which. Released: its process has ended, and no new
thread can find the slot. Then it is free again. A thread remembers the slots that it uses. So a released slot
is not used again while any thread with that PID has a record: a new process with the same PID may have found
the slot before it was released, and goes on counting in it. No call is lost or attributed to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_OF_INDEX, lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.window import U64
from stalltop.probes.layout import DEVICE_SHIFT, HOST_GAP, HOST_WORK, NESTED, SPLITS
from stalltop.probes.programs.bpf_calls import delete_all, fill_queue
from stalltop.probes.programs.loading import Programs

_ROWS_AT_ONCE = 32
"""Number of histograms that are processed together: half a megabyte, which stays in the CPU's cache."""


class SlotKey(NamedTuple):
    """The process, cgroup, operation and device to which counts belong."""

    cgroup_id: int
    tgid: int
    operation: int
    """``OperationInfo.id``."""
    nested: bool
    """Whether the call was made inside another traced call of the same thread: a driver call inside a runtime
    call, for example, or an alias of the same function. Totals leave nested calls out, because their time is
    part of the outer call's time."""
    device: int = 0
    """The device that the calls used: its ordinal in the process + 1. 0 if no device is known: the thread was
    not seen to choose one, and the call may need none, or the program may have initialized CUDA before it was
    watched. ``layout.UNKNOWN_DEVICE`` if the thread chose a device and it is not known which."""

    @property
    def between_calls(self) -> bool:
        """Returns whether the key stands for a thread's time between calls, not for calls of a function."""
        return self.operation in (HOST_GAP, HOST_WORK)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Counts since the previous read. Element i of every array belongs to ``keys[i]``. Each key occurs
    once."""

    keys: tuple[SlotKey, ...]
    calls: U64
    """Number of calls, which is always the sum of the histogram."""
    errors: U64
    bytes: U64
    """Bytes of the calls that succeeded."""
    total_ns: U64
    max_ns: U64
    histograms: Histograms
    split_ns: U64 | None = None
    """Time of each part, shape (n, SPLITS), columns as in ``model.window.SPLITS``. A row adds up to
    ``total_ns``. None: not measured."""
    passed_over: int = 0
    """Number of slow calls that were not captured, for all keys together."""

    def take(self, keep: Callable[[SlotKey], bool]) -> Counts:
        """Returns only the counts under keys for which ``keep`` returns True."""
        rows = np.flatnonzero([keep(key) for key in self.keys])
        return Counts(
            tuple(self.keys[row] for row in rows),
            self.calls[rows],
            self.errors[rows],
            self.bytes[rows],
            self.total_ns[rows],
            self.max_ns[rows],
            self.histograms.take(rows),
            None if self.split_ns is None else self.split_ns[rows],
            self.passed_over,
        )


class Slots:
    """Reads the histograms in the Linux kernel. Used from one thread at a time.

    ``splits`` says whether the BPF programs measure where the time of calls goes.
    """

    def __init__(self, programs: Programs, *, splits: bool) -> None:
        self._owners = programs.owners
        self._slots = programs.slots
        self._memory = self._slots.view(np.uint8).reshape(len(self._slots), self._slots.dtype.itemsize)
        self._threads = programs.threads
        self._slot_of = programs.slot_of
        self._queue = programs.free_slots
        n = len(self._slots)
        # Counts of each slot that were already read. Memory pages of slots that were never used stay
        # unallocated.
        self._calls = np.zeros(n, np.uint64)
        self._totals = np.zeros((n, 3), np.uint64)  # Columns: errors, bytes, total_ns.
        # Time of all parts of the split except the first, which is running.
        self._off = np.zeros((n, SPLITS - 1), np.uint64) if splits else None
        self._counters = np.zeros((n, COUNTERS), np.uint32)
        self._released = np.zeros(n, np.bool_)
        self._passed_over = np.zeros(n, np.uint64)
        self.risen: list[tuple[NDArray[np.intp], Histograms]] = []
        """Slots in which the latest read found new counts, and the histograms of these counts."""
        self.before_free: Callable[[NDArray[np.intp]], None] = _nothing
        """Called with slots before they are freed. The slots are no longer written then."""

    def read(self) -> Counts:
        """Returns what was counted since the previous read."""
        released = np.flatnonzero(self._released)
        # If a process has no thread any more at this point, it has counted everything, and this read sees all
        # its counts.
        threads = self._threads["tgid"].copy() if len(released) else None
        # Operations are read before the copy is made. The BPF programs write the operation of an owner last,
        # so the copy has all of each owner whose operation was seen.
        used = np.flatnonzero(self._owners["operation"])
        owners = self._owners.copy()
        changed = used[self._slots["calls"][used] != self._calls[used]]
        parts = [
            self._read_part(changed[first : first + _ROWS_AT_ONCE])
            for first in range(0, len(changed), _ROWS_AT_ONCE)
        ]
        passed_over = self._slots["passed_over"][used]
        newly = int((passed_over - self._passed_over[used]).sum())
        self._passed_over[used] = passed_over
        self.risen = [(part.slots, part.histograms) for part in parts]
        if threads is not None:
            self._free(released[~np.isin(owners["tgid"][released], threads)])
        return replace(_joined(owners, parts), passed_over=newly)

    def leave_splits_out(self) -> None:
        """Reports no splits from now on. Called if it turns out that the BPF programs cannot measure them."""
        self._off = None

    def tgids(self) -> set[int]:
        """Returns the processes that own slots and have not been released."""
        used = np.flatnonzero((self._owners["operation"] != 0) & ~self._released)
        return set(self._owners["tgid"][used].tolist())

    def release(self, tgid: int) -> None:
        """Releases the slots of a process that has ended. The slots are freed once the counts that they still
        hold are read."""
        slots = np.flatnonzero((self._owners["tgid"] == tgid) & (self._owners["operation"] != 0))
        delete_all(self._slot_of, self._owners[slots])
        self._released[slots] = True
        if not (self._threads["tgid"] == tgid).any():
            self._free(slots[self._slots["calls"][slots] == self._calls[slots]])

    def _free(self, slots: NDArray[np.intp]) -> None:
        self.before_free(slots)
        for slot in slots:
            self._memory[slot] = 0
            self._counters[slot] = 0
        self._calls[slots] = 0
        self._passed_over[slots] = 0
        self._totals[slots] = 0
        if self._off is not None:
            self._off[slots] = 0
        self._released[slots] = False
        self._owners[slots] = np.zeros(1, self._owners.dtype)
        fill_queue(self._queue, slots.tolist())

    def _read_part(self, slots: NDArray[np.intp]) -> _SlotPart:
        # Counters are read before totals. The BPF programs write the counters after the totals, so every call
        # in a histogram is in the totals, too. The totals may also have calls that the histogram lacks: a
        # slot with only such calls, and any excess of errors over calls, is left for the next read. Parts of
        # the split are read after their total, so that time off the CPU is never reported as running.
        histograms, counters = self._risen(slots)
        calls = histograms.totals()
        totals = np.stack([self._slots[name][slots] for name in ("errors", "bytes", "total_ns")], axis=1)
        off = None if self._off is None else self._slots["split_ns"][slots][:, 1:]
        highest = self._slots["max_ns"][slots]
        self._slots["max_ns"][slots] = 0

        seen = np.flatnonzero(calls)
        if len(seen) < len(slots):
            slots, histograms, calls = slots[seen], histograms.take(seen), calls[seen]
            totals, highest = totals[seen], highest[seen]
            off = None if off is None else off[seen]
        added = totals - self._totals[slots]
        added[:, 0] = np.minimum(added[:, 0], calls)
        self._calls[slots] += calls
        self._counters[np.repeat(slots, np.diff(histograms.start)), histograms.index] = counters
        self._totals[slots] += added
        splits = None
        if self._off is not None and off is not None:
            splits = split_up(added[:, 2], off - self._off[slots])
            self._off[slots] += splits[:, 1:]

        # The maximum may be wrong if two CPUs wrote it at the same time, or if a CPU wrote it while it was
        # reset. The histogram gives the maximum within 0.8 %.
        top = histograms.index[histograms.start[1:] - 1].astype(np.int64)
        least = lowest_ns(top).astype(np.uint64)
        most = np.where(top == COUNTERS - 1, highest, HIGHEST_OF_INDEX[top].astype(np.uint64))
        return _SlotPart(
            slots, calls, added, np.maximum(np.minimum(highest, most), least), histograms, splits
        )

    def _risen(self, slots: NDArray[np.intp]) -> tuple[Histograms, NDArray[np.uint32]]:
        """Returns by how much the counters of ``slots`` rose, and the new values of the counters that
        rose."""
        first, end = slots[0], slots[-1] + 1
        # The BPF programs go on counting, so a copy of the counters is compared with the earlier values. The
        # earlier values need no copy if the slots are consecutive. Most slots are, and this halves the work.
        if end - first == len(slots):
            now, before = self._slots["counters"][first:end].copy(), self._counters[first:end]
        else:
            now, before = self._slots["counters"][slots], self._counters[slots]
        place = np.flatnonzero(now != before)
        row, index = np.divmod(place, COUNTERS)
        risen = now.reshape(-1)[place]
        start = np.zeros(len(slots) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(slots)), out=start[1:])
        # The counters overflow at 2^32, so the difference is taken modulo 2^32.
        rise = risen - before[row, index]
        return Histograms(start, index.astype(np.uint16), rise.astype(np.uint64)), risen


@dataclass(frozen=True, slots=True, eq=False)
class _SlotPart:
    slots: NDArray[np.intp]
    calls: U64
    totals: U64
    """Columns: errors, bytes, total_ns; shape (n, 3)."""
    max_ns: U64
    histograms: Histograms
    split_ns: U64 | None


def _nothing(slots: NDArray[np.intp]) -> None:
    """Does nothing; the default of ``Slots.before_free``."""


def split_up(total_ns: U64, off_ns: U64) -> U64:
    """Splits ``total_ns``, shape (n,), into parts, shape (n, SPLITS). ``off_ns``, shape (n, SPLITS - 1), has
    all parts except the first. The first part, running, is the rest of the total.

    ``off_ns`` may already include calls that are not in the total yet. Then only as much of it is used as
    fits into the total.
    """
    upto = np.minimum(np.cumsum(off_ns, axis=1), total_ns[:, None])
    return np.diff(np.column_stack([upto, total_ns]), axis=1, prepend=np.uint64(0))[
        :, [SPLITS - 1, *range(SPLITS - 1)]
    ]


def _joined(owners: NDArray[np.void], parts: Sequence[_SlotPart]) -> Counts:
    if not parts:
        nothing = np.zeros(0, np.uint64)
        return Counts((), nothing, nothing, nothing, nothing, nothing, Histograms.empty())
    slots = np.concatenate([part.slots for part in parts])
    calls = np.concatenate([part.calls for part in parts])
    totals = np.concatenate([part.totals for part in parts])
    max_ns = np.concatenate([part.max_ns for part in parts])
    histograms = Histograms.concatenate([part.histograms for part in parts])
    measured = [part.split_ns for part in parts if part.split_ns is not None]
    splits = np.concatenate(measured) if measured else None
    owner = owners[slots]
    operation = owner["operation"]
    keys = [
        SlotKey(*key)
        for key in zip(
            owner["cgroup_id"].tolist(),
            owner["tgid"].tolist(),
            (operation & (NESTED - 1)).tolist(),
            ((operation & NESTED) != 0).tolist(),
            (operation >> DEVICE_SHIFT).tolist(),
            strict=True,
        )
    ]
    place: dict[SlotKey, int] = {}
    group = np.array([place.setdefault(key, len(place)) for key in keys], np.int64)
    # A released slot that is still written has the same key as the slot that replaces it.
    if len(place) < len(keys):
        summed = np.zeros((len(place), 4), np.uint64)
        np.add.at(summed, group, np.column_stack([calls, totals]))
        highest = np.zeros(len(place), np.uint64)
        np.maximum.at(highest, group, max_ns)
        calls, totals, max_ns = summed[:, 0], summed[:, 1:], highest
        histograms = histograms.grouped(group, len(place))
        if splits is not None:
            parts_ns = np.zeros((len(place), SPLITS), np.uint64)
            np.add.at(parts_ns, group, splits)
            splits = parts_ns
    return Counts(tuple(place), calls, totals[:, 0], totals[:, 1], totals[:, 2], max_ns, histograms, splits)
