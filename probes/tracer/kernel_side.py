"""Represents the kernel side as one object: loads programs, attaches functions, reads counts and open
calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from stalltop.model.errors import TracingError, UnsafeTracingError
from stalltop.model.progress import Progress
from stalltop.probes import layout
from stalltop.probes.maps.activity import Activities
from stalltop.probes.maps.allocations import Allocations
from stalltop.probes.maps.charges import Charges
from stalltop.probes.maps.communicators import Communicators
from stalltop.probes.maps.cuda_programs import (
    NO_PROGRAM,
    CudaProgram,
    cuda_program,
    tell_older,
    users_of_driver,
)
from stalltop.probes.maps.kept_calls import KeptCalls
from stalltop.probes.maps.launches import Kernels, RawKernel, inherited_name, runs_program
from stalltop.probes.maps.open_calls import OpenCalls, RawOpenCall
from stalltop.probes.maps.raw import (
    RawActivities,
    RawCapturedCall,
    RawCharge,
    RawHeld,
    RawPlaced,
    RawRank,
    RawWait,
    RawWork,
)
from stalltop.probes.maps.slots import Counts, SlotKey, Slots
from stalltop.probes.maps.works import Works
from stalltop.probes.operations import CHOOSINGS, DRIVER, FIRST_CHOOSING, FUNCTIONS, RUNTIME, Function
from stalltop.probes.programs.bpf_calls import attach_raw_tracepoint, missed_runs, put
from stalltop.probes.programs.loading import RING_BYTES, Programs, check_host, explained, load
from stalltop.probes.programs.task_offsets import NoBtfError, TaskOffsets, knows_uprobe_multi, task_offsets
from stalltop.probes.tracer.attach import Attacher, Attachment, MultiAttacher, Point, close_together
from stalltop.probes.tracer.attach_perf import PerfAttacher
from stalltop.probes.tracer.calibrating import OWN, calibrate

__all__ = ["Attachment", "Counts", "KernelSide", "Point", "SlotKey", "Way"]

Way = Literal["auto", "multi", "perf"]

_CLOSE_SECONDS: Final = 0.5
"""Seconds that `close` waits for an ``attach`` to end."""
_WHERE_TYPES_ARE: Final = (
    "run a kernel built with CONFIG_DEBUG_INFO_BTF; a container must see the host's /sys/kernel/btf"
)


class KernelSide:
    """Counts calls of functions in the Linux kernel.

    ``attach`` may be called from another thread than the rest. ``slots`` is the number of histograms (16 KiB
    each, one for every operation of every process), ``threads`` the maximum number of traced threads,
    ``splits`` whether to measure where the time of calls goes, which costs a little at every switch of
    threads on the host, and ``ring_bytes`` the room for captured calls until they are read; ``progress``
    receives the progress of slow steps.

    Raises TracingError, having left nothing behind.
    """

    def __init__(
        self,
        *,
        slots: int = 4096,
        threads: int = 8192,
        way: Way = "auto",
        functions: Sequence[Function] = FUNCTIONS,
        splits: bool = True,
        ring_bytes: int = RING_BYTES,
        progress: Progress | None = None,
    ) -> None:
        self.functions = tuple(functions)
        """Functions that cookies may identify."""
        self.way: str
        """How probes are attached: ``multi`` or ``perf``."""
        self.probe_ns: float
        """Cost of one counted call in its probes on this host, ns."""
        self.no_splits: TracingError | None = None
        """Why calls cannot be split; None if they are, or if that was not requested."""
        self._attaching = threading.Lock()
        self._reading = threading.Lock()
        self._closed = False
        self._ring_bytes = ring_bytes
        self._progress = progress
        self._attachments: list[Attachment] = []
        self._launches: list[RawKernel] = []
        """Launches that were read and not yet returned."""
        check_host()
        # Checked first, because a vain attempt with uprobe_multi would cost the verifier's work twice.
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
            self.no_splits = failed  # Set only now, because tracing does work without splits.
        else:
            self._begin(slots, threads, way, None)

    def _begin(self, slots: int, threads: int, way: str, task: TaskOffsets | None) -> None:
        self.way = way
        self._programs = load(
            slots,
            threads,
            multi=way == "multi",
            task=task,
            ring_bytes=self._ring_bytes,
            progress=self._progress,
        )
        self._tracepoints: list[int] = []
        self._own: Attachment | None = None
        try:
            self._attacher = _attacher(way, self._programs.entry, self._programs.returns)
            self._naming = _attacher(way, self._programs.naming, self._programs.named)
            self._choosing = _attacher(way, self._programs.choosing, self._programs.chosen)
            self._fill_functions()
            self._slots = Slots(self._programs, splits=task is not None)
            self._kept = KeptCalls(self._programs, splits=task is not None)
            self._kernels = Kernels(self._programs)
            self._slots.before_free = self._kernels.let_go
            self._charges = _charges(self._programs)
            self._works = _works(self._programs)
            self._allocations = Allocations(self._programs)
            self._communicators = Communicators(self._programs)
            self._activities = Activities(self._programs, self.functions)
            self._tracepoints.append(attach_raw_tracepoint(self._programs.ends, "sched_process_exit"))
            self._tracepoints.append(attach_raw_tracepoint(self._programs.execs, "sched_process_exec"))
            self._follow_next = task is not None
            self._losses_seen = dict[str, int]()
            self._choices_seen = np.zeros(threads, np.uint32)
            self._open = OpenCalls(self._programs.threads)
            self.probe_ns = calibrate(self._attach_own, self._slots, self._programs.threads)
            self._kept.read(time.monotonic_ns())
            self.losses()
        except BaseException as error:
            self._end()
            if isinstance(error, OSError):
                raise TracingError(f"the kernel refused to trace: {error.strerror}") from error
            raise

    @property
    def not_kept(self) -> str:
        """Returns why compiled programs are not cached for the next start; '' if they are."""
        return self._programs.complaint

    def read(self) -> Counts:
        """Returns what was counted since the previous read. Costs little if nothing was counted."""
        with self._reading:
            counts = self._slots.read()
            self._kept.adapt(self._slots.risen)
            self._launches += self._kernels.read(self._slots.risen)
            return counts

    def launches(self) -> list[RawKernel]:
        """Returns launches by CUDA kernel that `read` has found and that were not returned before. Only
        outermost calls count."""
        with self._reading:
            launches, self._launches = self._launches, []
            return launches

    def program_of(self, tgid: int) -> CudaProgram:
        """Returns what is known of the devices of the program that process ``tgid`` runs, or ran when it
        ended."""
        with self._reading:
            return NO_PROGRAM if self._closed else cuda_program(self._programs.cuda_programs, tgid)

    def choices(self) -> int:
        """Returns the number of calls that chose a device, since this method was last called. These calls
        have probes, but no rows."""
        total = self._programs.threads["choices"].copy()
        before, self._choices_seen = self._choices_seen, total
        return int((total - before).sum(dtype=np.uint64))

    def inherited_name(self, tgid: int, function: int) -> int:
        """Returns the address of a function's name in the memory of process ``tgid`` if its parent registered
        it, else 0.

        A program that forks first and then launches has registered its CUDA kernels before the fork.
        """
        with self._reading:
            return 0 if self._closed else inherited_name(self._programs, tgid, function)

    def runs_program(self, tgid: int, born_ns: int) -> bool:
        """Returns whether process ``tgid`` still runs the program with this ``RawKernel.born_ns``."""
        with self._reading:
            return not self._closed and runs_program(self._programs, tgid, born_ns)

    def kept_calls(self, end_ns: int) -> list[RawCapturedCall]:
        """Returns captured calls that ended by ``end_ns`` (CLOCK_MONOTONIC) and were not returned before.

        Slow calls that were not captured are counted in ``Counts.passed_over`` of ``read``.
        """
        with self._reading:
            return [] if self._closed else self._kept.read(end_ns)

    def charges(self) -> list[RawCharge]:
        """Returns which processes took time from calls, gaps and followed threads since this was last
        called."""
        with self._reading:
            return [] if self._charges is None or self._closed else self._charges.read()

    def waits(self) -> list[RawWait]:
        """Returns which thread waited, and which thread ended the wait, for the charges that `charges`
        returned last."""
        with self._reading:
            return [] if self._charges is None or self._closed else self._charges.waits()

    def works(self) -> list[RawWork]:
        """Returns what each followed thread did since this was last called."""
        with self._reading:
            return [] if self._works is None or self._closed else self._works.read(time.monotonic_ns())

    def placed(self) -> list[RawPlaced]:
        """Returns on which CPUs threads were in the samples that `look` took since this was last called."""
        with self._reading:
            return [] if self._works is None or self._closed else self._works.placed()

    def links(self) -> dict[int, int]:
        """Returns the link of each traced process: 0 if it makes calls, 1 if it wakes such a process, n if it
        wakes a process of link n - 1."""
        threads = self._programs.threads
        used = np.flatnonzero(threads["tid"])
        found: dict[int, int] = {}
        for tgid, link in zip(threads["tgid"][used].tolist(), threads["link"][used].tolist(), strict=True):
            if tgid:
                found[tgid] = min(link, found.get(tgid, link))
        return found

    def open_calls(self) -> list[RawOpenCall]:
        """Returns calls that have not returned yet, the outer before the inner ones of a thread."""
        return self._open.open()

    def ended_calls(self) -> list[RawOpenCall]:
        """Returns calls inside which threads have ended since this method was last called."""
        return self._open.ended()

    def losses(self) -> dict[str, int]:
        """Returns what was lost since the previous call, by the names of ``model.window.LOSSES``."""
        counters = self._programs.losses[0].copy()
        total = {name: int(counters[name]) for name in layout.LOSSES.names or ()}
        with self._reading:
            programs = () if self._closed else (self._programs.entry, self._programs.returns)
            total["missed"] = sum(map(missed_runs, programs)) if programs else self._losses_seen["missed"]
            seen, self._losses_seen = self._losses_seen, total
        return {name: count - seen.get(name, 0) for name, count in total.items()}

    def held(self) -> list[RawHeld]:
        """Returns the device memory of processes that hold some, or have allocated or freed since the
        previous call."""
        with self._reading:
            return [] if self._closed else self._allocations.read()

    def ranks(self) -> list[RawRank]:
        """Returns the ranks on this host of every NCCL communicator that was made while it was traced."""
        with self._reading:
            return [] if self._closed else self._communicators.read()

    def look(self) -> None:
        """Takes a sample of what the BPF programs keep only for a short time. Called more often than
        `read`."""
        with self._reading:
            if self._closed:
                return
            if self._works is not None:
                self._works.look()
            if self._activities.due:
                self._activities.look()

    def activities(self) -> RawActivities:
        """Returns when processes were active on devices since this was last called."""
        with self._reading:
            return RawActivities(0, 0, []) if self._closed else self._activities.read()

    def unknown_communicators(self) -> set[int]:
        """Returns processes that enter collectives of communicators older than the probes, which are not
        compared."""
        return self._communicators.unknown()

    def tgids(self) -> set[int]:
        """Returns processes that own histograms, device memory or ranks."""
        return self._slots.tgids() | self._allocations.tgids() | self._communicators.tgids()

    def release(self, tgid: int) -> None:
        """Frees what process ``tgid`` owned. To be called when it has ended and its last counts were read."""
        with self._reading:
            if not self._closed:
                self._slots.release(tgid)
                if self._charges is not None:
                    self._charges.release(tgid)
                self._communicators.release(tgid)
                self._activities.release(tgid)
                self._allocations.release(tgid)

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes functions of the file at ``path`` (``/proc/self/fd/N`` is allowed) in every process."""
        with self._attaching:
            if self._closed:
                return Attachment(0, [(point, "tracing has ended") for point in points], (), _nothing)
            if self._follow_next:
                self._follow_threads()
            # Two names of one function would count as two calls at one place.
            places = {point.offset: point for point in reversed(points)}
            chosen = [*reversed(places.values())]
            counted = [point for point in chosen if point.cookie < layout.FUNCTIONS]
            choosing = [point for point in chosen if point.cookie >= FIRST_CHOOSING]
            naming = [point for point in chosen if layout.FUNCTIONS <= point.cookie < FIRST_CHOOSING]
            # Probes for names and devices come first, so that a CUDA kernel launched from now on has both.
            attachment = self._naming.attach(path, naming)
            attachment = self._attach_choosing(path, choosing).joined(attachment)
            attachment = self._attacher.attach(path, counted).joined(attachment)
            self._attachments = [other for other in self._attachments if other.attached] + [attachment]
            return attachment

    def _attach_choosing(self, path: str, points: Sequence[Point]) -> Attachment:
        begins = any(point.cookie % CHOOSINGS == layout.Choosing.BEGINS for point in points)
        # Processes that have the driver by now may have initialized CUDA, and chosen devices, before.
        older = users_of_driver() if begins else set()
        tell_older(self._programs.older_programs, older)
        attachment = self._choosing.attach(path, points)
        if begins:
            tell_older(self._programs.older_programs, users_of_driver() - older)
        return attachment

    def close(self) -> None:
        """Removes every probe and releases everything. May be called twice.

        Does not wait for an ``attach`` that hangs (in a file system that does not answer): its probes are
        removed when stalltop ends.
        """
        waited = self._attaching.acquire(timeout=_CLOSE_SECONDS)
        try:
            with self._reading:
                if not self._closed:
                    self._closed = True
                    self._end()
        finally:
            if waited:
                self._attaching.release()

    def _follow_threads(self) -> None:
        """Starts to observe every switch of threads; a host on which nothing is traced is spared that
        cost."""
        self._follow_next = False
        followed: list[int] = []
        try:
            followed.append(attach_raw_tracepoint(self._programs.moves, "sched_migrate_task"))
            followed.append(attach_raw_tracepoint(self._programs.wakes, "sched_waking"))
            followed.append(attach_raw_tracepoint(self._programs.switches, "sched_switch"))
        except OSError as error:
            close_together(followed)
            self.no_splits = TracingError(
                f"the kernel refused the tracepoints of its scheduler: {error.strerror}"
            )
            with self._reading:
                self._slots.leave_splits_out()
                self._kept.leave_splits_out()
                self._charges = self._works = None
        else:
            self._tracepoints += followed

    def _end(self) -> None:
        links = [link for attachment in self._attachments for link in attachment.take()]
        if self._own is not None:
            links += self._own.take()
        if links:
            self._attacher.close(links)
        close_together(self._tracepoints)
        self._tracepoints.clear()
        self._programs.close()

    def _fill_functions(self) -> None:
        for function in (*self.functions, OWN):
            entry = np.zeros(1, layout.FUNCTION)
            entry["operation"] = function.operation
            entry["pending"] = function.pending
            entry["size"] = function.size
            entry["a"], entry["b"], entry["c"] = function.a, function.b, function.c
            entry["direction"], entry["d"] = function.direction, function.d
            entry["object"], entry["object_at"] = function.object, function.object_at
            entry["uses_device"] = function.uses_device
            entry["waits_for_gpu"] = function.layer in (RUNTIME, DRIVER)
            put(self._programs.functions, np.uint32(function.id).tobytes(), entry.tobytes())

    def _attach_own(self, path: str, points: Sequence[Point]) -> Attachment:
        self._own = self._attacher.attach(path, points)
        return self._own


def _attacher(way: str, entry: int, returns: int) -> Attacher:
    return (MultiAttacher if way == "multi" else PerfAttacher)(entry, returns)


def _charges(programs: Programs) -> Charges | None:
    if programs.charges is None:
        return None
    return Charges(programs.charges, programs.charge_of, programs.free_charges)


def _works(programs: Programs) -> Works | None:
    if programs.off_cpu is None:
        return None
    return Works(programs.off_cpu, programs.threads, time.monotonic_ns())


def _nothing(links: Sequence[int]) -> None:
    """Closes nothing: for an Attachment without probes."""
