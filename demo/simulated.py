"""Generates windows of a host that does not exist, for hosts on which nothing can be traced. They are marked
as simulated.

The same seed and the same clock give the same windows. Durations are lognormal with rare spikes, loads rise
and fall, and now and then a collective hangs for some seconds, so that every part of the screen has something
to show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from stalltop.demo import simulated_host as host
from stalltop.demo.cgroups import pod_uid
from stalltop.demo.habits import HABITS, OTHERS, Act, Habit, Person
from stalltop.demo.simulated_activity import simulated_activity
from stalltop.demo.simulated_calls import kept_calls
from stalltop.demo.simulated_devices import allocations, simulated_devices
from stalltop.demo.simulated_kernels import kernels_of
from stalltop.model.devices.device import System
from stalltop.model.devices.labels import label_of
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import LOSSES, Coverage, Library, Missing, OpenCall, Rows, Window

HOST = "simulated-host"
PROBE_NS = 700.0
"""Cost of one traced call, ns: entry and return probe on a current server CPU."""
FFTBENCH_PID = 5_612
"""A process of the last tenant that is only partly traced."""
_POINTS = 96
"""Number of different durations that one row shows in one window."""
_SPIKE_SHARE = 0.002
_SPIKE_FACTOR = 9.0
_STRESS_PERIOD = 45.0
_STRESS_SECONDS = 12.0
_HANG_PERIOD = 40.0
_HANG_AFTER = 20.0
_HANG_SECONDS = 9.0


@dataclass(frozen=True, slots=True)
class _Row:
    key: RowKey
    act: Act
    habit: Habit
    phase: float
    parent: int
    """Index of the row whose calls contain this one's, or -1."""
    share: float
    """Share of the parent's duration that this nested call takes."""


