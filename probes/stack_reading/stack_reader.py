"""Joins what the BPF programs read of stacks with names: tells the programs where threads have their Python
frames, and turns addresses into functions, files and lines.

Names are looked up soon after a stack was read, as long as the process still has them.
"""

from __future__ import annotations

import errno
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from stalltop.model.stacks.stack import StackFrame
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Answerer, BusyError
from stalltop.probes.maps.samples import RawSample
from stalltop.probes.maps.stacks import KernelStacks, RawStack, TracedThread
from stalltop.probes.stack_reading.stack_budget import no_budget
from stalltop.probes.stack_reading.stack_names import (
    NOT_YET,
    Demangles,
    StackNames,
    joined,
    python_frames,
    why_cut,
)
from stalltop.probes.stacks.frames_outside import MOST_FRAMES
from stalltop.probes.stacks.layout import PythonEnd
from stalltop.probes.stacks.threads import PythonThread

FIRST_SECONDS: Final = 0.2
"""Time after which the threads of a process are looked up again if one of its threads was not found, s. The
time is doubled with each try that finds none."""
LONGEST_SECONDS: Final = 60.0
KEPT_SECONDS: Final = 5.0
"""Time after which a stack is dropped if no captured call belongs to it, s."""
WINDOW_SECONDS: Final = 0.1
"""For how long a window waits until another question is answered, s. Then its stacks are left out."""
_MOST_UNNAMED: Final = 256


class ReadStack(NamedTuple):
    """The stack of a captured call."""

    frames: tuple[StackFrame, ...]
    """Innermost first."""
    cut: str
    """Why outer frames are missing; '' if none are."""


