"""An opened recording as a past to look at: its times are in memory, its windows are read when asked for.

Used from two threads: the one that follows the file, and the one that makes pictures.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

import numpy as np

from model.errors import Told
from model.history import DEFAULT_BYTES
from model.merging import fleet, merge
from model.packing import Packed, Peak, pack
from model.sliding import Sliding
from model.window import Coverage, RowKey, Rows, Window
from outputs import figures
from store.reading import Gone, Moments
from tui.file_index import Index
from tui.kept import HOLE_SECONDS, NEAR, Stale, never
from widgets.timeline import Stretch

BEFORE = 120
"""Windows that are fetched of what led to a moment: as many as any page draws."""
_AT_ONCE = 32
_TRIES = 3
_YIELD_SECONDS = 0.005
_PATIENCE_SECONDS = 0.1
"""How often who waits for a sum asks whether it is still wanted."""
DAMAGED = "this stretch of the recording is damaged"

Normals = Mapping[RowKey, tuple[int, int]]
"""``Window.normals``."""


class File(Protocol):
    """What is asked of ``store.reading.Recorded``."""

    @property
    def moments(self) -> Moments:
        """What the file had when ``changed`` was asked last, or at first."""
        ...

    @property
    def warnings(self) -> list[str]:
        """What could not be read, one line each."""
        ...

    def changed(self) -> bool:
        """Whether another program has written since this was asked last."""
        ...

    def window(self, window_id: int) -> Window:
        """One window. Raises Gone where it is no longer there, and Told where it is damaged."""
        ...

    def close(self) -> None:
        """The file is not needed any more."""
        ...


class Whole:
    """All windows of one host up to a moment, added up. Newer ones are added as they come."""

    def __init__(self) -> None:
        self._sum = Sliding(None)
        self._empty = True
        self.upto = -np.inf
        """Unix time in seconds: windows that ended by then were added, or cannot be read."""

    def add(self, parts: Sequence[Packed], upto: float) -> None:
        """Add ``parts``, all windows that can be read of those that ended after ``self.upto`` by ``upto``."""
        if parts:
            self._sum.take_in(merge([part.unpack() for part in parts]))
            self._empty = False
        self.upto = upto

    @property
    def window(self) -> Window | None:
        """The sum; None where nothing was added."""
        return None if self._empty else self._sum.window


class Recording:
    """A recording that is looked at."""

    def __init__(self, file: File, *, most_bytes: int = DEFAULT_BYTES) -> None:
        """``most_bytes`` bounds the memory of windows that were read, and are kept to look at again."""
        self._file = file
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._read: OrderedDict[int, tuple[Packed, Normals]] = OrderedDict()
        self._normals: Normals = {}
        """Those that were read last: most windows have the same."""
        self._fleets: OrderedDict[tuple[int, ...], Packed] = OrderedDict()
        """Windows of several hosts that were put together, by the numbers of their parts."""
        self._bytes = 0
        self._keys: dict[RowKey, RowKey] = {}
        self._damaged: dict[int, str] = {}
        self._closed = False
        self._index: Index | None = None
        self._trouble = ""
        """Why the file could not be looked at the last time."""
        self.wholes: dict[int, Whole] = {}
        """By host, all of it."""
        self.adding = threading.Lock()
        """Held by who adds to them."""
        self._hurried = 0
        """How many pictures are being made: what is fetched ahead waits meanwhile."""

    def look(self) -> InFile:
        """What the file holds now; what it held before, with a note, where it can no longer be looked at.

        Raises Told where it has no window, or is closed.
        """
        with self._lock:
            if self._closed:
                raise Told("the recording is closed")
            try:
                if self._file.changed() or self._index is None:
                    self._index = Index.of(self._file.moments)
                self._trouble = ""
            except Told as told:
                if self._index is None:
                    raise
                self._trouble = told.reason
            return InFile(self, self._index, trouble=self._trouble)

    def packed(self, window_id: int, *, keep: bool = True) -> Packed | None:
        """A window, put away; None where it is damaged. ``keep``: it may soon be wanted again.

        Raises Gone where it is no longer in the file: it was put together with others.
        """
        with self._lock:
            known = self._read.get(window_id)
            if known is not None:
                self._read.move_to_end(window_id)
                return known[0]
            if window_id in self._damaged or self._closed:
                return None
            try:
                window = self._file.window(window_id)
            except Gone:
                raise
            except Told as told:
                self._damaged[window_id] = told.reason
                return None
            found = pack(window, tuple(self._keys.setdefault(key, key) for key in window.rows.keys))
            if keep:
                self._keep(window_id, found, window.normals)
            return found

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """What is done within is waited for."""
        with self._lock:
            self._hurried += 1
        try:
            yield
        finally:
            with self._lock:
                self._hurried -= 1

    def give_way(self, stale: Stale) -> None:
        """Wait until nothing is in a hurry, or what waits is no longer wanted."""
        while self._hurried and not stale():
            time.sleep(_YIELD_SECONDS)

    def at_hand(self, window_id: int) -> Packed | None:
        """A window that was read already, if it is still kept."""
        known = self._read.get(window_id)
        return None if known is None else known[0]

    def normals(self, window_id: int) -> Normals:
        """What was normal when that window ended, if it is still kept."""
        known = self._read.get(window_id)
        return {} if known is None else known[1]

    def together(self, parts: Mapping[int, Packed], *, make: bool) -> Packed | None:
        """Windows of one moment, by their numbers, side by side; None where they are still to be put there
        and not to ``make``."""
        key = tuple(parts)
        known = self._fleets.get(key)
        if known is None and make:
            peak = Peak.highest([one.peak for one in parts.values()])
            known = pack(fleet([one.unpack() for one in parts.values()]), peak=peak)
            with self._lock:
                self._fleets[key] = known
                if len(self._fleets) > 2 * BEFORE:
                    self._fleets.popitem(last=False)
        return known

    def _keep(self, window_id: int, found: Packed, normals: Normals) -> None:
        if normals != self._normals:
            self._normals = normals
        self._read[window_id] = found, self._normals
        self._bytes += found.bytes
        while self._bytes > self._most_bytes and len(self._read) > 1:
            self._bytes -= self._read.popitem(last=False)[1][0].bytes
        if len(self._keys) > 65_536:
            self._keys = {key: key for packed, _ in self._read.values() for key in packed.keys}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the whole file, one line each."""
        return tuple(self._file.warnings)

    @property
    def damaged(self) -> dict[int, str]:
        """Windows that were asked for and cannot be read, and why."""
        return dict(self._damaged)

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._file.close()


