"""Makes the windows of this host: joins the counts of the Linux kernel side with their owners, the GPUs and
the host."""

from __future__ import annotations

import contextlib
import platform
import resource
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from stalltop.model.calls import CapturedCalls
from stalltop.model.cuda_kernels import KernelCount, added_kernels
from stalltop.model.devices.device import Devices
from stalltop.model.devices.labels import UNKNOWN
from stalltop.model.errors import TracingError
from stalltop.model.evidence import HOST_LAYER, Evidence
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.merge.merging import longest_ended
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import StackCount
from stalltop.model.tenant import Tenant
from stalltop.model.text.clean import clean
from stalltop.model.text.words import with_pid
from stalltop.model.window import U64, Coverage, Missing, OpenCall, Rows, Window
from stalltop.probes import operations
from stalltop.probes.budget.keeper import BudgetKeeper
from stalltop.probes.budget.pauses import extra_calls
from stalltop.probes.captured_calls import captured_calls
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Confined
from stalltop.probes.confined.names import ConfinedNames
from stalltop.probes.confined.questions import Questions
from stalltop.probes.confined.ras import confined_status
from stalltop.probes.cuda_devices.owners import (
    OTHER_NUMBERS,
    holders,
    listed,
    numbered_otherwise,
    with_owners,
)
from stalltop.probes.cuda_devices.process_devices import ProcessDevices
from stalltop.probes.evidence import EvidenceReader
from stalltop.probes.first_calls import FirstCalls
from stalltop.probes.forgotten import forgotten
from stalltop.probes.host.host import HostReader
from stalltop.probes.host.network import NetworkReader
from stalltop.probes.kubelet.device_ids import uuids_of, with_uuids
from stalltop.probes.kubelet.reader import KubeletReader
from stalltop.probes.layout import HOST_WORK
from stalltop.probes.libraries.discovery import Libraries
from stalltop.probes.libraries.processes import Processes
from stalltop.probes.libraries.unprobed import UnprobedProcess
from stalltop.probes.maps.cuda_programs import NO_PROGRAM, CudaProgram
from stalltop.probes.maps.launches import RawKernel
from stalltop.probes.maps.open_calls import RawOpenCall
from stalltop.probes.maps.raw import RawEvictions, RawQuota
from stalltop.probes.nvml.reader import DeviceReader
from stalltop.probes.options import MonitorOptions
from stalltop.probes.over_quota import out_of_memory, over_quota
from stalltop.probes.privileges import capabilities
from stalltop.probes.stack_reading.window_stacks import WindowStacks
from stalltop.probes.stacks.layout import Stacks
from stalltop.probes.symbols.cuda_kernel_names import SEARCH_SECONDS, KernelNames
from stalltop.probes.symbols.demangler import Demangler
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.process_watch import ProcessWatch, is_alive
from stalltop.probes.tenants.tenants import Tenants, process_name
from stalltop.probes.tracer.kernel_side import Counts, KernelSide, SlotKey

NAMES_AFTER_LOOKS = 3
"""The process that demangles names is started after this many searches for new libraries, so that its start
does not delay the first data."""
LOOK_SECONDS = 0.2
"""Seconds between two searches for new libraries. It is short enough that a process is traced well within a
second of its start."""

ENDED_CALL_NS = 1_000_000_000
"""Shortest duration of a call that is listed because its thread ended inside it, ns. A shorter call only
shows that the program was stopped while it was working."""


