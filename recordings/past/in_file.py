"""The past in an opened recording: finds and merges the windows that the screen shows for one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from stalltop.model.merge.merging import fleet
from stalltop.model.merge.packing import Packed
from stalltop.model.merge.sliding import Sliding
from stalltop.model.text import figures
from stalltop.model.window import Coverage, Rows, Window
from stalltop.model.window_times import WindowTimes
from stalltop.recordings.past.file_index import Index
from stalltop.recordings.past.kept import HOLE_SECONDS, NEAR, Stale, never
from stalltop.recordings.past.opened import BEFORE, OpenedRecording
from stalltop.recordings.past.whole import Whole
from stalltop.recordings.read.reading import WindowGoneError

_AT_ONCE = 32
_TRIES = 3
_PATIENCE_SECONDS = 0.1
"""While a thread waits for a sum, it checks at this interval, in seconds, whether the caller still wants the
sum."""
DAMAGED = "this stretch of the recording is damaged"


class InFile:
    """The past in a file; implements ``recordings.past.kept.Past``."""

    def __init__(
        self, recording: OpenedRecording, index: Index, parts: Sequence[Packed] = (), *, trouble: str = ""
    ) -> None:
        """``trouble`` says why new windows of the file cannot be read; '' if they can."""
        self._recording = recording
        self._index = index
        self.parts = parts
        self._trouble = trouble
        self._several = len(index.hosts) > 1

    @classmethod
    def of(cls, recording: OpenedRecording) -> InFile:
        """Return the past in ``recording`` as it is now. Raises StalltopError if ``recording`` has no window,
        or is closed."""
        index, trouble = recording.look()
        return cls(recording, index, trouble=trouble)

    def with_parts(self, *, fetch: bool = False, stale: Stale = never) -> InFile:
        """Return this past with ``parts``, the last windows that are in memory. With ``fetch``, windows are
        read until ``parts`` has all windows that a page draws; this takes up to seconds."""
        parts = self.before(self.end, stale) if fetch else None
        parts = self.at_hand(self.end) if parts is None else parts
        return InFile(self._recording, self._index, parts, trouble=self._trouble)

    def is_as(self, other: InFile) -> bool:
        """Return whether this past and ``other`` show the same state of the file."""
        return self._index is other._index and self._trouble == other._trouble

    @property
    def end(self) -> float:
        """End of the newest moment, Unix seconds."""
        return float(self._index.times.end[-1])

    @property
    def stretch(self) -> WindowTimes:
        """Times of all moments. If a window of a moment is damaged, the lost time of the moment is NaN."""
        damaged = self._recording.damaged
        times = self._index.times
        if not damaged:
            return times
        lost = times.lost_ms_per_s.copy()
        lost[self._index.moment[np.isin(self._index.window_id, list(damaged))]] = np.nan
        return WindowTimes(times.start, times.end, lost, times.worst, times.began)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the file, and about windows that could not be read."""
        damaged = self._recording.damaged
        which = np.flatnonzero(np.isin(self._index.window_id, list(damaged)))
        warnings = self._recording.warnings
        if self._trouble:
            warnings += (f"new windows of the recording cannot be read: {self._trouble}",)
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
        """Return the window of a time (``Past.window_at``). If all windows of that time are damaged, or if a
        recorder merged windows during each of ``_TRIES`` attempts to read them, return a window without rows.
        Its coverage has the message ``DAMAGED``."""
        kept = self
        for _ in range(_TRIES):
            try:
                with self._recording.hurry():
                    return kept._window_at(at, length, stale)
            except WindowGoneError:
                kept = InFile.of(self._recording)
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
        """Return the windows that are in memory (``Past.at_hand``)."""
        return self._leading(self._upto(at))

    def before(self, at: float, stale: Stale = never) -> Sequence[Packed] | None:
        """Return the windows of the last ``BEFORE`` moments up to a time (``Past.before``). Reads the newest
        windows first. If ``stale`` stops the call, the windows that were read stay in memory for the next
        call."""
        last = self._upto(at)
        for window_id in reversed(self._ids(last)):
            self._recording.give_way(stale)
            if stale():
                return None
            with suppress(WindowGoneError):
                self._recording.packed(window_id)
        return self._leading(last, make=stale)

    def _upto(self, at: float) -> int:
        """Return the number of the last moment whose middle is at or before ``at``; 0 if there is none. The
        moment may end after ``at`` if its windows have been merged: then ``at`` lies in its second half."""
        times = self._index.times
        return max(int(np.searchsorted((times.start + times.end) / 2, at, "right")) - 1, 0)

    def _ids(self, last: int) -> list[int]:
        """Return the numbers of the windows of the last ``BEFORE`` moments up to moment ``last``."""
        first, after = np.searchsorted(self._index.moment, (last - BEFORE + 1, last + 1))
        return [int(one) for one in self._index.window_id[first:after]]

    def _leading(self, last: int, make: Stale | None = None) -> tuple[Packed, ...]:
        """Return those windows of the last ``BEFORE`` moments up to moment ``last`` that are in memory. If
        the file has several hosts, the windows of a moment are merged. Moments that are not merged yet are
        merged now while ``make`` returns False; without ``make``, or once it returns True, they are left
        out."""
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
        """Return the numbers of the windows of ``host`` that make up a window of ``length`` seconds, which
        ends with moment ``last``. Return [] if the host has no window near that moment."""
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
        """Return the sum of all windows up to moment ``last``. The sum up to the newest moment stays in
        memory: if ``stale`` stops a call for it, the next such call continues from what is added up so
        far."""
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
            # Only a few windows are unpacked at a time: all windows of a day together would take gigabytes.
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
