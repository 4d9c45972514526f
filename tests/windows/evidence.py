"""Builds windows with evidence for tests of the diagnosis: a healthy host, and parts that add a fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stalltop.model.devices.device import Devices, System
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, HOST_WORK, Charge, Evidence, ProcessUse, TenantUse
from stalltop.model.histograms.hdr import COUNTERS, index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Coverage, OpenCall, Rows, Window

HOST = "gpu7"
TRAIN, BATCH, SERVE, SYSTEM = "docker:train", "docker:batch", "cri:serve", "unit:cron"
TENANTS = {
    TRAIN: Tenant(TRAIN, "trainer", "container", "docker", "ab" * 32, "", "", 71, "/docker/train"),
    BATCH: Tenant(BATCH, "batch-job", "container", "podman", "cd" * 32, "", "", 72, "/docker/batch"),
    SERVE: Tenant(SERVE, "server", kind="pod", runtime="containerd", cgroup_id=73, cgroup_path="/pods/serve"),
    SYSTEM: Tenant(SYSTEM, "cron", kind="unit", cgroup_id=74, cgroup_path="/system.slice/cron.service"),
}


class Spent(NamedTuple):
    """Describes one row: a number of calls of equal length, and where their time went, in ms."""

    key: RowKey
    calls: int
    split_ms: Mapping[str, float]
    bytes: int = 0
    errors: int = 0
    longest_ms: float | None = None
    """Length of the slowest calls; None if all calls take equally long."""
    slow_calls: int = 1
    """Number of calls that take ``longest_ms``."""


def row(
    operation: str = HOST_GAP,
    calls: int = 10,
    spent_ms: Mapping[str, float] | None = None,
    *,
    tenant: str = TRAIN,
    pid: int = 100,
    program: str = "train.py",
    layer: str = "",
    nested: bool = False,
    bytes_: int = 0,
    errors: int = 0,
    longest_ms: float | None = None,
    device: str = "",
    **split_ms: float,
) -> Spent:
    """Returns a row of ``calls`` calls. ``split_ms`` and ``spent_ms`` are the times of the parts of the
    split, summed over the calls. If no ``layer`` is given, the operation's name decides it."""
    if not layer:
        host = operation in (HOST_GAP, HOST_WORK)
        layer = HOST_LAYER if host else "nccl" if operation.startswith("nccl") else "driver"
        if operation.startswith("cuda"):
            layer = "runtime"
    key = RowKey(HOST, tenant, pid, program, layer, operation, nested, device)
    return Spent(key, calls, {**(spent_ms or {}), **split_ms}, bytes_, errors, longest_ms)


def charge(
    kind: str,
    ms: float,
    culprit: int,
    *,
    operation: str = HOST_GAP,
    tenant: str = TRAIN,
    pid: int = 100,
    process: str = "train.py",
    culprit_tenant: str = BATCH,
    culprit_process: str = "stress",
    times: int = 10,
) -> Charge:
    """Returns a charge: process ``culprit`` caused ``ms`` of the time of an operation of another process."""
    layer = row(operation).key.layer
    return Charge(
        *(tenant, pid, process, layer, operation, kind),
        *(culprit_tenant, culprit, culprit_process, round(ms * 1e6), times),
    )


def rows_of(spent: Sequence[Spent]) -> Rows:
    """Returns rows with exact sums; all calls of a row take equally long, except the ``slow_calls``
    longest."""
    dense = np.zeros((len(spent), COUNTERS), np.uint64)
    split = np.zeros((len(spent), len(SPLITS)), np.uint64)
    longest = []
    for number, one in enumerate(spent):
        for part, ms in one.split_ms.items():
            split[number, SPLITS.index(part)] = round(ms * 1e6)
        each = int(split[number].sum()) // one.calls if one.calls else 0
        most = each if one.longest_ms is None else round(one.longest_ms * 1e6)
        if one.calls:
            dense[number, index_of(each)] += np.uint64(one.calls - one.slow_calls)
            dense[number, index_of(most)] += np.uint64(one.slow_calls)
        longest.append(most)
    return Rows(
        keys=tuple(one.key for one in spent),
        calls=np.array([one.calls for one in spent], np.uint64),
        errors=np.array([one.errors for one in spent], np.uint64),
        bytes=np.array([one.bytes for one in spent], np.uint64),
        total_ns=split.sum(axis=1).astype(np.uint64),
        max_ns=np.array(longest, np.uint64),
        histograms=Histograms.from_dense(dense),
        split_ns=split,
    )


def window(
    spent: Sequence[Spent] = (),
    *,
    charges: Iterable[Charge] = (),
    processes: Iterable[ProcessUse] = (),
    tenants: Iterable[TenantUse] = (),
    evidence: Evidence | None = None,
    start: float = 1_000.0,
    seconds: float = 1.0,
    cpus: Sequence[float] = (60.0, 60.0, 60.0, 60.0),
    open_calls: Sequence[OpenCall] = (),
    devices: Devices | None = None,
    probe_ns: float = 120.0,
) -> Window:
    """Returns a window of a host with four CPUs, a trainer, a batch job, a server and a system service."""
    given = evidence or Evidence()
    return Window(
        start=start,
        seconds=seconds,
        host=HOST,
        rows=rows_of(spent),
        tenants=dict(TENANTS),
        open_calls=tuple(open_calls),
        devices=devices or Devices(),
        system=System(
            cpus=len(cpus),
            cpu_percent=sum(cpus) / max(len(cpus), 1),
            cpu_each_percent=tuple(cpus),
            memory_total_bytes=64 << 30,
            memory_used_bytes=16 << 30,
        ),
        coverage=Coverage(attached=4, functions=2, probe_ns=probe_ns, way="multi"),
        evidence=replace(
            given,
            charges=(*given.charges, *charges),
            processes=(*given.processes, *processes),
            tenants=(*given.tenants, *tenants),
        ),
    )


def healthy_trainer() -> list[Spent]:
    """Returns one second of a GPU-bound trainer whose data workers keep up."""
    return [
        row("cudaLaunchKernel", 1000, running=8),
        row("cudaStreamSynchronize", 20, gpu=700, running=10),
        row(HOST_GAP, 1020, running=270, process=6, runqueue=3),
        row(HOST_WORK, 20, pid=101, program="worker", running=300, runqueue=4),
    ]
