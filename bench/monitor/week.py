"""Quickly makes a recording of a week of an invented host, like one that ``stalltop record`` has written.

In a real recording, old windows have been merged into longer ones. Here such windows are made directly with
their final length, not second by second.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from stalltop.model.calls import CapturedCall, CapturedCalls
from stalltop.model.chain import Chain, Fix, Link
from stalltop.model.cuda_kernels import KernelCount, bucket_of
from stalltop.model.devices.device import Device, DeviceProcess, Devices, System
from stalltop.model.evidence import Charge, Evidence, ProcessUse, TenantUse
from stalltop.model.histograms.hdr import index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Coverage, Library, Rows, Window
from stalltop.recordings.write.thinning import MOST_CALLS, TIERS, Tier
from stalltop.recordings.write.writing import Writer, create

HOST: Final = "gpu7"
_PROCESSES: Final = 10
_WIDTH: Final = 320
"""Number of adjacent histogram counters among which the calls of a row are spread. They cover two and a half
octaves of durations."""
_KERNELS: Final = 20
_LAUNCH: Final = "cudaLaunchKernel"
"""Operation of the first row of each process: the launches of the process's CUDA kernels."""
_CALLS_A_SECOND: Final = 40
"""Number of captured calls per second of each kind (slow, sample). A window has at most ``MOST_CALLS`` of
each."""
_AT_ONCE: Final = 100
_STRIDE: Final = 8
"""Step between the ids of consecutive windows. Real recorders also leave ids free between two windows."""