class InFile:
    """The past that a file holds: ``tui.kept.Kept``."""

    def __init__(
        self, recording: Recording, index: Index, parts: Sequence[Packed] = (), *, trouble: str = ""
    ) -> None:
        """``trouble``: why it is no longer looked at, if so."""
        self._recording = recording
        self._index = index
        self.parts = parts
        self._trouble = trouble
        self._several = len(index.hosts) > 1

    def with_parts(self, *, fetch: bool = False, stale: Stale = never) -> InFile:
        """The same, with the windows before its end as ``parts``: those at hand, or with ``fetch`` all that a
        page draws, which takes up to seconds."""
        parts = self.before(self.end, stale) if fetch else None
        parts = self.at_hand(self.end) if parts is None else parts
        return InFile(self._recording, self._index, parts, trouble=self._trouble)

    def is_as(self, other: InFile) -> bool:
        """Whether the file held the same when ``other`` was got."""
        return self._index is other._index and self._trouble == other._trouble

    @property
    def end(self) -> float:
        """When the newest moment ended."""
        return float(self._index.times.end[-1])

    @property
    def stretch(self) -> Stretch:
        """The times of all moments; what is known to be damaged has no height."""
        damaged = self._recording.damaged
        times = self._index.times
        if not damaged:
            return times
        lost = times.lost_ms_per_s.copy()
        lost[self._index.moment[np.isin(self._index.window_id, list(damaged))]] = np.nan
        return Stretch(times.start, times.end, lost, times.worst, times.began)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the file said of itself when it was opened, and what was asked for and cannot be read."""
        damaged = self._recording.damaged
        which = np.flatnonzero(np.isin(self._index.window_id, list(damaged)))
        warnings = self._recording.warnings
        if self._trouble:
            warnings += (f"what is written to it now cannot be read: {self._trouble}",)
        if not len(which):
            return warnings
        start, end = (
            figures.moment(float(at))[:19] for at in (self._index.start[which[0]], self._index.end[which[-1]])
        )
        count = f"{len(which)} windows" if len(which) > 1 else "a window"
        why = damaged[int(self._index.window_id[which[0]])]
        found = f"damaged: {count} from {start} to {end} left out ({why})"
        return (*warnings, found)

    # ---- windows

    def window_at(self, at: float, length: float | None, stale: Stale = never) -> Window | None:
        """See ``Kept``. Where all of that stretch is damaged, a window without rows that says so."""
        kept = self
        for _ in range(_TRIES):
            try:
                with self._recording.hurry():
                    return kept._window_at(at, length, stale)
            except Gone:
                kept = self._recording.look()
        return self._nothing(self._upto(at))

    def _window_at(self, at: float, length: float | None, stale: Stale) -> Window | None:
        last = self._upto(at)
        if length is None:
            return self._whole_at(last, stale)
        found: list[Window] = []
        for host in self._index.hosts:
            window = self._sum(self._of(host, last, length), length, stale)
            if stale():
                return None
            if window is not None:
                found.append(window)
        if not found:
            return self._nothing(last)
        return fleet(found) if self._several else found[0]

    def at_hand(self, at: float) -> Sequence[Packed]:
        """See ``Kept``."""
        return self._leading(self._upto(at))

    def before(self, at: float, stale: Stale = never) -> Sequence[Packed] | None:
        """See ``Kept``. The newest come first: what was fetched is there the next time."""
        last = self._upto(at)
        for window_id in reversed(self._ids(last)):
            self._recording.give_way(stale)
            if stale():
                return None
            with suppress(Gone):
                self._recording.packed(window_id)
        return self._leading(last, make=stale)

    def _upto(self, at: float) -> int:
        """The moment that ended at ``at`` or before, or was put together since and holds ``at`` in its later
        half."""
        times = self._index.times
        return max(int(np.searchsorted((times.start + times.end) / 2, at, "right")) - 1, 0)

    def _ids(self, last: int) -> list[int]:
        """The windows of the moments that lead to ``last``."""
        first, after = np.searchsorted(self._index.moment, (last - BEFORE + 1, last + 1))
        return [int(one) for one in self._index.window_id[first:after]]

    def _leading(self, last: int, make: Stale | None = None) -> tuple[Packed, ...]:
        """What led to the moment ``last``, as far as it was read. With ``make`` hosts are put together first,
        until that says that it is not wanted."""
        get = self._recording.at_hand
        if not self._several:
            return tuple(part for part in map(get, self._ids(last)) if part is not None)
        parts = []
        for moment in range(max(last - BEFORE + 1, 0), last + 1):
            first, after = np.searchsorted(self._index.moment, (moment, moment + 1))
            windows = {one: get(one) for one in self._index.window_id[first:after].tolist()}
            there = {one: part for one, part in windows.items() if part is not None}
            if make is not None:
                self._recording.give_way(make)
            wanted = make is not None and not make()
            found = self._recording.together(there, make=wanted) if there else None
            if found is not None:
                parts.append(found)
        return tuple(parts)

    def _of(self, host: int, last: int, length: float) -> list[int]:
        """The windows of ``host`` that make the one of ``length`` seconds that ends with the moment
        ``last``; none where the host was not seen then."""
        index = self._index
        which = np.flatnonzero(index.host == host)
        which = which[: int(np.searchsorted(index.moment[which], last, "right"))]
        if not len(which):
            return []
        if index.end[which[-1]] < index.times.start[last] - max(HOLE_SECONDS, length):
            return []
        seconds = (index.end - index.start)[which][::-1].cumsum()
        which = which[-(int(np.searchsorted(seconds, length - NEAR)) + 1) :]
        holes = np.flatnonzero(index.start[which][1:] - index.end[which][:-1] > HOLE_SECONDS)
        which = which[int(holes[-1]) + 1 :] if len(holes) else which
        return [int(one) for one in index.window_id[which]]

    def _parts(self, ids: Iterable[int], stale: Stale, *, keep: bool = True) -> list[Packed]:
        parts = []
        for window_id in ids:
            if stale():
                return []
            part = self._recording.packed(window_id, keep=keep)
            if part is not None:
                parts.append(part)
        return parts

    def _sum(self, ids: Sequence[int], length: float, stale: Stale) -> Window | None:
        parts = self._parts(ids, stale)
        if not parts:
            return None
        return replace(Sliding(length, parts).window, normals=self._recording.normals(ids[-1]))

    def _whole_at(self, last: int, stale: Stale) -> Window | None:
        """All windows up to the moment ``last``. Those up to the end are added up once only, a piece at a
        time: what is called off goes on from there."""
        recording = self._recording
        if last < int(self._index.moment[-1]):
            return self._added({}, last, stale)
        while not recording.adding.acquire(timeout=_PATIENCE_SECONDS):
            if stale():
                return None
        try:
            return self._added(recording.wholes, last, stale)
        finally:
            recording.adding.release()

    def _added(self, wholes: dict[int, Whole], last: int, stale: Stale) -> Window | None:
        index = self._index
        for host in index.hosts:
            whole = wholes.setdefault(host, Whole())
            new = np.flatnonzero(
                (index.host == host) & (index.moment <= last) & (index.end > whole.upto + NEAR)
            )
            # Some at a time: unpacked, a day would take gigabytes.
            for first in range(0, len(new), _AT_ONCE):
                some = new[first : first + _AT_ONCE]
                parts = self._parts(index.window_id[some].tolist(), stale, keep=False)
                if stale():
                    return None
                whole.add(parts, float(index.end[some[-1]]))
        found = [whole.window for whole in wholes.values()]
        there = [window for window in found if window is not None]
        if not there:
            return self._nothing(last)
        return fleet(there) if self._several else there[0]

    def _nothing(self, moment: int) -> Window:
        times = self._index.times
        start, end = float(times.start[moment]), float(times.end[moment])
        return Window(start, end - start, "", Rows.empty(), coverage=Coverage(tracing=DAMAGED))