class Monitor:
    """Traces this host. If tracing is impossible, windows still have the GPUs, the host, and the reason.
    ``cannot_trace`` is that reason, or None.
    """

    def __init__(self, options: MonitorOptions | None = None) -> None:
        options = options or MonitorOptions()
        raise_descriptor_limit()
        self.host = clean(platform.node()) or "localhost"
        self.cannot_trace: TracingError | None = None
        self._tenants = Tenants(sources=ConfinedNames(Confined(), options.host_root))
        self._kubelet = KubeletReader(options.host_root)
        self._watch = ProcessWatch()
        self._names = ProcessNames()
        self._confined = options.confined or Confined()
        self._confined_search = Confined(patience_seconds=SEARCH_SECONDS)
        """Started for the first program whose code is searched for names: that must not delay discovery."""
        self._places = ProcessDevices(
            self._program_of,
            self._uninitialized,
            read=partial(Questions(self._confined).one, Examiner.sight),
        )
        self._evidence = EvidenceReader(
            self._tenants, self._names, label=self._places.label, asks=self._confined
        )
        self._keys: dict[SlotKey, RowKey] = {}
        """Keys that were made for earlier windows. Windows share them, because most keys never change."""
        self._callers_of_keys: dict[tuple[int, int], tuple[str, str]] = {}
        """Name and tenant id in these keys, by PID and cgroup id."""
        self._labels_of_keys: dict[tuple[int, int], str] = {}
        """Device labels in these keys, by PID and device number."""
        self._callers: set[tuple[int, int]] = set()
        self._devices = DeviceReader(options.nvml_environment)
        # Whether the PIDs that the driver lists may belong to other processes here, because stalltop runs in
        # another PID namespace. A stand-in library, named by the options, lists PIDs of this namespace.
        self._other_numbers = not options.nvml_environment and numbered_otherwise()
        self._hosts = HostReader()
        self._network = NetworkReader(options.host_root)
        self._first_calls = FirstCalls(self._tenant_of)
        self._kernel: KernelSide | None = None
        self._kernel_names = KernelNames()
        self._libraries: Libraries | None = None
        self._stacks: WindowStacks | None = None
        self._budget: BudgetKeeper | None = None
        self._looker: threading.Thread | None = None
        self._stop = threading.Event()
        self._searched = threading.Event()
        """Set when the first search for libraries has ended."""
        self._failure: BaseException | None = None
        try:
            if capabilities():  # Without any, nothing can be traced.
                self._confined.begin()
            self._kernel = (options.kernel or options.begin)()
            if options.progress is not None:
                options.progress.begin("looking for CUDA processes")
            self._kernel.evidence.ras.receive = confined_status(self._confined_search)
            demangler = Demangler()
            self._kernel_names = KernelNames(
                self._kernel.cuda.inherited_name,
                self._kernel.cuda.runs_program,
                demangler,
                asks=self._confined,
                searches=self._confined_search,
            )
            if options.stacks != "off":
                of = Stacks[options.stacks.upper()]
                self._stacks = WindowStacks(
                    self._kernel.stacks, self._kernel.samples, of, self._confined, demangler
                )
            self._libraries = Libraries(
                self._kernel.attach, Processes(within=options.within), asks=self._confined
            )
            if options.budget is not None:
                self._budget = BudgetKeeper(
                    options.budget, self._kernel.probe_time.call_ns, self._libraries.hot, self._kernel
                )
            # The first window begins when the first probe is attached, so that it covers all counted calls.
            self._clock = time.monotonic()
            self._begin_looking(options.search_seconds)
        except TracingError as reason:
            self.cannot_trace = reason
            self._close_tracing()
            self._clock = time.monotonic()
        # The usual case is Ctrl-C. Everything is closed now, because objects that the Linux kernel still
        # holds would delay the end of the program.
        except BaseException:
            self.close()
            raise

    def read(self) -> Window:
        """Returns what happened since the previous read. If the search for new libraries has
        failed, raises its error."""
        if self._failure is not None:
            raise self._failure
        self._tenants.refresh()
        self._names.begin()
        ended: set[int] = set()
        # Devices are read first: they are needed to find the device for each ordinal of a process.
        devices = with_owners(self._devices.read(), self._holder, process_name)
        self._places.begin(devices, same_numbers=not self._other_numbers)
        wall, clock = time.time(), time.monotonic()
        rows, loss = NO_ROWS, dict[str, int]()
        quotas: list[RawQuota] = []
        evictions: list[RawEvictions] = []
        open_calls: tuple[OpenCall, ...] = ()
        evidence = Evidence()
        kernels: tuple[KernelCount, ...] = ()
        calls = CapturedCalls()
        stacks: tuple[StackCount, ...] = ()
        counts: Counts | None = None
        if self._kernel is not None:
            # A process that has ended by now makes no calls after this read. So it can be forgotten after the
            # read.
            self._watch.watch(self._kernel.evidence.tgids())
            ended = self._watch.ended()
            counts, wall, clock = self._kernel.read(), time.time(), time.monotonic()
            self._tenants.made(self._evidence.made_cgroups())
            # Ended calls are read before open ones, so that no call is reported twice: if a thread ends in
            # between, its call is not open any more, and the next read reports it as ended.
            left = [
                call for call in self._kernel.ended_calls() if call.ended_ns - call.start_ns >= ENDED_CALL_NS
            ]
            still_open = self._kernel.open_calls()
            # If a process ends inside its first call, it never owns a histogram; it must be forgotten
            # nevertheless.
            self._watch.watch(call.tgid for call in (*left, *still_open) if call.tgid not in ended)
            loss = self._kernel.losses()
            quotas = self._kernel.over_quota()
            evictions = self._kernel.evictions()
            loss["evicted"] = sum(one.evicted for one in evictions)
            # An ended call gets the process name that is known already. This comes before names are read for
            # the rows: if the process has executed another program meanwhile, reading replaces that name.
            ended_calls = longest_ended(map(self._open_call, left))
            rows = self._rows(counts)
            self._kernel_names.begin()
            kernels = self._launches(self._kernel.cuda.launches())
            captured = self._kernel.kept_calls(int(clock * 1e9))
            calls = captured_calls(
                captured,
                counts.passed_over,
                row_of=self._row_of,
                kernel_of=self._kernel_names.known,
                unix_ns=time.time_ns() - time.monotonic_ns(),
            )
            open_calls = (*map(self._open_call, still_open), *ended_calls)
            if self._stacks is not None:
                stacks = self._stacks.take(captured, open_calls, self._row_of)
            evidence = self._evidence.read(self._kernel.evidence, self._callers, wall=wall, clock=clock)
            loss["no_overlap"] = self._evidence.without_overlaps
        if self._libraries is not None:
            loss["unprobed"] = self._first_calls.add(self._libraries.unprobed.take())
        evidence = replace(evidence, network_ports=self._network.read())
        evidence = replace(evidence, unknown=(*evidence.unknown, *self._network.unknown))
        seconds = max(clock - self._clock, 1e-6)
        extra = dict[int, float]()
        if self._kernel is not None and counts is not None:
            extra = extra_calls(counts, self._kernel.probe_time.pause_calls)
        if self._budget is not None and counts is not None:
            self._budget.take(counts, extra, seconds)
        probed: float = sum(
            calls
            for key, calls in zip(rows.keys, rows.calls.tolist(), strict=True)
            if key.layer != HOST_LAYER
        )
        probed += sum(extra.values())
        if self._kernel is not None:
            probed += self._kernel.cuda.choices()  # These calls have probes, but no rows.
        if self._budget is not None and counts is not None:
            probed -= self._budget.saved_calls(counts)
        coverage = self._coverage(probed, seconds)
        over = over_quota(quotas, loss, named=self._named, tenant_of=lambda tgid: self._tenants.find(tgid, 0))
        full = () if self._kernel is None else out_of_memory(self._kernel.memory, loss)
        more = (*full, *over, *forgotten(evictions), *self._first_calls.missing())
        coverage = replace(coverage, missing=(*coverage.missing, *more))
        told = self._kubelet.read(self._tenants_of(devices, coverage))
        given = with_uuids(told.allocations, devices)
        schedulable = {*uuids_of(told.allocatable, devices), *(uuid for one in given for uuid in one.uuids)}
        window = Window(
            start=wall - seconds,
            seconds=seconds,
            host=self.host,
            rows=rows,
            tenants=told.tenants,
            open_calls=open_calls,
            devices=devices,
            system=self._hosts.read(),
            loss=loss,
            coverage=replace(
                coverage,
                missing=(*coverage.missing, *told.missing, *self._not_told(devices)),
                scheduled=told.scheduled,
                schedulable=tuple(sorted(schedulable)),
            ),
            evidence=evidence,
            kernels=kernels,
            calls=calls,
            allocations=given,
            stacks=stacks,
        )
        self._clock = clock
        self._let_go(ended)
        return window

    @property
    def kernel_bytes(self) -> int:
        """Returns how much memory maps and programs use in the Linux kernel; 0 if nothing is traced."""
        return 0 if self._kernel is None else self._kernel.memory.bytes

    def close(self) -> None:
        """Removes every probe and releases everything, within a second. May be called twice."""
        self._stop.set()
        # A search that waits for an answer ends now.
        self._confined.close()
        self._confined_search.close()
        if self._looker is not None:
            self._looker.join(timeout=0.5)
        self._close_tracing()
        self._kernel_names.close()
        self._evidence.close()
        self._watch.close()
        self._names.close()
        self._places.close()
        self._devices.close()
        self._network.close()
        self._kubelet.close()
        self._tenants.close()

    def _close_tracing(self) -> None:
        self._confined.close()
        libraries, self._libraries = self._libraries, None
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            # The kernel side is closed first, because it removes the probes of all files together.
            kernel.close()
        if libraries is not None:
            libraries.close()

    def _begin_looking(self, patience_seconds: float) -> None:
        """Starts to look for libraries. Waits for the first search, but not for a file system that does not
        answer. Raises what ended the search."""
        self._looker = threading.Thread(target=self._look, name="discovery", daemon=True)
        self._looker.start()
        self._searched.wait(patience_seconds)
        if self._failure is not None:
            raise self._failure

    def _look(self) -> None:
        looks = 0
        try:
            if self._libraries is not None:
                self._libraries.start()
        except BaseException as error:
            self._failure = error
            return
        finally:
            self._searched.set()
        while not self._stop.wait(LOOK_SECONDS):
            looks += 1
            libraries, kernel = self._libraries, self._kernel
            if libraries is None or kernel is None:
                return
            try:
                if libraries.due:
                    libraries.update()
                if self._budget is not None:
                    self._budget.apply()
                kernel.evidence.look()
                if self._stacks is not None:
                    self._stacks.look(libraries.remapped())
                if libraries.library_rows():
                    self._evidence.begin()
                    if looks >= NAMES_AFTER_LOOKS:
                        self._kernel_names.prepare()
            except Exception as error:
                if not self._stop.is_set():
                    self._failure = error
                return

    def _rows(self, counts: Counts) -> Rows:
        self._forget_changed()
        known = self._keys
        return added_up([known.get(key) or self._row_of(key) for key in counts.keys], counts)

    def _forget_changed(self) -> None:
        """Begins a window: forgets the keys of processes whose name, tenant or device labels have changed."""
        callers = {caller: self._caller(*caller) for caller in self._callers_of_keys}
        labels = {device: self._places.label(*device) for device in self._labels_of_keys}
        changed = {tgid for (tgid, _), caller in callers.items() - self._callers_of_keys.items()}
        changed |= {tgid for (tgid, _), label in labels.items() - self._labels_of_keys.items()}
        self._forget_keys(changed)

    def _forget_keys(self, tgids: set[int]) -> None:
        if tgids:
            self._keys = {key: row for key, row in self._keys.items() if key.tgid not in tgids}
            for known in (self._callers_of_keys, self._labels_of_keys):
                for key in [key for key in known if key[0] in tgids]:
                    del known[key]

    def _launches(self, launches: Iterable[RawKernel]) -> tuple[KernelCount, ...]:
        found: dict[tuple[RowKey, str], KernelCount] = {}
        launched = list(launches)
        for raw, name in zip(launched, self._kernel_names.names(launched), strict=True):
            row = self._row_of(raw.key)
            count = KernelCount(
                *(row.tenant, row.pid, row.process, row.layer, row.operation, row.nested, name),
                *(raw.calls, raw.errors, raw.total_ns, raw.max_ns, raw.buckets, row.device),
            )
            before = found.get((row, name))
            found[row, name] = count if before is None else added_kernels(((before,), (count,)))[0]
        return tuple(found.values())

    def _row_of(self, key: SlotKey) -> RowKey:
        row = self._keys.get(key)
        if row is None:
            name, tenant = self._callers_of_keys.setdefault(
                (key.tgid, key.cgroup_id), self._caller(key.tgid, key.cgroup_id)
            )
            device = UNKNOWN
            if key.operation != HOST_WORK:
                device = self._places.label(key.tgid, key.device)
                self._labels_of_keys[key.tgid, key.device] = device
            operation = operations.operation(key.operation)
            what = operation.layer, operation.name, key.nested
            row = self._keys[key] = RowKey(self.host, tenant, key.tgid, name, *what, device)
        return row

    def _caller(self, tgid: int, cgroup_id: int) -> tuple[str, str]:
        """Returns the name of a process and the id of its tenant."""
        return self._names.name(tgid), self._tenant(tgid, cgroup_id).id

    def _program_of(self, tgid: int) -> CudaProgram:
        return NO_PROGRAM if self._kernel is None else self._kernel.cuda.program_of(tgid)

    def _uninitialized(self, tgid: int) -> bool:
        return self._libraries is not None and self._libraries.watched_from_begin(tgid)

    def _tenant(self, tgid: int, cgroup_id: int) -> Tenant:
        self._callers.add((tgid, cgroup_id))
        return self._tenants.find(tgid, cgroup_id)

    def _tenants_of(self, devices: Devices, coverage: Coverage) -> dict[str, Tenant]:
        """Returns, by id, every tenant that made calls, holds a device, is not fully traced or is in the
        evidence."""
        others = {(pid, 0) for pid in holders(devices)}
        others |= {(gap.pid, 0) for gap in coverage.missing if gap.tenant}
        found = (self._tenants.find(*caller) for caller in sorted(self._callers | others))
        return {**self._evidence.tenants, **{tenant.id: tenant for tenant in found}}

    def _tenant_of(self, process: UnprobedProcess) -> Tenant:
        """Returns the tenant of a process, which may have ended."""
        tenant = self._tenants.find(process.pid, process.cgroup_id)
        if not is_alive(process.pid):
            self._tenants.forget(process.pid)
        return tenant

    def _holder(self, pid: int) -> str:
        """Returns the tenant id of process ``pid``, which the driver lists; '' if the tenant cannot be
        known."""
        return "" if self._other_numbers else self._tenants.holder(pid)

    def _not_told(self, devices: Devices) -> tuple[Missing, ...]:
        """Returns notes on what could not be found or stored: names of tenants and CUDA kernels, owners of
        processes on GPUs, and the cache of compiled programs."""
        wrong = self._other_numbers and any(listed(devices))
        not_kept = self._kernel.not_kept if self._kernel is not None else ""
        return (
            *self._tenants.missing(),
            *self._kernel_names.missing(),
            *(self._stacks.missing() if self._stacks is not None else ()),
            *((OTHER_NUMBERS,) if wrong else ()),
            *((Missing("compiled programs for the next start", not_kept),) if not_kept else ()),
        )

    def _open_call(self, call: RawOpenCall) -> OpenCall:
        known = self._names.known(call.tgid) if call.ended_ns else ""
        operation = operations.operation(call.operation)
        return OpenCall(
            tenant=self._tenant(call.tgid, call.cgroup_id).id,
            pid=call.tgid,
            tid=call.tid,
            process=known or self._names.name(call.tgid),
            layer=operation.layer,
            operation=operation.name,
            age_ns=max((call.ended_ns or time.monotonic_ns()) - call.start_ns, 0),
            nested=call.nested,
            ended=call.ended_ns > 0,
            device=self._places.label(call.tgid, call.device),
        )

    def _let_go(self, ended: set[int]) -> None:
        if self._kernel is None:
            return
        gone = set[int]()
        for tgid in ended:
            self._tenants.forget(tgid)
            self._kernel_names.forget(tgid)
            # If a new process has already reused the PID, that process keeps the slots until it ends.
            if not is_alive(tgid):
                gone.add(tgid)
                self._names.forget(tgid)
                self._evidence.forget(tgid)
                self._places.forget(tgid)
                if self._stacks is not None:
                    self._stacks.forget(tgid)
        if gone:
            self._kernel.release(*gone)
        self._forget_keys(ended)
        self._callers = {caller for caller in self._callers if caller[0] not in gone}

    def _named(self, pid: int) -> str:
        return f"{with_pid(self._names.name(pid), pid)} of {self._tenants.find(pid, 0).name}"

    def _coverage(self, calls: float, seconds: float) -> Coverage:
        kernel, libraries = self._kernel, self._libraries
        if kernel is None or libraries is None:
            reason = self.cannot_trace
            return Coverage(
                tracing=f"{reason.reason}; {reason.remedy}" if reason and reason.remedy else str(reason)
            )
        rows = libraries.library_rows()
        over: tuple[Missing, ...] = ()
        if self._budget is not None:
            rows, over = self._budget.told(rows), self._budget.complaints(self._named)
        functions = sum(library.functions for library in rows)
        return Coverage(
            attached=2 * functions,
            functions=functions,
            libraries=rows,
            missing=(
                *(
                    replace(gap, tenant=self._tenants.find(gap.pid, 0).id) if gap.pid else gap
                    for gap in libraries.missing()
                ),
                *_not_split(kernel),
                *over,
            ),
            processes=len(libraries.traced_pids()),
            probe_ns=kernel.probe_time.call_ns,
            cost_percent=calls * kernel.probe_time.call_ns / seconds / 1e9 * 100,
            way=kernel.way,
        )


