"""Generates windows of a host that does not exist, for hosts on which nothing can be traced. The windows are
marked as simulated.

The same seed and the same clock give the same windows. Durations are lognormal with rare spikes. Loads rise
and fall. Now and then a collective hangs for some seconds, so that every part of the screen has something to
show.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from stalltop.demo.cgroups import pod_uid
from stalltop.demo.simulated import host
from stalltop.demo.simulated.calls import kept_calls, kernels_of
from stalltop.demo.simulated.devices import activity, allocations, simulated_devices
from stalltop.demo.simulated.habits import HABITS, OTHERS, PLACES, Act, Habit, Person
from stalltop.demo.simulated.lines import stacks_of
from stalltop.demo.simulated.network import network_ports
from stalltop.model.devices.device import System
from stalltop.model.devices.labels import gpu_of
from stalltop.model.histograms.hdr import HIGHEST_NS, indices_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import LOSSES, Coverage, Library, Missing, OpenCall, Rows, Window

HOST = "simulated-host"
PROBE_NS = 700.0
"""Assumed time that tracing adds to one call, ns: an entry probe and a return probe, on a current server
CPU."""
FFTBENCH_PID = 5_612
"""PID of a process that is only partly traced, according to the windows."""
_POINTS = 96
"""Number of different durations that a row's calls have in one window."""
_QUANTILES = np.array([NormalDist().inv_cdf((point + 0.5) / _POINTS) for point in range(_POINTS)])
"""Values of the standard normal distribution at evenly spaced probabilities."""
_SPIKE_SHARE = 0.002
_SPIKE_FACTOR = 9.0
_STRESS_PERIOD = 45.0
_STRESS_SECONDS = 12.0
_HANG_PERIOD = 40.0
_HANG_AFTER = 20.0
_HANG_SECONDS = 9.0
_SLOWER_BY_HEAT = 1.7
_SLOWER_BY_RANK = 1.6
"""Factors by which waits get longer: waits for a device whose clocks are throttled, and waits of the other
ranks for a rank that arrives late."""


@dataclass(frozen=True, slots=True)
class _Row:
    key: RowKey
    act: Act
    habit: Habit
    phase: float
    parent: int
    """Index of the row whose calls contain the calls of this row; the index of this row if its calls are not
    nested."""
    share: float
    """Duration of a nested call, as a share of the call that contains it; 1 if the calls are not nested."""