class InventedHost:
    """Makes windows of any length of an invented host with ``rows`` rows. Windows with the same start and
    length are equal."""

    def __init__(self, rows: int = 100) -> None:
        self.keys = tuple(
            RowKey(
                HOST,
                f"docker:{row % 3}",
                1_000 + row % _PROCESSES,
                "python3",
                ("runtime", "driver", "nccl")[row // _PROCESSES % 3],
                _LAUNCH
                if row < _PROCESSES
                else f"{('cuda', 'cu', 'nccl')[row // _PROCESSES % 3]}Operation{row // _PROCESSES}",
                row // _PROCESSES % 3 == 1,
            )
            for row in range(rows)
        )
        random = np.random.default_rng(1)
        median = np.exp(random.uniform(np.log(3_000), np.log(3_000_000), rows))
        self._first = np.array([index_of(int(value)) for value in median]) - _WIDTH // 2
        shape = np.exp(-0.5 * ((np.arange(_WIDTH) - _WIDTH / 2) / 45.0) ** 2)
        per_second = np.exp(random.uniform(np.log(5), np.log(2_000), rows))
        self._expected = per_second[:, None] * (shape / shape.sum())
        self._mean = median * 1.05
        self._tenants = {
            f"docker:{number}": Tenant(
                f"docker:{number}",
                f"tenant-{number}",
                runtime="docker",
                container_id=f"{number:064x}",
                cgroup_id=4_000 + number,
                cgroup_path=f"/docker/{number:064x}",
            )
            for number in range(3)
        }

    def window(self, start: float, seconds: float) -> Window:
        """Returns the window from ``start`` (Unix time, s) that is ``seconds`` long."""
        random = np.random.default_rng(int(start))
        counts = random.poisson(self._expected * seconds)
        calls = counts.sum(axis=1).astype(np.uint64)
        row, column = np.nonzero(counts)
        first = np.searchsorted(row, np.arange(len(self.keys) + 1)).astype(np.int64)
        histograms = Histograms(
            first, (self._first[row] + column).astype(np.uint16), counts[row, column].astype(np.uint64)
        )
        total = (calls * self._mean).astype(np.uint64)
        splits = np.zeros((len(self.keys), len(SPLITS)), np.uint64)
        shares = random.dirichlet(np.ones(4), len(self.keys))
        for number, share in enumerate(shares.T[:3]):
            splits[:, number * 2] = (total * share).astype(np.uint64)
        splits[:, 1] = total - splits.sum(axis=1)
        rows = Rows(
            keys=self.keys,
            calls=calls,
            errors=random.poisson(0.001 * calls).astype(np.uint64),
            bytes=calls * np.uint64(65_536),
            total_ns=total,
            max_ns=(self._mean * random.uniform(2, 20, len(self.keys))).astype(np.uint64),
            histograms=histograms,
            split_ns=splits,
        )
        whole = Window(
            start=start,
            seconds=seconds,
            host=HOST,
            rows=rows,
            tenants=self._tenants,
            devices=self._devices(random),
            system=System(64, 37.5, tuple(random.integers(0, 100, 64).astype(float).tolist())),
            loss={"no_entry": 1},
            coverage=Coverage(
                412, 206, (Library("/usr/lib/libcuda.so.1", "driver", 206, 10),), way="multi", processes=10
            ),
            evidence=self._evidence(random, seconds),
            kernels=self._kernels(rows, random),
            calls=self._calls(rows, start, seconds, random),
        )
        return replace(whole, chains=self._chains(start, seconds))

    def _devices(self, random: np.random.Generator) -> Devices:
        return Devices(
            tuple(
                Device(
                    index,
                    f"GPU-{index}",
                    "H100",
                    utilization_percent=float(random.integers(0, 100)),
                    memory_used_bytes=int(random.integers(0, 80 << 30)),
                    memory_total_bytes=80 << 30,
                    power_watts=float(random.integers(100, 700)),
                    temperature_celsius=60.0,
                    sm_clock_mhz=1_755,
                    processes=tuple(
                        DeviceProcess(1_000 + at, "C", 8 << 30, f"docker:{at % 3}") for at in range(2)
                    ),
                )
                for index in range(8)
            ),
            driver="580.65.06",
        )

    def _evidence(self, random: np.random.Generator, seconds: float) -> Evidence:
        def ns() -> int:
            return int(random.integers(0, int(seconds * 1e8)))

        whos = [(f"docker:{number % 3}", 1_000 + number, "python3") for number in range(_PROCESSES)]
        return Evidence(
            charges=tuple(
                Charge(
                    *who, "host", "host gap", "runqueue", *whos[at - 1], ns(), int(random.integers(1, 500))
                )
                for at, who in enumerate(whos)
            ),
            tenants=tuple(TenantUse(f"docker:{number}", cpu_ns=ns()) for number in range(3)),
            processes=tuple(ProcessUse(*who, cpu_ns=ns(), minor_faults=3, link=0, threads=8) for who in whos),
        )

    def _kernels(self, rows: Rows, random: np.random.Generator) -> tuple[KernelCount, ...]:
        found = []
        for number in range(_KERNELS):
            row = number % min(_PROCESSES, len(self.keys))
            key, calls = self.keys[row], int(rows.calls[row]) // 4
            total = calls * int(self._mean[row])
            fifth = calls // 5
            shares = (fifth, fifth, calls - 4 * fifth, fifth, fifth)
            middle = bucket_of(int(self._mean[row]))
            found.append(
                KernelCount(
                    *key[1:7],
                    f"void gemm_{number}<float, 128>(float*, int)",
                    *(calls, 0, total, int(rows.max_ns[row])),
                    tuple((middle + step, share) for step, share in enumerate(shares, -2) if share),
                )
            )
        return tuple(found)

    def _calls(self, rows: Rows, start: float, seconds: float, random: np.random.Generator) -> CapturedCalls:
        each = min(int(_CALLS_A_SECOND * seconds), MOST_CALLS)
        kept = [
            CapturedCall(
                *self.keys[number % len(self.keys)][1:7],
                tid=2_000 + number,
                start_ns=int((start + seconds * number / each / 2) * 1e9),
                duration_ns=int(random.integers(1_000, 10**8)),
                split_ns=tuple(random.integers(0, 10**6, len(SPLITS)).tolist()),
                bytes=65_536,
                returned=0,
                arguments="copy=HtoD stream=0x55d0a0",
                kernel="",
                why="sample" if number % 2 else "slow",
            )
            for number in range(2 * each)
        ]
        return CapturedCalls(kept, int(seconds))

    def _chains(self, start: float, seconds: float) -> tuple[Chain, ...]:
        """Returns a chain if ``start`` lies in the first five minutes of an hour, else nothing: one problem
        per hour, which stays open for five minutes."""
        since = start - start % 3_600
        if start - since >= 300:
            return ()
        number = int(since // 3_600) % _PROCESSES
        who = (f"docker:{number % 3}", 1_000 + number, "python3")
        return (
            Chain(
                f"cpu/{number}",
                *(
                    "runqueue",
                    "waits for a CPU",
                    "high",
                    f"process {number} waits for a CPU",
                    *who,
                    "host",
                    "host gap",
                ),
                *(120.0 + seconds, 0.9),
                links=(
                    Link("effect", "host gap takes longer", 1.0, 1e8, *who, depth=0),
                    Link("culprit", "another process has the CPU", 0.8, 8e7, *who),
                ),
                fixes=(Fix("keep them apart", f"taskset -acp 1 {who[1]}"),),
                since=since,
                seen=start + seconds,
            ),
        )


def lengths(seconds: int, tiers: Sequence[Tier] = TIERS) -> list[tuple[int, int]]:
    """Returns length in seconds and level (``Tier.length``) of each window in a recording that covers
    ``seconds``, oldest window first. ``tiers`` give the length of windows by age."""
    found: list[tuple[int, int]] = []
    newer = 0
    for tier in tiers:
        each = max(tier.length, 1)
        number = int(min(tier.seconds, seconds) - newer) // each
        found += [(each, tier.length)] * max(number, 0)
        newer += max(number, 0) * each
    return found[::-1]


def make(
    path: Path, host: InventedHost, seconds: int, end: float = 1_750_000_000.0, tiers: Sequence[Tier] = TIERS
) -> int:
    """Makes a recording that covers ``seconds`` until ``end`` (Unix time) in the new file ``path``; returns
    its number of windows."""
    made = lengths(seconds, tiers)
    start = end - sum(each for each, _ in made)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("auto_vacuum = INCREMENTAL", "journal_mode = OFF", "synchronous = OFF"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN")
        create(connection, "recording")
        writer = Writer(connection)
        for number, (each, level) in enumerate(made, start=1):
            writer.add(host.window(start, float(each)), level, window_id=number * _STRIDE)
            start += each
            if number % _AT_ONCE == 0:
                connection.execute("COMMIT")
                connection.execute("BEGIN")
        connection.execute("COMMIT")
    return len(made)
