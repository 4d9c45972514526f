"""Reads calls that have not returned, from the records of threads: open calls, and calls that will never
return because their threads have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes import layout


class RawOpenCall(NamedTuple):
    """A call that has not returned yet, or never will because its thread ended."""

    tgid: int
    tid: int
    cgroup_id: int
    operation: int
    nested: bool
    start_ns: int
    """CLOCK_MONOTONIC, ns."""
    ended_ns: int = 0
    """When the thread ended inside the call (CLOCK_MONOTONIC, ns); 0 while the call is open."""
    device: int = 0
    """Device number, as in ``probes.maps.slots.SlotKey``."""


class OpenCalls:
    """Reads the records that ``threads`` returns: those that were ever in use (dtype ``layout.THREAD``). The
    records change while they are read."""

    def __init__(self, threads: Callable[[], NDArray[np.void]]) -> None:
        self._threads = threads
        self._ended_told: dict[int, int] = {}
        """For each record of an ended thread, by number: when the thread ended. Its calls have been
        reported."""

    def open(self) -> list[RawOpenCall]:
        """Returns calls that have not returned yet. Within a thread, outer calls come before the calls inside
        them."""
        threads = self._threads()
        busy = np.flatnonzero((threads["depth"] != 0) & (threads["tid"] != 0))
        first, second = threads[busy], threads[busy]
        # Threads continue while their records are copied. Only a frame that is equal in both copies is
        # complete.
        stable = (first["tid"] == second["tid"]) & (first["tid"] != 0)
        same = (first["frames"] == second["frames"]) & stable[:, None]
        same &= np.arange(layout.DEPTH) < np.minimum(first["depth"], second["depth"])[:, None]
        return [
            _raw_call(first[row], int(level), int(first["tgid"][row]))
            for row, level in zip(*np.nonzero(same), strict=True)
        ]

    def ended(self) -> list[RawOpenCall]:
        """Returns calls inside which their threads have ended since the previous call of this method.

        No call is returned twice. A call is missed only if another thread has taken the record in the
        meantime. New threads take the record that has been free for longest, so a record is taken only after
        as many new threads as there were free records.
        """
        threads = self._threads()
        over = np.flatnonzero((threads["depth"] != 0) & (threads["tid"] == 0))
        ended = zip(over.tolist(), threads["ended_ns"][over].tolist(), strict=True)
        told, self._ended_told = self._ended_told, dict(ended)
        new = [row for row, ended_ns in self._ended_told.items() if told.get(row) != ended_ns]
        if not new:  # the usual case; comparing records is slow even if there are none
            return []
        first, second = threads[new], threads[new]
        calls = []
        # If a new thread takes over a record, it changes the depth first, so the two copies differ. Such a
        # record is left out.
        for thread in first[(first == second) & (first["tid"] == 0)]:
            tgid, ended_ns = int(thread["ended_tgid"]), int(thread["ended_ns"])
            calls += [_raw_call(thread, level, tgid, ended_ns) for level in range(int(thread["depth"]))]
        return calls


def _raw_call(thread: np.void, level: int, tgid: int, ended_ns: int = 0) -> RawOpenCall:
    """Returns the call in frame number ``level`` of a thread's record."""
    frame = thread["frames"][level]
    operation = int(frame["operation"])
    return RawOpenCall(
        tgid,
        int(thread["shown_tid"]),
        int(thread["cgroup_id"]),
        operation & (layout.NESTED - 1),
        operation & layout.NESTED != 0,
        int(frame["start_ns"]),
        ended_ns,
        operation >> layout.DEVICE_SHIFT or int(thread["device"]),
    )
