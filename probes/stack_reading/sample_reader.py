"""Adds up the sampled stacks of threads: what they did, and waited for, also between calls.

A stack of a thread that has a CPU stands for a period of CPU time. A stack that was read when a thread left
its CPU stands for the wait that followed; how long that took is read later.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import OFF_CPU, StackCount, StackFrame, StackReason
from stalltop.model.window import SPLITS, Missing
from stalltop.probes.layout import LONGEST_GAP_NS, How
from stalltop.probes.maps.samples import RawSample, WaitTime
from stalltop.probes.maps.slots import SlotKey
from stalltop.probes.stack_reading.stack_budget import no_budget
from stalltop.probes.stack_reading.stack_names import UNKNOWN, StackNames, joined, python_frames
from stalltop.probes.stacks.layout import PYTHON_FRAME, SAMPLE_NS, StackOf

NAMED_SECONDS: Final = 10.0
"""Time for which the names of a stack are remembered, s: code that was freed may have others in its place."""
WINDOW_SECONDS: Final = 0.1
"""For how long a window waits for the samples, s."""
_MOST_NAMED: Final = 4096
_MOST_NS: Final = 16 * SAMPLE_NS
"""Most time that one wait stands for if it is shorter itself, ns: a rare long one among many short waits."""
_WAITS: Final[dict[int, StackReason]] = {
    SPLITS.index(reason): reason for reason in OFF_CPU if reason in SPLITS
}


_Frames = tuple[float, tuple[StackFrame, ...]]
"""Frames, innermost first, with the time when they were named."""


class ReadsSamples(Protocol):
    """The sampled stacks (``probes.maps.samples.KernelSamples``)."""

    @property
    def failure(self) -> str:
        """Why threads that have a CPU are not sampled; '' if they are."""

    def read(self) -> list[RawSample]:
        """Returns the stacks that were read since the previous call."""

    def waited(self, sample: RawSample, now_ns: int) -> WaitTime | None:
        """Returns how long a wait has taken; None if that is not known any more."""


class KnowsThreads(Protocol):
    """Names the frames of threads, and knows their interpreters (`StackReader`)."""

    @property
    def names(self) -> StackNames:
        """Looks up the functions, files and lines of frames."""

    def is_gil(self, pid: int, futex: int) -> bool:
        """Returns whether ``futex``, an address in a process, belongs to Python's interpreter lock."""

    def why_cut(self, stack: RawSample, frames: Sequence[StackFrame]) -> str:
        """Returns why outer frames of a stack with these names are missing; '' if none are."""


class _Named(NamedTuple):
    """A sample with its names."""

    sample: RawSample
    reason: StackReason
    frames: tuple[StackFrame, ...]
    cut: str


class _Sum(NamedTuple):
    """Identifies samples that are added up."""

    key: SlotKey
    reason: StackReason
    frames: tuple[StackFrame, ...]
    cut: str