class SimulatedSource:
    """A ``model.source.Source`` of simulated windows.

    ``tenants`` tenants (the first three are a trainer, an inference server and a notebook; by default as many
    as the plot has) with ``operations`` operations in each of their processes; ``plot`` says what happens to
    them; ``reason`` says why nothing real is shown; ``clock`` returns Unix seconds.
    """

    def __init__(
        self,
        seed: int = 1,
        tenants: int | None = None,
        operations: int = 40,
        *,
        plot: host.Plot = host.EVERYTHING,
        reason: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        tenants = plot.tenants if tenants is None else tenants
        if tenants < 1 or operations < 1:
            raise ValueError("at least one tenant and one operation are needed")
        self._random = np.random.default_rng(seed)
        self._kept_random = Random(seed)
        self._active_random = np.random.default_rng(seed)
        self._clock = clock
        self._reason = reason
        self._plot = plot
        self._began = self._last = clock()
        self._tenants: dict[str, Tenant] = {}
        self._rows: list[_Row] = []
        for number in range(tenants):
            self._add(number, operations)
        self._keys = tuple(row.key for row in self._rows)
        self._holders = {(key.pid, key.tenant) for key in self._keys}
        self._parent = np.array([row.parent for row in self._rows])
        self._source_row = np.where(self._parent >= 0, self._parent, np.arange(len(self._rows)))
        acts = [row.act for row in self._rows]
        self._rate = np.array([act.per_second for act in acts])
        self._median = np.array([act.median_ns for act in acts])
        self._sigma = np.array([act.sigma for act in acts])
        self._bytes = np.array([act.bytes for act in acts], np.uint64)
        self._errors = np.array([act.errors for act in acts])
        self._share = np.array([row.share for row in self._rows])
        self._waits = np.array(["Synchronize" in act.operation for act in acts])
        self._points = _normal_quantiles(_POINTS)
        self._cast = self._casting()
        # Rows for the time between the calls of each process, and for the work of the followed process.
        self._gaps = tuple(dict.fromkeys(host.gap_key(key) for key in self._keys))
        self._gap_of = np.array([self._gaps.index(host.gap_key(key)) for key in self._keys])
        self._all_keys = (*self._keys, *self._gaps, host.work_key(HOST, self._cast.worker))

    def read(self) -> Window:
        """Returns the window since the previous read, at least 1 ms long."""
        now = self._clock()
        start, self._last = self._last, now
        seconds = max(now - start, 1e-3)
        age = now - self._began
        now_on = host.moment(age, self._cast)
        rows = self._between(self._counted(age, seconds, now_on), seconds, now_on)
        calls = int(rows.calls[: len(self._keys)].sum())
        assert rows.split_ns is not None
        active = simulated_activity(rows, seconds, self._active_random)
        evidence = host.evidence(rows.keys, rows.calls, rows.split_ns, seconds, self._cast, now_on)
        coverage = replace(
            self._coverage(), cost_percent=100.0 * calls * PROBE_NS / (seconds * 1e9), tracing=self._reason
        )
        return Window(
            start=start,
            seconds=seconds,
            host=HOST,
            rows=rows,
            tenants=dict(self._tenants),
            open_calls=self._open_calls(age),
            devices=simulated_devices(age, self._plot, self._holders, self._random),
            allocations=allocations(self._plot, tuple(self._tenants.values())),
            system=self._system(age, now_on),
            evidence=replace(evidence, activity=active.activity, overlaps=active.overlaps),
            loss=dict.fromkeys(LOSSES, 0),
            coverage=coverage,
            simulated=True,
            kernels=kernels_of(rows),
            calls=kept_calls(rows, start, seconds, self._kept_random),
        )

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def _label(self, pid: int) -> str:
        """Returns the label of the device that a process uses: see ``simulated_devices``."""
        return label_of(pid % self._plot.gpus)

    def _add(self, number: int, operations: int) -> None:
        person = self._plot.people[number % len(self._plot.people)]
        habit = HABITS[person.habit]
        tenant = self._tenant(number, person)
        self._tenants[tenant.id] = tenant
        acts = _chosen(habit, operations)
        phase = float(self._random.uniform(0, 1)) if number > 2 else number / 3
        scale = 1.0 if number < 3 else float(self._random.uniform(0.2, 0.7))
        for process in range(habit.processes):
            pid = 4200 + 37 * number + process
            parents: dict[str, int] = {}
            for act, parent in acts:
                index = parents.get(parent, -1)
                what = act.layer, act.operation, bool(parent)
                key = RowKey(HOST, tenant.id, pid, habit.process, *what, self._label(pid))
                parents[act.operation] = len(self._rows)
                own = replace(act, per_second=act.per_second * scale / habit.processes)
                share = float(self._random.uniform(0.72, 0.9))
                self._rows.append(_Row(key, own, habit, phase, index, share))

    def _tenant(self, number: int, person: Person) -> Tenant:
        container = self._random.bytes(32).hex() if "{id}" in person.path else ""
        path = person.path.format(id=container)
        again = number // len(self._plot.people)
        name = f"{person.name}-{again + 1}" if again else person.name
        identity = f"{person.runtime}:{container or name}"
        return Tenant(
            id=identity,
            name=name,
            kind=person.kind,
            runtime=person.runtime,
            container_id=container,
            pod=person.pod,
            namespace=person.namespace,
            cgroup_id=7_700 + 11 * number,
            cgroup_path=path if not again else f"{path}-{again + 1}",
            container=person.container,
            pod_uid=pod_uid(container) if person.container else "",
        )

    def _load(self, age: float) -> NDArray[np.float64]:
        """Returns how busy each row's tenant is, 0 to 1, shape (rows,)."""
        loads = []
        for row in self._rows:
            wave = 0.5 + 0.5 * math.cos(2 * math.pi * (age / row.habit.period_seconds + row.phase))
            loads.append(row.habit.quiet + (1 - row.habit.quiet) * wave)
        return np.array(loads)

    def _casting(self) -> host.Cast:
        """Returns which tenants have the roles of this host: the trainer comes first, then the server, the
        notebook and others."""
        people = list(self._tenants)

        def someone(number: int, process: str, pid: int, *, plays: bool) -> host.Someone | None:
            return host.Someone(people[number], pid, process) if plays and number < len(people) else None

        worker = host.Someone(people[0], 4_190, "pt_data_worker")
        return host.Cast(
            trainer=people[0],
            worker=worker,
            server=people[1] if len(people) > 1 else None,
            hog=someone(2, "preprocess", 5_210, plays=self._plot.cpu),
            copier=someone(5, "rsync", 5_344, plays=self._plot.disk),
            late_rank=self._plot.late_rank,
        )

    def _between(self, calls: Rows, seconds: float, now: host.Moment) -> Rows:
        """Returns ``calls`` with their splits, and with the rows of the time between them."""
        outermost = np.array([key.outermost for key in self._keys])
        in_calls = np.bincount(self._gap_of, np.where(outermost, calls.total_ns, 0), len(self._gaps))
        count = np.bincount(self._gap_of, np.where(outermost, calls.calls, 0), len(self._gaps))
        wall_ns = seconds * 1e9
        # A thread is not always between two calls: some of the time lies before its first call and after its
        # last.
        gap_ns = np.maximum(wall_ns - in_calls % wall_ns, 0.02 * wall_ns)
        batches = max(int(22 * seconds), 1)
        others_ns = np.append(gap_ns, 0.98 * wall_ns)
        others = np.append(np.maximum(count.astype(np.int64), 1), batches)
        # Most gaps are short; the few long ones are those between two steps.
        spread = np.exp(1.1 * self._points)
        nanoseconds = (others_ns / others)[:, None] * spread / spread.mean()
        nanoseconds = np.clip(nanoseconds, 1, HIGHEST_NS).astype(np.int64)
        counts = self._random.multinomial(others, np.full(_POINTS, 1 / _POINTS))
        total = np.append(calls.total_ns, (counts * nanoseconds).sum(axis=1).astype(np.uint64))
        shares = [host.call_shares(key, self._cast, now) for key in self._keys]
        shares += [host.gap_shares(key.tenant, self._cast, now) for key in self._gaps]
        shares.append(host.work_shares(now))
        nothing = np.zeros(len(others), np.uint64)
        largest = np.where(counts > 0, nanoseconds, 0).max(axis=1)
        return Rows(
            keys=self._all_keys,
            calls=np.append(calls.calls, others.astype(np.uint64)),
            errors=np.append(calls.errors, nothing),
            bytes=np.append(calls.bytes, nothing),
            total_ns=total,
            max_ns=np.append(calls.max_ns, largest.astype(np.uint64)),
            histograms=Histograms.concatenate((calls.histograms, _histograms(nanoseconds, counts))),
            split_ns=host.divided(total, np.array(shares)),
        )

    def _counted(self, age: float, seconds: float, now: host.Moment) -> Rows:
        load = self._load(age) * [host.rate(row.key.tenant, self._cast, now) for row in self._rows]
        own = self._random.poisson(self._rate * load * seconds).astype(np.int64)
        calls = own[self._source_row]
        stressed = age % _STRESS_PERIOD > _STRESS_PERIOD - _STRESS_SECONDS
        slower = np.where(self._waits & stressed, 2.6, 1.0) * (0.9 + 0.2 * load)
        n = len(self._rows)
        spread = self._points + self._random.normal(0, 0.02, (n, _POINTS))
        spikes = 1 + (_SPIKE_FACTOR - 1) * (np.arange(_POINTS) == _POINTS - 1)
        duration = self._median[:, None] * slower[:, None] * np.exp(self._sigma[:, None] * spread) * spikes
        share = np.full(_POINTS, (1 - _SPIKE_SHARE) / (_POINTS - 1))
        share[-1] = _SPIKE_SHARE
        # A nested call happens as often as the call around it, and takes a share of its time.
        counts = self._random.multinomial(calls, share)[self._source_row]
        duration = duration[self._source_row] * np.where(self._parent >= 0, self._share, 1.0)[:, None]
        nanoseconds = np.clip(duration, 1, HIGHEST_NS).astype(np.int64)
        largest = np.where(counts > 0, nanoseconds, 0).max(axis=1)
        return Rows(
            keys=self._keys,
            calls=calls.astype(np.uint64),
            errors=self._random.binomial(calls, self._errors).astype(np.uint64),
            bytes=calls.astype(np.uint64) * self._bytes,
            total_ns=(counts * nanoseconds).sum(axis=1).astype(np.uint64),
            max_ns=largest.astype(np.uint64),
            histograms=_histograms(nanoseconds, counts),
        )

    def _open_calls(self, age: float) -> tuple[OpenCall, ...]:
        """Returns open calls: a synchronize of the trainer that is nearly always open; a collective that
        sometimes hangs."""
        found = []
        row = self._rows[0]
        key = row.key

        def opened(layer: str, operation: str, age_seconds: float, nested: bool) -> None:
            age_ns = int(age_seconds * 1e9)
            found.append(
                OpenCall(
                    *(key.tenant, key.pid, key.pid, key.process, layer, operation, age_ns, nested),
                    device=key.device,
                )
            )

        since = age % _HANG_PERIOD - _HANG_AFTER
        if 0 < since < _HANG_SECONDS:
            opened("nccl", "ncclGroupEnd", since, nested=False)
        else:
            waited = float(self._random.uniform(0.001, 0.03))
            opened("runtime", "cudaStreamSynchronize", waited, nested=False)
            opened("driver", "cuStreamSynchronize", waited * 0.98, nested=True)
        return tuple(found)

    def _system(self, age: float, now: host.Moment) -> System:
        cpus = host.CPUS
        wave = 99.0 if now.cpu_taken else 30 + 15 * math.sin(2 * math.pi * age / 61)
        each = np.clip(self._random.normal(wave, 1 if now.cpu_taken else 12, cpus), 0, 100)
        busy = float(each.mean())
        return System(
            cpus=cpus,
            cpu_percent=busy,
            cpu_each_percent=tuple(float(value) for value in each),
            memory_total_bytes=512 << 30,
            memory_used_bytes=int((170 + 0.4 * wave) * (1 << 30)),
            swap_total_bytes=16 << 30,
            swap_used_bytes=1 << 28,
            load=(busy / 100 * cpus, 9.6, 8.8),
            uptime_seconds=86_400 * 12 + age,
        )

    def _coverage(self) -> Coverage:
        processes = len({row.key.pid for row in self._rows})
        last = self._rows[-1].key
        libraries = (
            Library("/usr/lib/x86_64-linux-gnu/libcuda.so.555.42", "driver", 118, processes),
            Library("/opt/conda/lib/libcudart.so.12.4.127", "runtime", 94, processes),
            Library("/opt/conda/lib/libnccl.so.2.21.5", "nccl", 24, max(processes // 3, 1)),
        )
        missing = Missing(
            "/usr/local/bin/fftbench",
            "CUDA runtime linked statically, without symbols: its driver calls are counted",
            "build it with nvcc -cudart shared to see runtime calls too",
            pid=FFTBENCH_PID,
            tenant=last.tenant,
        )
        functions = sum(library.functions for library in libraries)
        return Coverage(
            attached=2 * functions,
            functions=functions,
            libraries=libraries,
            missing=(missing,),
            processes=processes,
            probe_ns=PROBE_NS,
            way="simulated",
        )


def _chosen(habit: Habit, operations: int) -> list[tuple[Act, str]]:
    """Returns the habit's acts, each followed by the driver call inside it, then others: ``operations`` in
    all, each with the name of the enclosing operation. A nested call never comes without its enclosing
    call."""
    chosen: list[tuple[Act, str]] = []
    taken = set()
    for act in habit.acts + OTHERS:
        if act.operation in taken:
            continue
        chosen.append((act, ""))
        taken.add(act.operation)
        if act.nested and act.nested not in taken:
            chosen.append((replace(act, layer="driver", operation=act.nested, nested=""), act.operation))
            taken.add(act.nested)
    return chosen[:operations]


def _normal_quantiles(points: int) -> NDArray[np.float64]:
    """Returns standard normal values at evenly spaced probabilities, by bisection of the error function."""
    result = np.zeros(points)
    for index in range(points):
        wanted = (index + 0.5) / points
        low, high = -6.0, 6.0
        for _ in range(40):
            middle = (low + high) / 2
            if 0.5 * (1 + math.erf(middle / math.sqrt(2))) < wanted:
                low = middle
            else:
                high = middle
        result[index] = (low + high) / 2
    return result


def _histograms(nanoseconds: NDArray[np.int64], counts: NDArray[np.int64]) -> Histograms:
    """Returns sparse histograms of ``counts`` calls of ``nanoseconds`` each, both of shape (n, points)."""
    bucket = np.maximum(np.frexp(nanoseconds.astype(np.float64))[1] - 8, 0)
    index = (bucket << 7) + (nanoseconds >> bucket)
    n = len(nanoseconds)
    place = (np.arange(n)[:, None] * COUNTERS + index)[counts > 0]
    places, inverse = np.unique(place, return_inverse=True)
    summed = np.bincount(inverse, weights=counts[counts > 0], minlength=len(places)).astype(np.uint64)
    start = np.searchsorted(places, np.arange(n + 1) * COUNTERS).astype(np.int64)
    return Histograms(start, (places % COUNTERS).astype(np.uint16), summed)
