"""Summaries of hosts that do not exist, as many as wanted: for a demonstration of a fleet, and to measure
one."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from stalltop.model.fleet.host_summary import (
    DeviceSummary,
    HostAddress,
    HostSummary,
    ProblemSummary,
    RankSummary,
    TenantSummary,
)
from stalltop.model.hosts.collectives import chosen, entries_text

CLUSTER: Final = "demo"
HOSTS_OF_RACK: Final = 32
BACKED_UP: Final = 41
"""Hosts, at most, whose disks the nightly backup loads."""
JOB_RANKS: Final = 8
_NAMESPACES: Final = ("ml", "search", "speech")
_COLLECTIVES_PER_S: Final = 40
_LATE_SECONDS: Final = 0.038
"""By how much one rank of the job enters its collectives late."""
_LEAST_RANKS: Final = 4
"""A job with fewer ranks has no late one."""
_JOB_GPU: Final = DeviceSummary("0", "Simulated 80GB", 97.0, 71.0, 62.0, 640.0, 1980.0)
"""The GPU of a rank of the job."""
_SLOW_GPU: Final = _JOB_GPU._replace(
    sm_clock_mhz=1200.0, temperature_celsius=86.0, throttle_reasons="thermal, hardware"
)
_EPOCH_SECONDS: Final = 1e6
"""The job counts its collectives anew after this time."""

_DISK: Final = ProblemSummary(
    id="loader_disk/train",
    cause="loader_disk",
    severity="high",
    title="Data loader waits for disk",
    namespace="ml",
    victim="train",
    process="python3",
    operation="cudaLaunchKernel",
    culprit_namespace="ops",
    culprit="storage-backup",
    device="nvme0n1",
    lost_ms_per_s=120.0,
    since=0.0,
    summary="train waits for its data: storage-backup loads nvme0n1",
    fix="ionice -c 3 -p $(pgrep -d ' ' restic)",
    line="loader.py:88",
)
_CPU: Final = _DISK._replace(
    id="cpu_contention/serve",
    cause="cpu_contention",
    severity="critical",
    title="CPU contention",
    namespace="search",
    victim="serve",
    process="tritonserver",
    operation="cudaStreamSynchronize",
    culprit_namespace="video",
    culprit="transcode",
    device="",
    lost_ms_per_s=640.0,
    summary="serve waits for a CPU: transcode runs there",
    fix="systemctl set-property transcode.service CPUWeight=20",
    line="",
)
_HEAT: Final = _DISK._replace(
    id="gpu_thermal/GPU 0",
    cause="gpu_thermal",
    severity="medium",
    title="GPU thermally throttled",
    namespace="",
    victim="",
    process="",
    operation="",
    culprit_namespace="",
    culprit="",
    device="GPU 0",
    lost_ms_per_s=80.0,
    summary="GPU 0 runs slower: clocks throttled by heat",
    fix="",
    line="",
)


class SimulatedFleet:
    """``hosts`` hosts in racks of 32. On some of them a backup loads the disk from which a training job
    reads, and one of its ranks is late; the GPU of another rank is slow. On one host, a tenant takes the CPUs
    of another one; a GPU is hot. The same seed and time give the same summaries."""

    def __init__(self, hosts: int, seed: int = 1, program: str = "") -> None:
        self._program = program
        random = Random(seed)
        self.addresses: tuple[HostAddress, ...] = tuple(
            HostAddress(CLUSTER, f"rack-{at // HOSTS_OF_RACK + 1:03}", f"node-{at + 1:05}")
            for at in range(hosts)
        )
        order = list(range(hosts))
        random.shuffle(order)
        slow = min(BACKED_UP, hosts // 4)
        self._slow, rest = set(order[:slow]), order[slow:]
        self._busy, self._hot = set(rest[:1]) if hosts > 2 else set(), set(rest[1:3]) if hosts > 8 else set()
        self._ranks = {host: rank for rank, host in enumerate(sorted(order[:JOB_RANKS]))}
        self._like = [_healthy(Random(seed + at), at) for at in range(min(hosts, 64))]
        """Hosts without a problem; host n is like number n modulo their number."""

    def __len__(self) -> int:
        return len(self.addresses)

    def summary(self, host: int, now: float) -> HostSummary:
        """Returns what host number ``host`` says at the Unix time ``now``."""
        like = self._like[host % len(self._like)]
        wave = 1.0 + 0.2 * ((now * 7 + host * 13) % 10 - 5) / 5
        tenants = tuple(
            one._replace(calls=round(one.calls * wave), p99_ns=round(one.p99_ns * wave))
            for one in like.tenants
        )
        problems = tuple(self._problems(host, now))
        if problems:
            lost = problems[0].lost_ms_per_s
            tenants = (tenants[0]._replace(lost_ms_per_s=lost, p99_ns=tenants[0].p99_ns * 4), *tenants[1:])
        devices = like.devices
        if host in self._ranks:
            slow = len(self._ranks) > _LEAST_RANKS and self._ranks[host] == len(self._ranks) - 1
            devices = (_SLOW_GPU if slow else _JOB_GPU, *devices[1:])
        return replace(
            like,
            end=now,
            devices=devices,
            program=self._program,
            calls=sum(one.calls for one in tenants),
            lost_ms_per_s=sum(one.lost_ms_per_s for one in problems),
            problems_in_all=len(problems),
            tenants=tenants,
            problems=problems,
            ranks=self._rank(host, now),
        )

    def _problems(self, host: int, now: float) -> list[ProblemSummary]:
        since = now // 600 * 600
        if host in self._slow:
            return [_DISK._replace(lost_ms_per_s=120.0 + (host * 37) % 400, since=since)]
        if host in self._busy:
            return [_CPU._replace(since=since)]
        return [_HEAT._replace(since=since)] if host in self._hot else []

    def _rank(self, host: int, now: float) -> tuple[RankSummary, ...]:
        rank = self._ranks.get(host)
        if rank is None:
            return ()
        size = len(self._ranks)
        late = _LATE_SECONDS if size >= _LEAST_RANKS and rank == size // 2 else 0.0
        began = now // _EPOCH_SECONDS * _EPOCH_SECONDS + late
        entered = max(int((now - began) * _COLLECTIVES_PER_S), 0)
        entries = [
            (number, round((began + (number + 1) / _COLLECTIVES_PER_S) * 1e9) + _noise_ns(number, rank))
            for number in chosen(max(entered - _COLLECTIVES_PER_S, 0), entered)
        ]
        known = "5ca1ab1e0ddba115", rank, size, "ml", "train", 4200, "python3", entered, 12_000_000
        return (RankSummary(*known, entries_text(entries), _JOB_GPU.label),)


def _noise_ns(number: int, rank: int) -> int:
    """Returns by how much a rank enters a collective later than planned: less than 1 ms."""
    return (number * 7919 + rank * 104_729) % 1000 * 1000


def _healthy(random: Random, number: int) -> HostSummary:
    tenants = tuple(
        TenantSummary(
            namespace,
            name,
            "pod",
            random.randrange(500, 60_000),
            random.randrange(10**8, 10**9),
            random.randrange(20_000, 900_000),
            0.0,
        )
        for namespace, name in zip(_NAMESPACES, ("train", "serve", f"job-{number}"), strict=True)
    )
    devices = tuple(
        DeviceSummary(str(at), "Simulated 80GB", float(random.randrange(20, 100)), 71.0, 62.0, 480.0)
        for at in range(8)
    )
    return HostSummary(
        0.0,
        1.0,
        session="simulated",
        simulated=True,
        cost_percent=0.4,
        cpu_percent=float(random.randrange(10, 80)),
        clock_error_ns=250_000,
        tenants_in_all=len(tenants),
        tenants=tenants,
        devices=devices,
    )