class SimulatedSource:
    """A ``model.source.Source`` of simulated windows.

    ``tenants`` is the number of tenants, ``operations`` the number of operations of each of their processes
    (defaults: those of ``plot``). ``plot`` defines the tenants and what slows them. ``reason`` says why
    windows are simulated. ``clock`` returns Unix time in seconds.
    """

    def __init__(
        self,
        seed: int = 1,
        tenants: int | None = None,
        operations: int | None = None,
        *,
        plot: host.Plot = host.EVERYTHING,
        reason: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        tenants = plot.tenants if tenants is None else tenants
        operations = plot.operations if operations is None else operations
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
        self._pace: tuple[float, float] | None = None
        """Phase and scale of all ranks of the job; None until its first rank has been added."""
        rows: list[_Row] = []
        for number in range(tenants):
            self._add(number, operations, rows)
        calls = [row.key for row in rows]
        self._cast = self._casting()
        self._of_tenant = [key.tenant for key in calls]
        self._holders = {(key.pid, key.tenant, key.device) for key in calls}
        self._parent = np.array([row.parent for row in rows])
        self._share = np.array([row.share for row in rows])
        self._rate, self._median, self._sigma, self._errors = np.array(
            [(row.act.per_second, row.act.median_ns, row.act.sigma, row.act.errors) for row in rows]
        ).T
        self._bytes = np.array([row.act.bytes for row in rows], np.uint64)
        self._waits = np.array(["Synchronize" in row.act.operation for row in rows])
        self._on_first = np.array([gpu_of(key.device) == 0 for key in calls])
        late = list(dict.fromkeys(key.pid for key in calls if key.tenant in self._cast.ranks))[1:2]
        self._punctual = np.array([key.tenant in self._cast.ranks and key.pid not in late for key in calls])
        self._period, self._quiet, self._phase = np.array(
            [(row.habit.period_seconds, row.habit.quiet, row.phase) for row in rows]
        ).T
        # Rows for the time between calls, one for each process; and one for the host work of the data worker.
        gaps = list(dict.fromkeys(host.gap_key(key) for key in calls))
        self._gap_of = np.array([gaps.index(host.gap_key(key)) for key in calls])
        self._outermost = np.array([key.outermost for key in calls])
        worker = self._cast.worker
        self._keys = (*calls, *gaps, *(() if worker is None else (host.work_key(HOST, worker),)))

    def read(self) -> Window:
        """Returns the window since the previous read. It is at least 1 ms long."""
        now = self._clock()
        start, self._last = self._last, now
        seconds = max(now - start, 1e-3)
        age = now - self._began
        fault = self._plot.timetable.at(age)
        cast = self._cast.at(fault.family if fault is not None else None)
        rows = self._rows(age, seconds, cast)
        assert rows.split_ns is not None
        active = activity(rows, seconds, self._active_random)
        evidence = host.evidence(rows.keys, rows.calls, rows.split_ns, seconds, cast)
        return Window(
            start=start,
            seconds=seconds,
            host=HOST,
            rows=rows,
            tenants=dict(self._tenants),
            open_calls=self._open_calls(age),
            devices=simulated_devices(
                *(age, self._plot, self._holders, self._random), hot=cast.hot, starved=cast.starved
            ),
            allocations=allocations(self._plot, tuple(self._tenants.values())),
            system=self._system(age, busy=cast.hog is not None),
            evidence=replace(
                evidence,
                activity=active.activity,
                overlaps=active.overlaps,
                network_ports=network_ports(age, seconds),
            ),
            loss=dict.fromkeys(LOSSES, 0),
            coverage=self._coverage(int(rows.calls[: len(self._parent)].sum()) / seconds),
            simulated=True,
            kernels=kernels_of(rows),
            calls=kept_calls(rows, start, seconds, self._kept_random),
            stacks=stacks_of(rows),
        )

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def _add(self, number: int, operations: int, rows: list[_Row]) -> None:
        """Adds a tenant, whose number is ``number``. Appends the rows of its processes to ``rows``."""
        person = self._plot.people[number % len(self._plot.people)]
        habit = HABITS[person.habit]
        tenant = self._tenant(number, person)
        self._tenants[tenant.id] = tenant
        phase = float(self._random.uniform(0, 1)) if number > 2 else number / 3
        scale = 1.0 if number < 3 else float(self._random.uniform(0.2, 0.7))
        if number in self._plot.ranks:  # The ranks of a job take their steps together.
            phase, scale = self._pace = self._pace or (phase, scale)
        for process in range(habit.processes):
            pid = 4200 + 37 * number + process
            places: dict[str, int] = {}
            for act, parent in _chosen(habit, operations):
                what = act.layer, act.operation, bool(parent), self._plot.label(number, pid)
                key = RowKey(HOST, tenant.id, pid, habit.process, *what)
                own = replace(act, per_second=act.per_second * scale / habit.processes)
                share = float(self._random.uniform(0.72, 0.9))
                places[act.operation] = len(rows)
                at = places[parent or act.operation]
                rows.append(_Row(key, own, habit, phase, at, share if parent else 1.0))

    def _tenant(self, number: int, person: Person) -> Tenant:
        runtime, _, unit = person.where.partition(":")
        kind, path = PLACES[runtime]
        container = "" if unit else self._random.bytes(32).hex()
        again = number // len(self._plot.people)
        suffix = f"-{again + 1}" if again else ""
        name = f"{person.name}{suffix}"
        return Tenant(
            id=f"{runtime}:{container or name}",
            name=name,
            kind="container" if person.container else kind,
            runtime=runtime,
            container_id=container,
            pod=person.pod,
            namespace=person.namespace,
            cgroup_id=7_700 + 11 * number,
            cgroup_path=path.format(unit or container) + suffix,
            container=person.container,
            pod_uid=pod_uid(container) if person.container else "",
        )

    def _casting(self) -> host.Cast:
        """Returns which tenants play which roles."""
        people, plot = list(self._tenants), self._plot

        def tenant(number: int | None) -> str:
            return people[number] if number is not None and number < len(people) else ""

        def someone(role: tuple[int, str], pid: int) -> host.Someone | None:
            number, process = role
            return host.Someone(people[number], pid, process) if number < len(people) else None

        trainer = tenant(plot.trainer)
        return host.Cast(
            trainer=trainer,
            worker=host.Someone(trainer, 4_190, "pt_data_worker") if trainer and plot.worker else None,
            server=tenant(plot.server),
            hog=someone(plot.hog, 5_210),
            copier=someone(plot.copier, 5_344),
            holder=someone(plot.holder, 5_402),
            ranks=tuple(filter(None, map(tenant, plot.ranks))),
        )

    def _rows(self, age: float, seconds: float, cast: host.Cast) -> Rows:
        """Returns the rows of the calls, of the time between calls, and of the data worker's host work."""
        counts, nanoseconds = self._called(age, seconds, cast)
        calls = counts.sum(axis=1)
        errors = self._random.binomial(calls, self._errors)
        more_counts, more_nanoseconds = self._between(calls, (counts * nanoseconds).sum(axis=1), seconds)
        counts = np.concatenate((counts, more_counts))
        nanoseconds = np.concatenate((nanoseconds, more_nanoseconds))
        total_ns = (counts * nanoseconds).sum(axis=1).astype(np.uint64)
        nothing = np.zeros(len(more_counts), np.uint64)
        return Rows(
            keys=self._keys,
            calls=counts.sum(axis=1).astype(np.uint64),
            errors=np.append(errors.astype(np.uint64), nothing),
            bytes=np.append(calls.astype(np.uint64) * self._bytes, nothing),
            total_ns=total_ns,
            max_ns=np.where(counts > 0, nanoseconds, 0).max(axis=1).astype(np.uint64),
            histograms=_histograms(nanoseconds, counts),
            split_ns=host.divided(total_ns, np.array([host.shares(key, cast) for key in self._keys])),
        )

    def _called(
        self, age: float, seconds: float, cast: host.Cast
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns two arrays of shape (rows of calls, ``_POINTS``). For each row, the first has the number of
        calls of each duration, and the second has these durations in ns."""
        wave = 0.5 + 0.5 * np.cos(2 * np.pi * (age / self._period + self._phase))
        load = self._quiet + (1 - self._quiet) * wave
        load = load * [host.rate(tenant, cast) for tenant in self._of_tenant]
        calls = self._random.poisson(self._rate * load * seconds)[self._parent]
        stressed = self._plot.restless and age % _STRESS_PERIOD > _STRESS_PERIOD - _STRESS_SECONDS
        slower = np.where(self._waits & stressed, 2.6, 1.0) * (0.9 + 0.2 * load)
        if cast.hot:
            slower = np.where(self._waits & self._on_first, _SLOWER_BY_HEAT, 1.0) * slower
        if cast.late_rank:
            slower = np.where(self._waits & self._punctual, _SLOWER_BY_RANK, 1.0) * slower
        spread = _QUANTILES + self._random.normal(0, 0.02, (len(calls), _POINTS))
        spikes = 1 + (_SPIKE_FACTOR - 1) * (np.arange(_POINTS) == _POINTS - 1)
        duration = (self._median * slower)[:, None] * np.exp(self._sigma[:, None] * spread) * spikes
        share = np.full(_POINTS, (1 - _SPIKE_SHARE) / (_POINTS - 1))
        share[-1] = _SPIKE_SHARE
        # A nested call happens as often as the call that contains it, and takes a share of the time of that
        # call.
        counts = self._random.multinomial(calls, share)[self._parent]
        duration = duration[self._parent] * self._share[:, None]
        return counts, np.clip(duration, 1, HIGHEST_NS).astype(np.int64)

    def _between(
        self, calls: NDArray[np.int64], total_ns: NDArray[np.int64], seconds: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns counts and durations in ns, in arrays like those of `_called`: for the rows of the time
        between calls, and for the row of the data worker's host work. ``calls`` and ``total_ns`` are those of
        the rows of calls."""
        in_calls, count = (
            np.bincount(self._gap_of, np.where(self._outermost, figure, 0)) for figure in (total_ns, calls)
        )
        wall_ns = seconds * 1e9
        # Calls of several threads may together take longer than the window. Then whole windows are subtracted
        # first. The gaps get what the rest of the calls leaves of a window, at least 2 % of it.
        gap_ns = np.maximum(wall_ns - in_calls % wall_ns, 0.02 * wall_ns)
        times = np.maximum(count.astype(np.int64), 1)
        if self._cast.worker is not None:
            times = np.append(times, max(int(22 * seconds), 1))
            gap_ns = np.append(gap_ns, 0.98 * wall_ns)
        # Most gaps are short; a few are long, as between two training steps.
        spread = np.exp(1.1 * _QUANTILES)
        nanoseconds = (gap_ns / times)[:, None] * spread / spread.mean()
        counts = self._random.multinomial(times, np.full(_POINTS, 1 / _POINTS))
        return counts, np.clip(nanoseconds, 1, HIGHEST_NS).astype(np.int64)

    def _open_calls(self, age: float) -> tuple[OpenCall, ...]:
        """Returns the calls that are open ``age`` seconds after the start, all by the first process: usually
        a synchronize (runtime and driver); while a collective hangs, only this collective."""
        key = self._keys[0]
        since = age % _HANG_PERIOD - _HANG_AFTER
        if self._plot.hangs and self._cast.ranks and 0 < since < _HANG_SECONDS:
            found = [("nccl", "ncclGroupEnd", since, False)]
        else:
            waited = float(self._random.uniform(0.001, 0.03))
            found = [
                ("runtime", "cudaStreamSynchronize", waited, False),
                ("driver", "cuStreamSynchronize", waited * 0.98, True),
            ]
        whose = key.tenant, key.pid, key.pid, key.process
        return tuple(
            OpenCall(*whose, layer, operation, int(waited * 1e9), nested, device=key.device)
            for layer, operation, waited, nested in found
        )

    def _system(self, age: float, *, busy: bool) -> System:
        cpus = host.CPUS
        wave = 99.0 if busy else 30 + 15 * math.sin(2 * math.pi * age / 61)
        each = np.clip(self._random.normal(wave, 1 if busy else 12, cpus), 0, 100)
        percent = float(each.mean())
        return System(
            cpus=cpus,
            cpu_percent=percent,
            cpu_each_percent=tuple(each.tolist()),
            memory_total_bytes=512 << 30,
            memory_used_bytes=int((170 + 0.4 * wave) * (1 << 30)),
            swap_total_bytes=16 << 30,
            swap_used_bytes=1 << 28,
            load=((1.5 if busy else 1.0) * percent / 100 * cpus, 9.6, 8.8),
            cpu_pressure_percent=(46.0 if busy else 1.2) * (1 + 0.2 * math.sin(age)),
            uptime_seconds=86_400 * 12 + age,
        )

    def _coverage(self, calls_per_second: float) -> Coverage:
        processes = len(self._holders)
        libraries = (
            Library("/usr/lib/x86_64-linux-gnu/libcuda.so.555.42", "driver", 118, processes),
            Library("/opt/conda/lib/libcudart.so.12.4.127", "runtime", 94, processes),
            Library("/opt/conda/lib/libnccl.so.2.21.5", "nccl", 24, max(processes // 3, 1)),
        )
        missing = Missing(
            "/usr/local/bin/fftbench",
            "its runtime calls, as the CUDA runtime in it has no symbols",
            "build it with nvcc -cudart shared to see runtime calls too",
            pid=FFTBENCH_PID,
            tenant=list(self._tenants)[-1],
        )
        functions = sum(library.functions for library in libraries)
        return Coverage(
            attached=2 * functions,
            functions=functions,
            libraries=libraries,
            missing=(missing,) if self._plot.restless else (),
            processes=processes,
            probe_ns=PROBE_NS,
            way="simulated",
            cost_percent=100.0 * calls_per_second * PROBE_NS / 1e9,
            tracing=self._reason,
        )


def _chosen(habit: Habit, operations: int) -> list[tuple[Act, str]]:
    """Returns the first ``operations`` acts of a process. Each has the name of the operation that contains
    it; '' if none does. First come the acts of ``habit``, each followed by the driver call inside it, and
    then those of ``OTHERS``. So a nested call is never without the call that contains it."""
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


def _histograms(nanoseconds: NDArray[np.int64], counts: NDArray[np.int64]) -> Histograms:
    """Returns the sparse histograms of n rows, in which ``counts[row, i]`` calls took ``nanoseconds[row, i]``
    each. Both arrays have the shape (n, points)."""
    n, points = counts.shape
    each = Histograms(
        np.arange(n * points + 1),
        indices_of(nanoseconds).reshape(-1).astype(np.uint16),
        counts.reshape(-1).astype(np.uint64),
    )
    return each.grouped(np.repeat(np.arange(n), points), n)
