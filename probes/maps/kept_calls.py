"""Reads captured calls from the ring of the kernel side, and sets which calls the kernel side captures.

**Slow** calls of a slot are calls that take at least as long as the slot's threshold. After each read, the
threshold is set by the slot's recent calls (the weight of a call falls to 1/e in ``MEMORY_SECONDS``). Two
limits hold: at most ``SHARE`` of the calls are slow (or one call per second, if that is more), and per second
at most the slot's part of ``SLOW_A_SECOND``. All slots with new calls have equal parts, of at most half of
``MOST_OF_SLOT``. In a new slot, the BPF program chooses slow calls by a rule of its own. If calls suddenly
become slow, the BPF program also limits their number per second (``bpf/kept.h``).

**Samples** are taken at random from all calls that are not slow, equally many per second from each slot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import COUNTERS, lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.probes.layout import DEVICE_SHIFT, HOST_GAP, HOST_WORK, KEPT_CALL, NESTED, Why
from stalltop.probes.maps.raw import RawCapturedCall
from stalltop.probes.maps.slots import split_up
from stalltop.probes.programs.loading import Programs

SLOW_A_SECOND: Final = 160
"""Maximum number of slow calls captured per second, over all slots."""
SAMPLES_A_SECOND: Final = 40
"""Maximum number of calls captured at random per second, over all slots."""
MOST_OF_SLOT: Final = 32
"""Maximum number of slow calls of one slot captured per second. Thresholds are set so that at most half as
many calls of a slot are slow; the other half is for calls that suddenly become slow."""
SHARE: Final = 0.05
"""Maximum share of a slot's calls that are slow. One slow call per second may exceed this share, but not the
slot's part of ``SLOW_A_SECOND``."""
MEMORY_SECONDS: Final = 15.0
"""Time in seconds after which the weight of a call for the threshold has fallen to 1/e."""

_FINE: Final = 4
"""The threshold is set in steps of 2^_FINE neighbouring histogram counters: 8 steps per octave."""
_STEPS: Final = COUNTERS >> _FINE
_LOWEST: Final = np.append(lowest_ns(np.arange(_STEPS) << _FINE), np.iinfo(np.int64).max).astype(np.uint64)
"""Shortest duration of each step, ns. The last element is a duration that no call reaches: if it is the
threshold, no call is slow."""
_LEAST_SECONDS: Final = 0.05