class StackReader:
    """Reads stacks of captured calls. ``look`` may be called from another thread than the other methods. Only
    ``look`` waits long for answers: a file system that does not answer delays no window."""

    def __init__(
        self,
        kernel: KernelStacks,
        asks: Answerer,
        demangler: Demangles,
        impatient: Callable[[float], Answerer] | None = None,
        spent: Callable[[Iterable[int]], None] = no_budget,
    ) -> None:
        """``impatient`` returns what asks for a window: it waits for other questions only for some seconds
        (`Confined.impatient`). ``spent`` is told of the stacks that were read: of each, the number of its
        Python frames."""
        self._kernel = kernel
        self._asks = asks
        self.names = StackNames(asks, demangler)
        """Names frames."""
        self._runtimes: dict[int, range] = {}
        """Addresses of ``_PyRuntime`` by process."""
        self._impatient = impatient or (lambda seconds: asks)
        self._spent = spent
        self._lock = threading.Lock()
        self._ended: deque[int] = deque()
        """Processes to be forgotten."""
        self._told: dict[int, TracedThread] = {}
        """The threads whose frames the BPF programs know, by ``TracedThread.key``."""
        self._without_python = set[tuple[int, int]]()
        """Process and TID of the threads of which it is known that they run no Python code so far."""
        self._next: dict[int, tuple[float, float]] = {}
        """By process: when its threads are looked up next, and the delay after that."""
        self._looked_at: list[TracedThread] | None = None
        """The threads of the previous look."""
        self._due = 0.0
        """When threads are looked up next if no other threads make calls."""
        self._seen: set[int] = set()
        """Threads for which the interpreter was asked, found or not."""
        self._pythons: set[int] = set()
        """Processes that run Python code. Their new threads are looked up at once."""
        self._unknown: dict[int, str] = {}
        """Why the interpreter of a process cannot be read, by process."""
        self._unnamed: deque[RawStack] = deque(maxlen=_MOST_UNNAMED)
        """Stacks whose names were not found in time for a window."""
        self._read: dict[tuple[int, int], tuple[float, ReadStack]] = {}
        """Stacks that were not asked for yet, by TID and start of the call, with the time when they were
        read."""

    def look(self) -> bool:
        """Finds the frames of new threads, and names the stacks that were read. To be called several times a
        second. Returns whether any thread makes calls."""
        with self._lock:
            while self._ended:
                self._forget(self._ended.popleft())
            threads = self._kernel.threads()
            self._tell(threads)
            self._name(self._asks)
        return bool(threads)

    def take(self) -> dict[tuple[int, int], ReadStack]:
        """Returns the stacks that were read since the previous call, by TID and start of the call
        (CLOCK_MONOTONIC, ns). Those that are not for the caller yet are to be put back by `keep`."""
        if not self._lock.acquire(timeout=WINDOW_SECONDS):
            return {}
        try:
            self._name(self._impatient(WINDOW_SECONDS))
            found, self._read = self._read, {}
        finally:
            self._lock.release()
        return {key: stack for key, (_, stack) in found.items()}

    def keep(self, stacks: dict[tuple[int, int], ReadStack]) -> None:
        """Puts stacks back that `take` returned; they are dropped when they are old."""
        now = time.monotonic()
        if not stacks or not self._lock.acquire(timeout=WINDOW_SECONDS):
            return
        try:
            for (tid, start_ns), stack in stacks.items():
                if now - start_ns / 1e9 < KEPT_SECONDS:
                    self._read.setdefault((tid, start_ns), (now, stack))
        finally:
            self._lock.release()

    def now(self, pid: int, tid: int) -> ReadStack | None:
        """Returns the Python frames of a thread that hangs in a call, read from outside; None if other
        questions are being answered."""
        asks = self._impatient(WINDOW_SECONDS)
        (frames,) = asks.ask(Examiner.python_stack, [(pid, tid)])
        if isinstance(frames, BusyError):
            return None
        if isinstance(frames, OSError) or not frames:
            return ReadStack((), "")
        try:
            lines = self.names.lines(pid, frames, asks)
        except BusyError:
            return None
        shown = python_frames(frames, lines)
        return ReadStack(
            shown, why_cut(PythonEnd.DEEPER if len(frames) >= MOST_FRAMES else PythonEnd.WHOLE, shown)
        )

    def why_cut(self, stack: RawStack | RawSample, frames: Sequence[StackFrame]) -> str:
        """Returns why outer frames of a stack with these names are missing; '' if none are."""
        if stack.end == PythonEnd.NONE:
            if stack.tgid in self._unknown:
                return self._unknown[stack.tgid]
            if (stack.tgid, stack.tid) not in self._without_python:
                return NOT_YET
        return why_cut(stack.end, frames)

    def is_gil(self, pid: int, futex: int) -> bool:
        """Returns whether ``futex``, an address in a process, belongs to Python's interpreter lock."""
        return futex in self._runtimes.get(pid, ())

    def missing(self) -> tuple[Missing, ...]:
        """Returns why stacks of processes lack their Python lines."""
        return tuple(
            Missing("lines of Python code", reason, "", pid) for pid, reason in sorted(self._unknown.items())
        )

    def remapped(self, pids: Collection[int] | None) -> None:
        """Forgets what the addresses of processes name, because the processes have mapped code; None: any
        process may have."""
        with self._lock:
            self.names.remapped(pids)

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended, in the next call of `look`."""
        self._ended.append(pid)

    def _forget(self, pid: int) -> None:
        self._due = 0.0
        self.names.remapped([pid])
        self._runtimes.pop(pid, None)
        self._next.pop(pid, None)
        self._unknown.pop(pid, None)
        self._pythons.discard(pid)
        for key in [key for key, thread in self._told.items() if thread.tgid == pid]:
            del self._told[key]
            self._kernel.forget(key)

    def _tell(self, threads: list[TracedThread]) -> None:
        now = time.monotonic()
        waiting: dict[int, list[TracedThread]] = defaultdict(list)
        if threads is self._looked_at and now < self._due:
            return
        self._looked_at, self._due = threads, math.inf
        for thread in threads:
            if self._told.get(thread.key) != thread:
                waiting[thread.tgid].append(thread)
        for gone in self._told.keys() - {thread.key for thread in threads}:
            del self._told[gone]
            self._kernel.forget(gone)
        self._seen &= {thread.key for thread in threads}
        self._without_python &= {(thread.tgid, thread.tid) for thread in threads}
        for pid, new in waiting.items():
            due, delay = self._next.get(pid, (0.0, FIRST_SECONDS))
            unseen = {thread.key for thread in new} - self._seen
            if unseen and pid in self._pythons:
                due, delay = 0.0, FIRST_SECONDS
            self._seen |= unseen
            if now < due:
                self._due = min(self._due, due)
                continue
            if self._find(pid, new):
                delay = FIRST_SECONDS
            self._next[pid] = now + delay, min(2 * delay, LONGEST_SECONDS)
            self._due = min(self._due, now + delay)

    def _find(self, pid: int, threads: Iterable[TracedThread]) -> bool:
        """Tells the BPF programs where threads of a process have their Python frames. Returns whether it
        found any."""
        (answer,) = self._asks.ask(Examiner.python, [(pid,)])
        if isinstance(answer, OSError):
            if answer.errno == errno.ENOTSUP:  # UnknownInterpreterError
                self._unknown[pid] = clean(answer.strerror or "")
            return False
        found: dict[int, PythonThread] = {}
        if answer is not None:
            self._pythons.add(pid)
            self._runtimes[pid] = range(answer.runtime, answer.runtime + answer.runtime_bytes)
            found = {thread.tid: thread for thread in answer.threads}
        told = False
        for thread in threads:
            if answer is not None and thread.tid in found:
                self._kernel.tell(thread, found[thread.tid], answer.layout)
                self._told[thread.key] = thread
                self._without_python.discard((pid, thread.tid))
                told = True
            else:
                self._without_python.add((pid, thread.tid))
        return told

    def _name(self, asks: Answerer) -> None:
        now = time.monotonic()
        by_process: dict[int, list[RawStack]] = defaultdict(list)
        unnamed = [*self._unnamed]
        self._unnamed.clear()
        read = self._kernel.read()
        self._spent(len(stack.python) for stack in read)
        for stack in (*unnamed, *read):
            by_process[stack.tgid].append(stack)
            if stack.end == PythonEnd.MOVED:
                self._lost(stack)
        for pid, stacks in by_process.items():
            try:
                frames_of_all = [frame for stack in stacks for frame in stack.python]
                lines = self.names.lines(pid, frames_of_all, asks)
                native = self.names.native(pid, {stack.native for stack in stacks}, asks)
            except BusyError:
                self._unnamed += stacks
                continue
            for stack in stacks:
                frames = joined(native.get(stack.native, ()), python_frames(stack.python, lines))
                self._read[stack.tid, stack.start_ns] = now, ReadStack(frames, self.why_cut(stack, frames))

    def _lost(self, stack: RawStack) -> None:
        """The state of a thread is gone: the thread may have another one by now."""
        for key, thread in list(self._told.items()):
            if thread.tgid == stack.tgid:
                del self._told[key]
        self._next.pop(stack.tgid, None)
        self._due = 0.0