def _not_split(kernel: KernelSide) -> tuple[Missing, ...]:
    """Returns a note that calls are not split; nothing if they are split."""
    if kernel.no_splits is None:
        return ()
    return (Missing("where the time of calls goes", kernel.no_splits.reason, kernel.no_splits.remedy),)


def added_up(keys: list[RowKey], counts: Counts) -> Rows:
    """Returns ``counts`` as rows. Counts with the same key are added up: they belong to a process that moved
    to another cgroup of the same tenant, or whose devices have the same label."""
    place = dict.fromkeys(keys, 0)
    if len(place) == len(keys):
        return Rows(
            tuple(keys),
            counts.calls,
            counts.errors,
            counts.bytes,
            counts.total_ns,
            counts.max_ns,
            counts.histograms,
            counts.split_ns,
        )

    place = {key: number for number, key in enumerate(place)}
    group = np.array([place[key] for key in keys], dtype=np.int64)

    def add(values: U64) -> U64:
        sums = np.zeros((len(place), *values.shape[1:]), np.uint64)
        np.add.at(sums, group, values)
        return sums

    longest = np.zeros(len(place), np.uint64)
    np.maximum.at(longest, group, counts.max_ns)
    return Rows(
        tuple(place),
        add(counts.calls),
        add(counts.errors),
        add(counts.bytes),
        add(counts.total_ns),
        longest,
        counts.histograms.grouped(group, len(place)),
        None if counts.split_ns is None else add(counts.split_ns),
    )


def raise_descriptor_limit() -> None:
    """Raises the limit of open files as far as this user is allowed to, because each probed file and each
    traced process needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _no_rows() -> Rows:
    nothing = np.zeros(0, np.uint64)
    return Rows((), nothing, nothing, nothing, nothing, nothing, Histograms.empty())


NO_ROWS = _no_rows()
"""Rows of a window in which nothing is traced."""
