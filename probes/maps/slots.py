"""Reads the histograms that the BPF programs fill, and frees the histograms of ended processes.

A slot goes through these stages. Free: its number is in the free queue. Used: the BPF programs took it at the
first call of an operation of a process; ``owners`` says which. Released: its process has ended, and no new
thread can find the slot. Then it is free again. A thread remembers the slots that it uses. So a released slot
is not used again while any thread with that PID has a record: a new process with the same PID may have found
the slot before it was released, and goes on counting in it. No call is lost or attributed to another process.

A thread that makes calls at a high rate has slots of its own, beside those that its process shares
(``bpf/calls/hot.h``). They are released when the thread has ended. Counts of slots with the same key are
added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_OF_INDEX, lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.window import U64
from stalltop.probes.layout import DEVICE_SHIFT, HOST_GAP, HOST_WORK, NESTED, PER_OCTAVE, SPLITS, Pool
from stalltop.probes.programs.bpf_calls import delete_all
from stalltop.probes.programs.loading import Programs

_BITS: Final = PER_OCTAVE.bit_length() - 1


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
        self._reach = programs.slots.reach
        self._slots = programs.slots.array
        self._cleared = [name for name in self._slots.dtype.names or () if name != "octaves"]
        """Members of a slot that are cleared when it is freed. The BPF programs need and clear the others."""
        self._octaves = programs.octaves
        self._programs = programs
        self._slot_of = programs.slot_of
        self._pools = programs.pools
        self._limits = programs.keeping
        n = len(self._slots)
        # Counts of each slot that were already read. Memory pages of slots that were never used stay
        # unallocated.
        self._calls = np.zeros(n, np.uint64)
        self._totals = np.zeros((n, 3), np.uint64)  # Columns: errors, bytes, total_ns.
        # Time of all parts of the split except the first, which is running.
        self._off = np.zeros((n, SPLITS - 1), np.uint64) if splits else None
        self._counters = np.zeros(self._octaves.counters.shape, np.uint32)
        self._released = np.zeros(n, np.bool_)
        self._passed_over = np.zeros(n, np.uint64)
        self._keys: dict[int, SlotKey] = {}
        """Keys of slots with counts. The owner of such a slot does not change until the slot is freed."""
        self.risen: tuple[NDArray[np.intp], Histograms] = np.zeros(0, np.intp), Histograms.empty()
        """Slots in which the latest read found new counts, and the histograms of these counts."""
        self.before_free: Callable[[NDArray[np.intp]], None] = _nothing
        """Called with slots before they are freed. The slots are no longer written then."""

    def read(self) -> Counts:
        """Returns what was counted since the previous read."""
        self._octaves.grow()
        released = np.flatnonzero(self._released)
        # If a process has no thread any more at this point, it has counted everything, and this read sees all
        # its counts.
        threads = self._programs.threads["tgid"].copy() if len(released) else None
        used = np.flatnonzero(self._owners["operation"])
        if len(used):
            self._reach(int(used[-1]) + 1)
        self._limits["own_slots"] = may_own(self._owners["writer"][used], len(self._owners))
        # A counter rises before the calls of its slot, so more calls may have been read than the slot has.
        changed = np.flatnonzero(self._slots["calls"][used] != self._calls[used])
        counts = self._read_slots(used[changed])
        passed_over = self._slots["passed_over"][used]
        newly = int((passed_over - self._passed_over[used]).sum())
        self._passed_over[used] = passed_over
        if threads is not None:
            self._free(released[self._are_unused(released, threads)])
        self._release_own(used)
        return replace(counts, passed_over=newly)

    def _are_unused(self, slots: NDArray[np.intp], threads: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Returns which of ``slots`` no thread may write any more; ``threads`` has the process of each record
        of a thread."""
        tgid, writer = self._owners["tgid"][slots], self._owners["writer"][slots]
        # The index of a writer is used only where there is one.
        ended = threads[np.maximum(writer, 1) - 1] != tgid
        return np.where(writer, ended, ~np.isin(tgid, threads))

    def _release_own(self, used: NDArray[np.intp]) -> None:
        """Releases the own slots of threads that have ended."""
        own = used[(self._owners["writer"][used] != 0) & ~self._released[used]]
        ended = own[self._are_unused(own, self._programs.threads["tgid"])]
        if len(ended):
            delete_all(self._slot_of, self._owners[ended])
            self._released[ended] = True

    def leave_splits_out(self) -> None:
        """Reports no splits from now on. Called if it turns out that the BPF programs cannot measure them."""
        self._off = None

    def tgids(self) -> set[int]:
        """Returns the processes that own slots and have not been released."""
        used = np.flatnonzero((self._owners["operation"] != 0) & ~self._released)
        return set(self._owners["tgid"][used].tolist())

    def release(self, *tgids: int) -> None:
        """Releases the slots of processes that have ended. The slots are freed once the counts that they
        still hold are read."""
        slots = np.flatnonzero(np.isin(self._owners["tgid"], tgids) & (self._owners["operation"] != 0))
        delete_all(self._slot_of, self._owners[slots])
        self._released[slots] = True
        read = self._slots["calls"][slots] == self._calls[slots]
        self._free(slots[read & ~np.isin(self._owners["tgid"][slots], self._programs.threads["tgid"])])

    def _free(self, slots: NDArray[np.intp]) -> None:
        self.before_free(slots)
        numbers = self._slots["octaves"][slots]
        octaves = numbers[numbers > 0].astype(np.intp) - 1
        octaves = octaves[self._octaves.reach(octaves)]
        self._octaves.counters[octaves] = 0
        self._counters[octaves] = 0
        for name in self._cleared:
            self._slots[name][slots] = 0
        for slot in slots.tolist():
            self._keys.pop(slot, None)
        self._calls[slots] = 0
        self._passed_over[slots] = 0
        self._totals[slots] = 0
        if self._off is not None:
            self._off[slots] = 0
        self._released[slots] = False
        owners = self._owners[slots]
        self._owners[slots] = np.zeros(1, self._owners.dtype)
        self._pools.free(Pool.SLOTS, slots.tolist(), owners["tgid"].tolist(), owners["cgroup_id"].tolist())

    def _read_slots(self, slots: NDArray[np.intp]) -> Counts:
        """Returns the new counts of ``slots``."""
        # Counters are read before totals. The BPF programs write the counters after the totals, so every call
        # in a histogram is in the totals, too. The totals may also have calls that the histogram lacks: a
        # slot with only such calls, and any excess of errors over calls, is left for the next read. Parts of
        # the split are read after their total, so that time off the CPU is never reported as running.
        histograms = self._risen(slots)
        calls = histograms.totals()
        totals = np.stack([self._slots[name][slots] for name in ("errors", "bytes", "total_ns")], axis=1)
        off = None if self._off is None else self._slots["split_ns"][slots, 1:]
        highest = self._slots["max_ns"][slots]
        self._slots["max_ns"][slots] = 0

        seen = np.flatnonzero(calls)
        if len(seen) < len(slots):
            slots, histograms, calls = slots[seen], histograms.take(seen), calls[seen]
            totals, highest = totals[seen], highest[seen]
            off = None if off is None else off[seen]
        self.risen = slots, histograms
        if not len(slots):
            return _counts((), calls, totals, highest, histograms, None)
        added = totals - self._totals[slots]
        added[:, 0] = np.minimum(added[:, 0], calls)
        self._calls[slots] += calls
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
        longest = np.maximum(np.minimum(highest, most), least)
        return _counts(self._keys_of(slots), calls, added, longest, histograms, splits)

    def _risen(self, slots: NDArray[np.intp]) -> Histograms:
        """Returns by how much the counters of ``slots`` rose since they were last read."""
        numbers = self._slots["octaves"][slots]
        row, octave = np.nonzero(numbers)
        number = numbers[row, octave].astype(np.intp) - 1
        there = self._octaves.reach(number)
        row, octave, number = row[there], octave[there], number[there]
        # The BPF programs go on counting, so the counters are copied before they are compared.
        now, before = self._octaves.counters[number], self._counters[number]
        risen = np.flatnonzero(now != before)
        now, before = now.reshape(-1)[risen], before.reshape(-1)[risen]
        which, counter = risen >> _BITS, risen & (PER_OCTAVE - 1)
        self._counters.reshape(-1)[number[which] * PER_OCTAVE + counter] = now
        start = np.searchsorted(row[which], np.arange(len(slots) + 1))
        index = (octave[which] * PER_OCTAVE + counter).astype(np.uint16)
        rise = now - before  # Counters overflow at 2^32, so this is taken modulo 2^32.
        return Histograms(start, index, rise.astype(np.uint64))

    def _keys_of(self, slots: NDArray[np.intp]) -> tuple[SlotKey, ...]:
        known = self._keys
        numbers = slots.tolist()
        new = [slot for slot in numbers if slot not in known]
        if new:
            known |= zip(new, slot_keys(self._owners[new]), strict=True)
        return tuple(map(known.__getitem__, numbers))