class SampleReader:
    """Adds up samples. ``look`` may be called from another thread than the other methods. Only ``look`` asks
    for names: a file system that does not answer delays no window."""

    def __init__(
        self, kernel: ReadsSamples, threads: KnowsThreads, spent: Callable[[Iterable[int]], None] = no_budget
    ) -> None:
        """``spent`` is told of the samples that were read: of each, the number of its Python frames."""
        self._kernel = kernel
        self._threads = threads
        self._names = threads.names
        self._spent = spent
        self._lock = threading.Lock()
        self._ended: deque[int] = deque()
        """Processes to be forgotten."""
        self._known: OrderedDict[tuple[int, bytes, bytes], _Frames] = OrderedDict()
        """Frames by process and addresses."""
        self._lines: OrderedDict[tuple[int, bytes], _Frames] = OrderedDict()
        """Python frames alone: native code is at another instruction in each sample."""
        self._waits: dict[tuple[int, int], tuple[_Named, int]] = {}
        """Waits that are not over, by TID and start, with the time that is counted already, ns."""
        self._sums: dict[_Sum, list[int]] = {}
        """Number of waits, and their time in ns."""

    def look(self) -> None:
        """Reads and names the newest samples. To be called several times a second."""
        with self._lock:
            while self._ended:
                pid = self._ended.popleft()
                for stack in [stack for stack in self._known if stack[0] == pid]:
                    del self._known[stack]
                for code in [code for code in self._lines if code[0] == pid]:
                    del self._lines[code]
            self._read()

    def take(self, row_of: Callable[[SlotKey], RowKey]) -> tuple[StackCount, ...]:
        """Returns the sums since the previous call; nothing if names are being looked up: then the next call
        returns them."""
        if not self._lock.acquire(timeout=WINDOW_SECONDS):
            return ()
        try:
            self._count_waits(time.monotonic_ns())
            sums, self._sums = self._sums, {}
        finally:
            self._lock.release()
        stacks = []
        for (key, reason, frames, cut), (calls, ns) in sums.items():
            row = row_of(key)
            who = row.tenant, row.pid, row.process, row.layer, row.operation, row.nested
            stacks.append(StackCount(*who, reason, calls, ns, frames, cut, row.device))
        return tuple(stacks)

    def missing(self) -> tuple[Missing, ...]:
        """Returns what is not sampled."""
        failure = self._kernel.failure
        return (Missing("lines of code that runs between calls", failure),) if failure else ()

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended, in the next call of `look`."""
        self._ended.append(pid)

    def _read(self) -> None:
        samples = self._kernel.read()
        self._spent(len(sample.python_bytes) // PYTHON_FRAME.itemsize for sample in samples)
        for named in self._named(samples) if samples else ():
            sample = named.sample
            if sample.of == StackOf.LEAVING:
                self._waits[sample.tid, sample.start_ns] = named, 0
            elif sample.of == StackOf.RUNNING:
                self._add(named, named.reason, max(sample.ns // SAMPLE_NS, 1), sample.ns)
            else:
                self._add(named, named.reason, 1, sample.ns)
        if self._waits:
            self._count_waits(time.monotonic_ns())

    def _count_waits(self, now_ns: int) -> None:
        """Counts the time of waits that are over, and that of the others until now."""
        for key, (named, counted_ns) in list(self._waits.items()):
            sample = named.sample
            waited = self._kernel.waited(sample, now_ns)
            if waited is None:
                del self._waits[key]
                continue
            ns = waited.blocked_ns + waited.queued_ns
            stands_for_ns = max(ns, min(ns * sample.ns, _MOST_NS))
            new_ns = max(stands_for_ns - counted_ns, 0)
            queued_ns = new_ns * waited.queued_ns // ns if ns else 0
            self._add(named, named.reason, 0 if counted_ns else sample.ns, new_ns - queued_ns)
            self._add(named, "runqueue", 0, queued_ns)
            if waited.over or now_ns - sample.start_ns > LONGEST_GAP_NS:
                del self._waits[key]
            else:
                self._waits[key] = named, counted_ns + new_ns

    def _add(self, named: _Named, reason: StackReason, calls: int, ns: int) -> None:
        if ns > 0:
            found = self._sums.setdefault(_Sum(named.sample.key, reason, named.frames, named.cut), [0, 0])
            found[0] += calls
            found[1] += ns

    def _reason(self, sample: RawSample) -> StackReason:
        if sample.of == StackOf.RUNNING:
            return "on_cpu"
        gil = bool(sample.futex) and self._threads.is_gil(sample.tgid, sample.futex)
        if sample.of == StackOf.WAKING:
            if gil:
                return "holds_gil"
            return "holds_lock" if sample.how == How.HELD else "hands_over"
        return "gil" if gil else _WAITS.get(sample.part, "other")

    def _named(self, samples: Iterable[RawSample]) -> list[_Named]:
        """Names the frames of samples; those without any frame are left out."""
        now = time.monotonic()
        unknown: dict[int, list[RawSample]] = defaultdict(list)
        for sample in samples:
            if _are_old(self._known.get(_stack_of(sample)), now):
                unknown[sample.tgid].append(sample)
        for pid, new in unknown.items():
            self._read_lines(pid, new, now)
            native = self._names.native(pid, {sample.native for sample in new})
            for sample in new:
                own = [_without_offset(frame) for frame in native.get(sample.native, ())]
                since, python = self._lines[_code_of(sample)] if sample.python_bytes else (now, ())
                self._known[_stack_of(sample)] = since, joined(own, python)
                self._known.move_to_end(_stack_of(sample))
        found = []
        for sample in samples:
            frames = self._known[_stack_of(sample)][1]
            if frames:
                found.append(
                    _Named(sample, self._reason(sample), frames, self._threads.why_cut(sample, frames))
                )
        for kept in (self._known, self._lines):
            while len(kept) > _MOST_NAMED:
                kept.popitem(last=False)
        return found

    def _read_lines(self, pid: int, samples: Iterable[RawSample], now: float) -> None:
        """Looks up the Python frames of samples of a process that are not known, or not any more."""
        unknown = {_code_of(sample): sample for sample in samples if sample.python_bytes}
        for code in [code for code in unknown if not _are_old(self._lines.get(code), now)]:
            del unknown[code]
        if not unknown:
            return
        lines = self._names.lines(pid, [frame for sample in unknown.values() for frame in sample.python])
        for code, sample in unknown.items():
            self._lines[code] = now, python_frames(sample.python, lines)
            self._lines.move_to_end(code)


def _stack_of(sample: RawSample) -> tuple[int, bytes, bytes]:
    return sample.tgid, sample.python_bytes, sample.native_bytes


def _code_of(sample: RawSample) -> tuple[int, bytes]:
    return sample.tgid, sample.python_bytes


def _are_old(frames: _Frames | None, now: float) -> bool:
    """Returns whether frames have to be named again, or for the first time."""
    return frames is None or now - frames[0] > NAMED_SECONDS or UNKNOWN in frames[1]


def _without_offset(frame: StackFrame) -> StackFrame:
    """Returns a frame of a function without a name as the file alone: a thread that loses its CPU is at
    another offset each time."""
    name = frame.file.rpartition("/")[2]
    return frame._replace(function=name) if frame.function.startswith(f"{name}+0x") else frame
