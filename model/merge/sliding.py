"""The window of the last seconds, updated incrementally: adds the newest window and subtracts the oldest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import MOST_KEPT, CapturedCalls, added_calls
from stalltop.model.cuda_kernels import MovingKernels
from stalltop.model.evidence import tenants_of
from stalltop.model.histograms.hdr import COUNTERS
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.merge.merging import add_losses, add_open_calls, mean_cost, with_labels
from stalltop.model.merge.moving import MovingDevices, MovingEvidence, renamed, renamings
from stalltop.model.merge.packing import Packed, pack
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.sums import MovingStacks
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, U64, Rows, Window

_Columns = NDArray[np.int64]
_AT_ONCE = 32

MOST_ROWS = 8192
"""If a window that covers all time since the start has more rows than this, the rows of processes without
calls in the newest window are added up under PID 0, per tenant, program and operation. Without this limit,
stalltop would use ever more memory on a host that starts thousands of processes an hour."""


class Sliding:
    """Sums the windows of the last ``seconds`` of one host into one window. If ``seconds`` is None, sums all
    windows since the first.

    The cost of a push hardly depends on ``seconds``, because it adds the newest window and subtracts the
    windows that leave the sum. Only ``max_ns`` cannot be subtracted. If a window that leaves may have the
    longest call of a row, ``max_ns`` is computed anew from all windows.
    """

    def __init__(self, seconds: float | None, windows: Iterable[Window | Packed] = ()) -> None:
        """Starts with the sum of ``windows`` (oldest first, packed or not), such as the windows of a
        history."""
        if seconds is not None and not seconds > 0:
            raise ValueError(f"seconds must be above 0, got {seconds}")
        self.seconds = seconds
        self._parts: deque[tuple[Packed, _Columns]] = deque()
        self._last: Window | None = None
        self._evidence = MovingEvidence()
        self._devices = MovingDevices()
        self._kernels = MovingKernels()
        self._stacks = MovingStacks()
        self._calls: list[CapturedCalls] = []
        """Captured calls of a sum since the start: first those of all earlier windows, merged into one
        element; then one element for each of the latest windows."""
        self._sum: Window | None = None
        """The sum without its rows, if ``seconds`` is None."""
        self._after_fold = 0
        """Number of rows after the latest ``_fold``; 0 if there was none."""
        self._clear()
        begin = [window if isinstance(window, Packed) else pack(window) for window in windows]
        names, _ = renamings(packed.window.devices for packed in begin)
        begin = [_with_labels(packed, called) for packed, called in zip(begin, names, strict=True)]
        if begin:
            self._last = begin[-1].unpack()
        for packed in begin:
            self._check(packed.window)
        self._start_with(begin)

    def _start_with(self, begin: Sequence[Packed]) -> None:
        """Adds all windows of ``begin`` at once, which is faster than adding one after the other."""
        parts = [(packed, self._columns_of(packed.keys)) for packed in begin]
        if self.seconds is not None:
            self._parts.extend(parts)
            parts = parts[len(self._leaving()) :]
        for packed, _ in parts:
            told = packed.told()
            self._evidence.add(told.evidence)
            self._kernels.add(told.kernels)
            self._stacks.add(told.stacks)
            self._devices.add(packed.window.devices)
            if self.seconds is None:
                self._add_calls(packed.calls())
        # In batches: hundreds of unpacked windows would take a hundred MB.
        for first in range(0, len(parts), _AT_ONCE):
            self._add([(packed.rows(), places) for packed, places in parts[first : first + _AT_ONCE]])
        if self.seconds is None and self._last is not None:
            self._sum = self._described([packed.window for packed in begin])
            self._bound(self._last)

    def _clear(self) -> None:
        """Sets the sums of all rows to 0, and forgets their keys."""
        self._place: dict[RowKey, int] = {}
        self._keys: list[RowKey] = []
        self._latest: tuple[Sequence[RowKey], _Columns] = (), np.zeros(0, np.int64)
        """The latest keys that were looked up, and their places. Consecutive windows mostly have the same
        rows."""
        self._all_keys: tuple[RowKey, ...] = ()
        """``_keys`` as a tuple, as last asked for."""
        self._counts: U64 = np.zeros((0, 4), np.uint64)
        """calls, errors, bytes and total_ns of each key."""
        self._max: U64 = np.zeros(0, np.uint64)
        self._split: U64 = np.zeros((0, len(SPLITS)), np.uint64)
        self._unsplit = 0
        """Number of windows in the sum that have rows, but no splits. The sum has splits only if it is 0."""
        self._histograms = Histograms.empty()

    def push(self, window: Window) -> Window:
        """Adds ``window``, the newest one, and returns the sum. Raises ValueError if the window is of another
        host than the windows before."""
        self.take_in(window)
        return self.window

    @property
    def window(self) -> Window:
        """The current sum. Raises ValueError before the first push."""
        described = self._sum
        if self.seconds is not None:
            described = self._described([part.window for part, _ in self._parts])
        if described is None or self._last is None:
            raise ValueError("no window was pushed yet")
        return replace(
            described,
            rows=self._rows(),
            devices=self._devices.sum(self._last.devices),
            evidence=self._evidence.sum(),
            chains=self._last.chains,
            normals=self._last.normals,
            kernels=self._kernels.sum(),
            stacks=self._stacks.sum(self._last.stacks),
            calls=self._later_calls(),
        )

    def _later_calls(self) -> CapturedCalls:
        """Returns the captured calls of the sum. They are merged when they are first read."""
        if self.seconds is None:
            lately = tuple(self._calls)
            return CapturedCalls.later(lambda: lately)
        parts = [packed for packed, _ in self._parts]
        return CapturedCalls.later(lambda: [part.calls() for part in parts])

    def _add_calls(self, calls: CapturedCalls) -> None:
        if calls:
            self._calls.append(calls)
        if sum(len(part.kept) for part in self._calls) > 4 * MOST_KEPT or len(self._calls) > _AT_ONCE:
            self._calls = [added_calls(self._calls)]

    def _check(self, window: Window) -> None:
        if self._last is not None and window.host != self._last.host:
            raise ValueError(f"cannot add a window of {window.host!r} to windows of {self._last.host!r}")

    def take_in(self, window: Window, packed: Packed | None = None) -> None:
        """Adds ``window``, the newest one, without computing the sum. Raises ValueError if the window is of
        another host than the windows before.

        ``packed`` is the result of ``pack(window)``, if the caller already has it.
        """
        self._check(window)
        names = self._devices.names()
        self._devices.add(window.devices)
        called = renamed(names, self._devices.names())
        if called:
            self._relabel(called)
        self._last = window
        columns = self._columns_of(window.rows.keys)
        self._evidence.add(window.evidence)
        self._kernels.add(window.kernels)
        self._stacks.add(window.stacks)
        if self.seconds is None:
            self._add_calls(window.calls)
            self._add([(window.rows, columns)])
            self._sum = self._described([window] if self._sum is None else [self._sum, window])
            self._bound(window)
            return
        if packed is None:
            packed = pack(window, tuple(map(self._keys.__getitem__, columns)))
        self._parts.append((packed, columns))
        leaving = self._leaving()
        for part, _ in leaving:
            told = part.told()
            self._evidence.remove(told.evidence)
            self._kernels.remove(told.kernels)
            self._stacks.remove(told.stacks)
            self._devices.remove(part.window.devices)
        self._add([(window.rows, columns)], leaving)
        if len(self._keys) > 2 * np.count_nonzero(self._live()) + 256:
            self._compact()

    def _relabel(self, called: Mapping[str, str]) -> None:
        """Replaces labels of devices in all windows by ``called[label]``, and computes the sum anew."""
        if self.seconds is None:
            parts = [] if self._sum is None else [pack(with_labels(self.window, called))]
        else:
            parts = [_with_labels(part, called) for part, _ in self._parts]
        # The sums of device counters are by UUID. They stay valid, and must not be added a second time.
        devices, self._devices = self._devices, MovingDevices()
        self._parts.clear()
        self._calls.clear()
        self._evidence, self._kernels, self._stacks = MovingEvidence(), MovingKernels(), MovingStacks()
        self._clear()
        self._start_with(parts)
        self._devices = devices

    def _leaving(self) -> list[tuple[Packed, _Columns]]:
        """Removes and returns the oldest windows, so that the total length of the remaining windows is as
        close to ``seconds`` as possible. Removes none if ``seconds`` is None."""
        leaving: list[tuple[Packed, _Columns]] = []
        if self.seconds is None:
            return leaving
        length = sum(part.window.seconds for part, _ in self._parts)
        while len(self._parts) > 1:
            shorter = length - self._parts[0][0].window.seconds
            if abs(shorter - self.seconds) > abs(length - self.seconds):
                break
            leaving.append(self._parts.popleft())
            length = shorter
        return leaving

    def _columns_of(self, keys: Sequence[RowKey]) -> _Columns:
        if keys == self._latest[0]:
            return self._latest[1]
        find, known = self._place.setdefault, len(self._keys)
        columns = np.fromiter((find(key, len(self._place)) for key in keys), np.int64, len(keys))
        new = len(self._place) - known
        if new:
            self._keys.extend(islice(self._place, known, None))
            self._counts = np.pad(self._counts, ((0, new), (0, 0)))
            self._max = np.pad(self._max, (0, new))
            self._split = np.pad(self._split, ((0, new), (0, 0)))
            start = np.pad(self._histograms.start, (0, new), mode="edge")
            self._histograms = replace(self._histograms, start=start)
        columns.setflags(write=False)
        self._latest = keys, columns
        return columns

    def _add(
        self, coming: Sequence[tuple[Rows, _Columns]], leaving: Sequence[tuple[Packed, _Columns]] = ()
    ) -> None:
        """Adds the windows ``coming`` and subtracts the windows ``leaving``. The sums are exact, because they
        are integers."""
        histograms: list[Histograms] = []
        groups: list[_Columns] = []
        for new, places in coming:
            np.add.at(self._counts, places, _counts(new))
            np.maximum.at(self._max, places, new.max_ns)
            if new.split_ns is not None:
                np.add.at(self._split, places, new.split_ns)
            self._unsplit += _unsplit(new)
            histograms.append(new.histograms)
            groups.append(places)
        longest_left = False
        for part, places in leaving:
            old = part.rows()
            self._counts[places] -= _counts(old)
            longest_left |= bool(np.any(old.max_ns >= self._max[places]))
            if old.split_ns is not None:
                self._split[places] -= old.split_ns
            self._unsplit -= _unsplit(old)
            histograms.append(replace(old.histograms, count=np.negative(old.histograms.count)))
            groups.append(places)
        self._histograms = _with_added(self._histograms, histograms, groups)
        if longest_left:
            self._max[:] = 0
            where = np.concatenate([places for _, places in self._parts])
            np.maximum.at(self._max, where, np.concatenate([part.max_ns for part, _ in self._parts]))

    @staticmethod
    def _described(windows: Sequence[Window]) -> Window | None:
        """Returns the sum of ``windows`` without its rows; None if there are no windows."""
        if not windows:
            return None
        last = windows[-1]
        tenants: dict[str, Tenant] = {}
        for window in windows:
            tenants.update(window.tenants)
        return replace(
            last,
            start=windows[0].start,
            seconds=sum(window.seconds for window in windows),
            tenants=tenants,
            open_calls=add_open_calls([window.open_calls for window in windows]),
            loss=add_losses([window.loss for window in windows]),
            coverage=replace(last.coverage, cost_percent=mean_cost(windows)),
            simulated=any(window.simulated for window in windows),
        )

    def _bound(self, newest: Window) -> None:
        """Limits the size of a sum since the start: its rows, kernels, stacks, evidence and tenants."""
        alive = {key.pid for key in newest.rows.keys}
        # Folding is slow, so rows are folded only if their number has doubled since the last fold.
        if len(self._keys) > max(MOST_ROWS, 2 * self._after_fold):
            self._fold(alive)
            self._after_fold = len(self._keys)
        self._kernels.bound(alive)
        self._stacks.bound()
        self._evidence.bound(alive | {use.pid for use in newest.evidence.processes})
        described = self._sum
        if described is not None and len(described.tenants) > len(newest.tenants) + 256:
            needed = {key.tenant for key in self._keys} | set(newest.tenants)
            needed |= {call.tenant for call in described.open_calls} | tenants_of(self._evidence.sum())
            needed |= {chain.tenant for chain in newest.chains}
            needed |= {call.tenant for part in self._calls for call in part.kept}
            needed |= {stack.tenant for stack in self._stacks.sum(())}
            needed |= {link.tenant for chain in newest.chains for link in chain.links}
            needed |= {allocation.tenant for allocation in newest.allocations}
            kept = {name: tenant for name, tenant in described.tenants.items() if name in needed}
            self._sum = replace(described, tenants=kept)

    def _fold(self, alive: set[int]) -> None:
        """Adds up under PID 0 the rows of the processes that are not in ``alive``."""
        rows, unsplit = self._rows(), self._unsplit
        keys = [key if key.pid in alive else key._replace(pid=0) for key in rows.keys]
        self._clear()
        self._add([(rows, self._columns_of(keys))])
        self._unsplit = unsplit

    def _compact(self) -> None:
        """Drops the keys of rows that no window of the sum has any more."""
        used = np.zeros(len(self._keys), np.bool_)
        for _, columns in self._parts:
            used[columns] = True
        kept = np.flatnonzero(used)
        new_place = np.cumsum(used) - 1
        self._parts = deque((part, new_place[columns]) for part, columns in self._parts)
        self._keys = [self._keys[column] for column in kept]
        self._place = {key: column for column, key in enumerate(self._keys)}
        self._latest, self._all_keys = ((), np.zeros(0, np.int64)), ()
        self._counts, self._max, self._split = self._counts[kept], self._max[kept], self._split[kept]
        self._histograms = self._histograms.take(kept)

    def _live(self) -> NDArray[np.bool_]:
        return np.asarray((self._counts != 0).any(axis=1) | (np.diff(self._histograms.start) > 0))

    def _rows(self) -> Rows:
        alive = self._live()
        live = np.flatnonzero(alive)
        counts = self._counts[live].T.copy()
        # Histograms are never modified in place, so no copy is needed if all rows are kept.
        whole = bool(alive.all())
        if whole and len(self._all_keys) != len(self._keys):
            self._all_keys = tuple(self._keys)
        return Rows(
            keys=self._all_keys if whole else tuple(self._keys[column] for column in live),
            calls=counts[0],
            errors=counts[1],
            bytes=counts[2],
            total_ns=counts[3],
            max_ns=self._max[live],
            histograms=self._histograms if whole else self._histograms.take(live),
            split_ns=None if self._unsplit or not len(live) else self._split[live],
        )


def _with_added(sums: Histograms, parts: Sequence[Histograms], places: Sequence[_Columns]) -> Histograms:
    """Adds every row of ``parts`` to a row of ``sums``, and returns the result.

    ``places`` has, for each part, the target row of each of its rows; a part has at most one row for each
    target. Consecutive windows mostly have the same counters. Counters that ``sums`` already has are
    increased, and only new counters are inserted. This is several times as fast as computing the sum anew.
    """
    rows = len(sums)
    # Places take 32 bits if they fit, because searching them takes most of the time here.
    kind = np.int32 if rows * COUNTERS < np.iinfo(np.int32).max else np.int64
    firsts = (np.arange(rows + 1) * COUNTERS).astype(kind)
    known = np.repeat(firsts[:-1], np.diff(sums.start)) + sums.index
    count = sums.count.copy()
    new_places, new_counts = [np.zeros(0, kind)], [np.zeros(0, np.uint64)]
    for part, place in zip(parts, places, strict=True):
        wanted = np.repeat(firsts[place], np.diff(part.start)) + part.index
        at = np.searchsorted(known, wanted)
        found = np.zeros(len(wanted), np.bool_)
        if len(known):
            found = known[np.minimum(at, len(known) - 1)] == wanted
        if found.all():
            count[at] += part.count
            continue
        count[at[found]] += part.count[found]
        new_places.append(wanted[~found])
        new_counts.append(part.count[~found])
    places_of_new, which = np.unique(np.concatenate(new_places), return_inverse=True)
    used = count != 0
    if not len(places_of_new) and used.all():
        return Histograms(sums.start, sums.index, count)
    if len(places_of_new):
        sums_of_new = np.zeros(len(places_of_new), np.uint64)
        np.add.at(sums_of_new, which, np.concatenate(new_counts))
        before = np.searchsorted(known, places_of_new)
        known = np.insert(known, before, places_of_new)
        count = np.insert(count, before, sums_of_new)
        used = count != 0
    if not used.all():
        known, count = known[used], count[used]
    start = np.searchsorted(known, firsts)
    index = known - np.repeat(firsts[:-1], np.diff(start))
    return Histograms(start.astype(np.int64), index.astype(np.uint16), count)


def _with_labels(packed: Packed, called: Mapping[str, str]) -> Packed:
    return pack(with_labels(packed.unpack(), called), peak=packed.peak) if called else packed


def _counts(rows: Rows) -> U64:
    return np.stack((rows.calls, rows.errors, rows.bytes, rows.total_ns), axis=1)


def _unsplit(rows: Rows) -> int:
    return int(rows.split_ns is None and len(rows) > 0)
