"""Represents the kernel side as one object. It loads programs, attaches them to functions, and reads counts
and open calls."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Sequence
from typing import Final, Literal

from stalltop.model.errors import TracingError, UnsafeTracingError
from stalltop.model.progress import Progress
from stalltop.probes import layout
from stalltop.probes.maps.access import MapAccess
from stalltop.probes.maps.evictions import Evictions
from stalltop.probes.maps.functions import tell_functions
from stalltop.probes.maps.kept_calls import KeptCalls
from stalltop.probes.maps.open_calls import OpenCalls, RawOpenCall
from stalltop.probes.maps.quotas import Quotas
from stalltop.probes.maps.raw import Memory, RawCapturedCall, RawEvictions, RawQuota
from stalltop.probes.maps.samples import KernelSamples
from stalltop.probes.maps.slots import Counts, SlotKey, Slots
from stalltop.probes.maps.stacks import KernelStacks
from stalltop.probes.operations import FUNCTIONS, Function
from stalltop.probes.programs.bpf_calls import BpfError, missed_runs
from stalltop.probes.programs.loading import (
    MEMORY,
    RING_BYTES,
    check_host,
    explained,
    load,
    refusal,
)
from stalltop.probes.programs.task_offsets import (
    NoBtfError,
    TaskOffsets,
    knows_sessions,
    knows_uprobe_multi,
    task_offsets,
)
from stalltop.probes.tracer.attach import Attachment, Point
from stalltop.probes.tracer.calibrating import OWN, ProbeTime, calibrate
from stalltop.probes.tracer.cuda_side import CudaSide
from stalltop.probes.tracer.kernel_evidence import KernelEvidence
from stalltop.probes.tracer.probing import Probing

__all__ = ["Attachment", "Counts", "KernelSide", "Point", "SlotKey", "Way"]

Way = Literal["auto", "multi", "perf"]

_CLOSE_SECONDS: Final = 0.5
"""Time in seconds that `close` waits for an ``attach`` that is under way."""
_WHERE_TYPES_ARE: Final = (
    "run a kernel built with CONFIG_DEBUG_INFO_BTF; a container must see the host's /sys/kernel/btf"
)


class KernelSide:
    """Counts calls of functions in the Linux kernel.

    ``attach`` may be called from another thread than the other methods. ``slots`` is the maximum number of
    histograms (one for each operation of a process on each of its devices), ``threads`` that of traced and
    followed threads, and ``memory`` that of bytes in the Linux kernel. ``splits`` says whether to measure
    where the time of calls goes, which costs a little at every switch of threads on the host. ``ring_bytes``
    is the room for captured calls until they are read. ``progress`` receives the progress of slow steps.

    Raises TracingError. After an error, nothing stays attached or loaded.
    """

    def __init__(
        self,
        *,
        slots: int = 4096,
        threads: int = 8192,
        memory: int = MEMORY,
        way: Way = "auto",
        functions: Sequence[Function] = FUNCTIONS,
        splits: bool = True,
        ring_bytes: int = RING_BYTES,
        progress: Progress | None = None,
    ) -> None:
        self.functions = tuple(functions)
        """Functions whose calls are counted. Their ids are the attach cookies of their probes."""
        self.way: str
        """How probes are attached: ``multi`` or ``perf``."""
        self.probe_time: ProbeTime
        """How much time the probes add to counted calls on this host."""
        self.no_splits: TracingError | None = None
        """Why calls cannot be split; None if they are split, or if that was not requested."""
        self.evidence: KernelEvidence
        """Reads what is measured besides calls."""
        self.cuda: CudaSide
        """Reads devices and launches of CUDA programs."""
        self.stacks: KernelStacks
        """Reads the stacks of captured calls."""
        self.samples: KernelSamples
        """Reads the stacks of threads between calls."""
        self._attaching = threading.Lock()
        self._access = MapAccess()
        self._ring_bytes = ring_bytes
        self._most_memory = memory
        self._progress = progress
        check_host()
        # uprobe_multi is checked first: after a failed attempt with it, the verifier would have to check the
        # programs again.
        both = ("multi", "perf") if knows_uprobe_multi() else ("perf",)
        ways = both if way == "auto" else (way,)
        task = self._task() if splits else None
        for choice in ways:
            try:
                self._begin_at_best(slots, threads, choice, task)
                return
            except UnsafeTracingError:
                raise
            except TracingError as reason:
                if choice == ways[-1]:
                    raise explained(reason) from reason

    @property
    def sessions(self) -> bool:
        """Returns whether the Linux kernel has sessions of uprobes (6.13 and later), for
        ``attach_sessions``."""
        return self.way == "multi" and knows_sessions()

    def _task(self) -> TaskOffsets | None:
        try:
            return task_offsets()
        except NoBtfError as reason:
            self.no_splits = TracingError(str(reason), _WHERE_TYPES_ARE)
            return None

    def _begin_at_best(self, slots: int, threads: int, way: str, task: TaskOffsets | None) -> None:
        if task is not None:
            try:
                self._begin(slots, threads, way, task)
                return
            except UnsafeTracingError:
                raise
            except TracingError as reason:
                failed = reason
            self._begin(slots, threads, way, None)
            self.no_splits = failed  # This is set only here, once tracing has worked without splits.
        else:
            self._begin(slots, threads, way, None)

    def _begin(self, slots: int, threads: int, way: str, task: TaskOffsets | None) -> None:
        self.way = way
        self._programs = programs = load(
            slots,
            threads,
            multi=way == "multi",
            memory=self._most_memory,
            task=task,
            ring_bytes=self._ring_bytes,
            progress=self._progress,
        )
        try:
            with contextlib.ExitStack() as undo:
                undo.callback(programs.close)
                self._probing = Probing(programs, way)
                undo.callback(self._probing.close)
                tell_functions(programs.functions, (*self.functions, OWN))
                self._slots = Slots(programs, splits=task is not None)
                self._kept = KeptCalls(programs, splits=task is not None)
                self.cuda = CudaSide(programs, self._access)
                self._slots.before_free = self.cuda.let_go
                self.evidence = KernelEvidence(programs, self._slots, self._access, self.functions)
                self.stacks = KernelStacks(programs, self._access)
                self.samples = KernelSamples(programs, self._access)
                undo.callback(self.samples.close)
                self._probing.begin()
                self._follow_next = task is not None
                self._losses_seen = dict[str, int]()
                self._open = OpenCalls(lambda: programs.threads)
                self._quotas = Quotas(programs)
                self._evictions = Evictions(programs)
                self.probe_time = calibrate(self._probing.attach, self._slots, lambda: programs.threads)
                self._kept.read(time.monotonic_ns())
                self.losses()
                self._end = undo.pop_all()
                """Closing this detaches and closes everything."""
        except OSError as error:
            raise TracingError(f"the kernel refused to trace: {error.strerror}") from error

    @property
    def not_kept(self) -> str:
        """Returns why compiled programs are not cached for the next start; '' if they are."""
        return self._programs.complaint

    @property
    def memory(self) -> Memory:
        """Returns how much memory the maps and programs use in the Linux kernel."""
        programs = self._programs
        all_in_use = programs.octaves.all_in_use or int(programs.left_in[layout.Pool.SLOTS]) <= 0
        return Memory(programs.fixed_bytes + programs.octaves.bytes, self._most_memory, all_in_use)

    def read(self) -> Counts:
        """Returns what was counted since the previous read. Costs little if nothing was counted."""
        with self._access:
            counts = self._slots.read()
            self._kept.adapt(self._slots.risen)
            self.cuda.read(self._slots.risen)
            return counts

    def kept_calls(self, end_ns: int) -> list[RawCapturedCall]:
        """Returns captured calls that ended by ``end_ns`` (CLOCK_MONOTONIC) and were not returned before.

        ``Counts.passed_over``, which ``read`` returns, counts slow calls that were not captured.
        """
        with self._access as is_open:
            return self._kept.read(end_ns) if is_open else []

    def open_calls(self) -> list[RawOpenCall]:
        """Returns calls that have not returned yet. Within a thread, outer calls come before the calls inside
        them."""
        return self._open.open()

    def ended_calls(self) -> list[RawOpenCall]:
        """Returns calls inside which their threads have ended, since this method was last called."""
        return self._open.ended()

    def losses(self) -> dict[str, int]:
        """Returns what was lost since the previous call. The keys are those of ``model.window.LOSSES``."""
        counters = self._programs.losses[0].copy()
        total = {name: int(counters[name]) for name in layout.LOSSES.names or ()}
        with self._access as is_open:
            programs = self._counting() if is_open else ()
            total["missed"] = sum(map(missed_runs, programs)) if programs else self._losses_seen["missed"]
            seen, self._losses_seen = self._losses_seen, total
        return {name: count - seen.get(name, 0) for name, count in total.items()}

    def over_quota(self) -> list[RawQuota]:
        """Returns which processes and cgroups were refused records since the previous call, those that were
        refused most first."""
        with self._access as is_open:
            return self._quotas.read() if is_open else []

    def evictions(self) -> list[RawEvictions]:
        """Returns which LRU maps were found to have lost elements since the previous call."""
        with self._access as is_open:
            return self._evictions.read() if is_open else []

    def release(self, *tgids: int) -> None:
        """Frees everything that the processes ``tgids`` owned. To be called once they have ended and their
        last counts were read. To release many together takes as long as to release one."""
        with self._access as is_open:
            if is_open:
                self._slots.release(*tgids)
        self.evidence.release(*tgids)

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes functions of the file at ``path`` (``/proc/self/fd/N`` is allowed) in every process."""
        with self._attaching:
            if not self._access.is_open:
                return Attachment(0, [(point, "tracing has ended") for point in points], (), _nothing)
            try:
                self._probing.begin()
            except OSError as error:
                reason = f"the kernel refused a tracepoint: {error.strerror}"
                return Attachment(0, [(point, reason) for point in points], (), _nothing)
            if self._follow_next:
                self._follow_threads()
            return self._probing.attach(path, points)

    def rest(self) -> None:
        """Costs the host no time any more until the first call of `attach`. May be called only before it."""
        with self._attaching, self._access as is_open:
            if is_open:
                self._probing.rest()

    def attach_sessions(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes functions like ``attach``, but so that only some of their calls are timed
        (``bpf/timed.h``). `tell_timing` comes before."""
        with self._attaching:
            if not self._access.is_open:
                return Attachment(0, [(point, "tracing has ended") for point in points], (), _nothing)
            try:
                return self._probing.attach_sessions(path, points)
            except BpfError as refused:
                return Attachment(0, [(point, str(refusal(refused))) for point in points], (), _nothing)

    def tell_timing(self, cookies: Collection[int], timing: layout.Timing) -> None:
        """Sets how calls of the functions with these ``cookies`` are counted by sessions."""
        with self._access as is_open, contextlib.suppress(OSError):
            if is_open:
                functions = [function for function in self.functions if function.id in cookies]
                tell_functions(self._programs.functions, functions, timing)

    def close(self) -> None:
        """Removes every probe and releases everything. May be called twice.

        Does not wait for an ``attach`` that hangs (in a file system that does not answer). The probes of that
        call are removed when stalltop ends.
        """
        waited = self._attaching.acquire(timeout=_CLOSE_SECONDS)
        try:
            with self._access as is_open:
                if is_open:
                    self._access.end()
                    self._end.close()
        finally:
            if waited:
                self._attaching.release()

    def _counting(self) -> tuple[int, ...]:
        """Returns the descriptors of the loaded programs that count calls."""
        session = self._programs.session.fd
        return self._programs.entry, self._programs.returns, *((session,) if session >= 0 else ())

    def _follow_threads(self) -> None:
        """Starts to observe every switch of threads. This is not done before something is traced, because it
        costs time on the whole host."""
        self._follow_next = False
        try:
            self._probing.follow_threads()
        except OSError as error:
            self.no_splits = TracingError(
                f"the kernel refused the tracepoints of its scheduler: {error.strerror}"
            )
            with self._access:
                self._slots.leave_splits_out()
                self._kept.leave_splits_out()
                self.evidence.leave_splits_out()


def _nothing(links: Sequence[int]) -> None:
    """Closes nothing. It is used for an Attachment without probes."""