class KeptCalls:
    """Reads the calls in the kernel side's ring. Used from one thread at a time."""

    def __init__(
        self, programs: Programs, *, splits: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ring = programs.kept_calls
        self._slots = programs.slots.array
        self._owners = programs.owners
        self._splits = splits
        self._clock = clock
        keeping = programs.keeping
        keeping["most_slow"], keeping["most_samples"] = SLOW_A_SECOND, SAMPLES_A_SECOND
        keeping["most_of_slot"] = MOST_OF_SLOT
        n = len(self._slots)
        # Number of calls by slot and step; the weight of a call falls with its age. Memory pages of slots
        # that were never used stay unallocated.
        self._calls = np.zeros((n, _STEPS), np.float32)
        self._first, self._end = _STEPS, 0
        """Calls were only ever seen in the steps from ``_first`` up to ``_end``, which is not included. Only
        these are examined."""
        self._began = np.zeros(n)
        self._updated = np.zeros(n)
        self._last = clock()
        self._early = np.empty(0, KEPT_CALL)
        """Calls that were taken from the ring but ended after the ``end_ns`` of the latest read."""

    def leave_splits_out(self) -> None:
        """Reports no splits from now on. Called if it turns out that the BPF programs cannot measure them."""
        self._splits = False

    def read(self, end_ns: int) -> list[RawCapturedCall]:
        """Returns calls that ended by ``end_ns`` (CLOCK_MONOTONIC) and were not returned yet."""
        found = self._ring.take()
        if len(self._early):
            found = np.concatenate([self._early, found])
        early = found["start_ns"] + found["duration_ns"] > end_ns
        self._early = found[early]
        return self._told(found[~early] if len(self._early) else found)

    def adapt(self, risen: tuple[NDArray[np.intp], Histograms]) -> None:
        """Sets the thresholds. ``risen`` has the slots with new counts since the previous call, and the
        histograms of these counts."""
        now = self._clock()
        slots, histograms = self._of_calls(*risen)
        if len(slots):
            self._set_thresholds(slots, self._remembered(slots, histograms, now), now)
        self._last = now

    def _set_thresholds(self, slots: NDArray[np.intp], calls: NDArray[np.float32], now: float) -> None:
        slow_a_second = min(SLOW_A_SECOND / len(slots), MOST_OF_SLOT / 2)
        samples_a_second = min(SAMPLES_A_SECOND / len(slots), 1.0)
        seconds = MEMORY_SECONDS * -np.expm1((self._began[slots] - now) / MEMORY_SECONDS)
        seconds = np.maximum(seconds, _LEAST_SECONDS)
        # Column k is the number of calls in the k + 1 highest steps that were ever seen.
        above = np.cumsum(calls[:, ::-1], axis=1)
        n = above[:, -1]
        # One call per second allows s + 1 calls in s seconds, because the first may come at once.
        may_be = np.minimum(slow_a_second * seconds, np.maximum(SHARE * n, seconds + 1))
        lowest = self._end - np.count_nonzero(above <= may_be[:, None], axis=1)
        lowest[lowest == self._first] = 0  # All calls may be slow.
        self._slots["slow_ns"][slots] = np.maximum(_LOWEST[lowest], 1)
        self._slots["sample_every"][slots] = np.maximum(n / (seconds * samples_a_second), 1)

    def _of_calls(
        self, slots: NDArray[np.intp], histograms: Histograms
    ) -> tuple[NDArray[np.intp], Histograms]:
        """Returns ``slots`` and ``histograms`` without two kinds of slots: slots that do not count calls (but
        host gaps or host work), and slots that have been freed."""
        operation = self._owners["operation"][slots] & (NESTED - 1)
        rows = np.flatnonzero((operation != 0) & (operation != HOST_GAP) & (operation != HOST_WORK))
        return (slots, histograms) if len(rows) == len(slots) else (slots[rows], histograms.take(rows))

    def _remembered(self, slots: NDArray[np.intp], histograms: Histograms, now: float) -> NDArray[np.float32]:
        new = slots[self._slots["sample_every"][slots] == 0]
        self._calls[new] = 0
        self._began[new] = self._updated[new] = self._last
        fading = np.exp((self._updated[slots] - now) / MEMORY_SECONDS).astype(np.float32)
        steps = histograms.index >> _FINE
        self._first, self._end = min(self._first, int(steps.min())), max(self._end, int(steps.max()) + 1)
        n = self._end - self._first
        places = histograms.row_of_entry() * n + (steps - self._first)
        added = np.bincount(places, weights=histograms.count, minlength=len(slots) * n)
        calls = self._calls[slots, self._first : self._end] * fading[:, None]
        calls += added.reshape(len(slots), n)
        self._calls[slots, self._first : self._end] = calls
        self._updated[slots] = now
        return np.asarray(calls)

    def _told(self, found: NDArray[np.void]) -> list[RawCapturedCall]:
        if not len(found):
            return []
        splits: list[list[int]] | None = None
        if self._splits:
            splits = split_up(found["duration_ns"], found["split_ns"][:, 1:]).tolist()
        operations = found["operation"].tolist()
        return [
            RawCapturedCall(
                tgid,
                tid,
                cgroup_id,
                operation & (NESTED - 1),
                operation & NESTED != 0,
                function,
                start_ns,
                duration_ns,
                moved,
                returned,
                why == Why.SLOW,
                None if splits is None else tuple(splits[row]),
                tuple(arguments),
                born_ns,
                operation >> DEVICE_SHIFT,
            )
            for row, (
                tgid,
                tid,
                cgroup_id,
                operation,
                function,
                start_ns,
                duration_ns,
                moved,
                returned,
                why,
                arguments,
                born_ns,
            ) in enumerate(
                zip(
                    found["tgid"].tolist(),
                    found["tid"].tolist(),
                    found["cgroup_id"].tolist(),
                    operations,
                    found["function"].tolist(),
                    found["start_ns"].tolist(),
                    found["duration_ns"].tolist(),
                    found["bytes"].tolist(),
                    found["returned"].tolist(),
                    found["why"].tolist(),
                    found["arguments"].tolist(),
                    found["born_ns"].tolist(),
                    strict=True,
                )
            )
        ]
