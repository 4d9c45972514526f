"""The index of a recording: the times of its windows, and the moment to which each window belongs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stalltop.model.chain import SEVERITIES
from stalltop.model.errors import StalltopError
from stalltop.model.window_times import WindowTimes
from stalltop.recordings.read.reading import WindowList

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The windows of a file in the order of their ends, and the moment of each. A moment consists of the
    windows of several hosts that end together. All arrays have shape (windows,)."""

    window_id: Ints
    host: Ints
    start: Floats
    end: Floats
    moment: Ints
    times: WindowTimes
    """Times of the moments, one for each moment."""

    @staticmethod
    def of(moments: WindowList) -> Index:
        """Return the index of the windows in ``moments``. Raises StalltopError if there is no window."""
        ends = moments.start + moments.seconds
        order = np.lexsort((moments.host_id, moments.start, ends))
        if not len(order):
            raise StalltopError(
                "the recording has no window yet", "wait some seconds until the recorder has written one"
            )
        start, end, host = moments.start[order], ends[order], moments.host_id[order]
        moment = _moments(start, end, host)
        first = np.searchsorted(moment, np.arange(int(moment[-1]) + 1))
        none = len(SEVERITIES)
        times = WindowTimes(
            start=np.minimum.reduceat(start, first),
            end=np.maximum.reduceat(end, first),
            lost_ms_per_s=np.maximum.reduceat(np.nan_to_num(moments.lost_ms_per_s[order]), first),
            worst=np.minimum.reduceat(np.clip(moments.worst[order], 0, none), first),
            began=np.minimum.reduceat(np.clip(moments.began[order], 0, none), first),
        )
        return Index(moments.window_id[order], host, start, end, moment, times)

    @property
    def hosts(self) -> list[int]:
        """Numbers of all hosts in the file."""
        return [int(one) for one in np.unique(self.host)]


def _moments(start: Floats, end: Floats, host: Ints) -> Ints:
    """Return for each window the number of its moment, counted from 0. The arrays describe windows in the
    order of their ends.

    A moment has at most one window of each host. A new moment begins with a window whose host already has one
    in the moment, or that ends later than the first window of the moment by more than half the length of that
    first window.
    """
    if len(np.unique(host)) == 1:
        return np.arange(len(end))
    found = np.zeros(len(end), np.int64)
    number, until = -1, -np.inf
    seen: set[int] = set()
    for at, (one, ended, length) in enumerate(
        zip(host.tolist(), end.tolist(), (end - start).tolist(), strict=True)
    ):
        if one in seen or ended > until:
            number, until, seen = number + 1, ended + length / 2, set()
        seen.add(one)
        found[at] = number
    return found