def may_own(writers: NDArray[np.uint32], n: int) -> int:
    """Returns how many more of ``n`` slots, or of ``n`` records that belong to slots, threads may take for
    their own (``bpf/calls/hot.h``). ``writers`` has ``writer`` of the slot of each one that is in use.

    Threads get an eighth of all for themselves, and nothing more while half of all are in use. So enough are
    left for operations that have no slot yet.
    """
    return max(min(n // 8 - int(np.count_nonzero(writers)), n // 2 - len(writers)), 0)


def rows_of(owners: NDArray[np.void]) -> NDArray[np.intp]:
    """Returns a number for each slot; slots of the same key have the same number."""
    rows = np.arange(len(owners))
    used = np.flatnonzero(owners["operation"])
    if owners["writer"][used].any():
        whose = owners[used]
        whose["writer"] = 0
        _, first, row = np.unique(whose, return_index=True, return_inverse=True)
        rows[used] = used[first][row]
    return rows


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


def slot_keys(owners: NDArray[np.void]) -> list[SlotKey]:
    """Returns the keys of slots with these owners (``layout.OWNER``)."""
    columns = (owners[name].tolist() for name in ("cgroup_id", "tgid", "operation"))
    return [
        SlotKey(cgroup_id, tgid, operation & (NESTED - 1), operation & NESTED != 0, operation >> DEVICE_SHIFT)
        for cgroup_id, tgid, operation in zip(*columns, strict=True)
    ]


def _counts(
    keys: tuple[SlotKey, ...],
    calls: U64,
    totals: U64,
    max_ns: U64,
    histograms: Histograms,
    splits: U64 | None,
) -> Counts:
    """Returns the counts of slots with these ``keys``. ``totals`` has the columns errors, bytes, total_ns."""
    place = dict.fromkeys(keys, 0)
    # A released slot that is still written has the same key as the slot that replaces it.
    if len(place) < len(keys):
        place = {key: number for number, key in enumerate(place)}
        group = np.array([place[key] for key in keys], np.int64)
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
