"""Scenarios of hosts that run one training job together: a rank on each host, besides other tenants.

The hosts are parts of one machine, so they share its disk. Only the first host reads its data from the disk,
and a backup loads it there at times; the others have their data in memory. On the second host, another tenant
holds a lock of the data loader at times. All ranks wait for that host's rank then.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from stalltop.demo.faults import InjectedFault, Timetable
from stalltop.demo.latencies import Latency
from stalltop.demo.scenario import ProcessPlan, Scenario, TenantPlan

TRAINER: Final = "llm-train"
"""Name of the job's tenant on each host."""
STEP: Final = (
    "!500 cudaMemcpyAsync:1:4194304:1 cudaLaunchKernel:20:0 cudaEventSynchronize ncclAllReduce:2:6553600:7 "
    "cudaStreamSynchronize"
)
"""A training step: waits for its own GPU, then for the collectives and with that for the other ranks."""
PERIOD_SECONDS: Final = 90.0
_SPIN: Final = Latency("spin", "lognormal", 3_000.0, 0.3)
_RUNTIMES: Final = ("docker", "containerd", "podman", "cri-o")
_DISK: Final = InjectedFault(
    "disk",
    15.0,
    40.0,
    tenant="nightly-backup",
    process="backup",
    cycle="@read:archive:1048576",
    threads=24,
)
_LOCK: Final = InjectedFault(
    "lock", 55.0, 80.0, tenant="indexer", process="indexer", cycle="@lock:index:0:40000 ~2000"
)


def job_host(number: int, hosts: int, communicator: str) -> Scenario:
    """Returns the scenario of host ``number`` (from 0) of ``hosts``, which has the rank of this number."""
    reads = "@read" if number == 0 else "@cached"
    wait = " @lock:index:50" if number == 1 else ""
    runtime = _RUNTIMES[number % len(_RUNTIMES)]
    trainer = TenantPlan(
        TRAINER,
        runtime,
        (
            ProcessPlan("train.py", f"@take:batches:4 {STEP}", communicator=(communicator, number, hosts)),
            ProcessPlan("pt_data_worker", f"{reads}:data:131072:2 !700{wait} @give:batches:4"),
        ),
        MappingProxyType(step_latencies(hosts)),
    )
    server = TenantPlan(
        "embed-serve",
        runtime,
        (ProcessPlan("serve.py", "cudaLaunchKernel:8:0 cudaDeviceSynchronize ~30000"),),
        MappingProxyType(
            {"cuLaunchKernel": _SPIN, "cuCtxSynchronize": Latency("futex", "lognormal", 1_500_000.0, 0.2)}
        ),
    )
    tenants, faults = [trainer, server], []
    if number == 0:
        tenants.append(_idle("nightly-backup", "backup"))
        faults.append(_DISK)
    if number == 1:
        tenants.append(_idle("indexer", "indexer"))
        faults.append(_LOCK)
    files = {"data": 128, "archive": 128} if number == 0 else {"data": 16}
    timetable = Timetable(tuple(faults), PERIOD_SECONDS)
    about = f"rank {number} of a job on {hosts} hosts"
    return Scenario(f"job-{number}", about, tuple(tenants), MappingProxyType(files), timetable=timetable)


def step_latencies(ranks: int) -> dict[str, Latency]:
    """Returns how long the functions of ``STEP`` take."""
    return {
        "cuLaunchKernel": _SPIN,
        "cuMemcpyHtoDAsync": Latency("spin", "lognormal", 12_000.0, 0.3),
        "cuEventSynchronize": Latency("poll", "lognormal", 6_000_000.0, 0.1),
        "cuStreamSynchronize": Latency("meet", ns=6_000_000.0, spread=float(ranks)),
    }


def _idle(tenant: str, process: str) -> TenantPlan:
    return TenantPlan(tenant, "podman", (ProcessPlan(process, "~100000"),), MappingProxyType({}))
