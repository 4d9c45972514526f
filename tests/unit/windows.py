"""Windows for tests: small ones written by hand, and random ones for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from model.device import Device, DeviceProcess, Devices, System
from model.hdr import COUNTERS, HIGHEST_NS, index_of
from model.histograms import Histograms
from model.tenant import Tenant
from model.window import (
    LOSSES,
    SPLITS,
    Coverage,
    Library,
    Missing,
    OpenCall,
    RowKey,
    Rows,
    Window,
)


class Calls(NamedTuple):
    """The calls of one row, by duration in ns."""

    key: RowKey
    durations: Sequence[int]
    errors: int = 0
    bytes: int = 0


def key(
    operation: str = "cudaLaunchKernel",
    *,
    tenant: str = "docker:aa",
    pid: int = 100,
    process: str = "python3",
    layer: str = "runtime",
    nested: bool = False,
    host: str = "gpu7",
) -> RowKey:
    return RowKey(host, tenant, pid, process, layer, operation, nested)


def rows(calls: Sequence[Calls], *, split: bool = False) -> Rows:
    """Rows with the exact counts of ``calls``; a split gives all time to running and the rest nothing."""
    dense = np.zeros((len(calls), COUNTERS), np.uint64)
    for number, row in enumerate(calls):
        for duration in row.durations:
            dense[number, index_of(duration)] += np.uint64(1)

    def column(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array(values, np.uint64)

    total = column([sum(row.durations) for row in calls])
    splits = np.zeros((len(calls), len(SPLITS)), np.uint64)
    splits[:, 0] = total
    return Rows(
        keys=tuple(row.key for row in calls),
        calls=column([len(row.durations) for row in calls]),
        errors=column([row.errors for row in calls]),
        bytes=column([row.bytes for row in calls]),
        total_ns=total,
        max_ns=column([max(row.durations, default=0) for row in calls]),
        histograms=Histograms.from_dense(dense),
        split_ns=splits if split else None,
    )


TENANTS = {
    "docker:aa": Tenant(
        "docker:aa", "train", runtime="docker", container_id="aa", cgroup_id=71, cgroup_path="/docker/aa"
    ),
    "cri:bb": Tenant(
        "cri:bb", "serve", kind="pod", runtime="containerd", container_id="bb", pod="llm-0", namespace="prod"
    ),
}


def window(
    calls: Sequence[Calls] = (),
    *,
    start: float = 1_000.0,
    seconds: float = 1.0,
    host: str = "gpu7",
    split: bool = False,
    loss: dict[str, int] | None = None,
    cost_percent: float = 0.5,
    simulated: bool = False,
) -> Window:
    return Window(
        start=start,
        seconds=seconds,
        host=host,
        rows=rows(calls, split=split),
        tenants=dict(TENANTS),
        loss=loss or {},
        coverage=Coverage(attached=4, functions=2, cost_percent=cost_percent, way="multi"),
        simulated=simulated,
    )


def full_window() -> Window:
    """A window with something in every field."""
    return Window(
        start=1_700_000_000.25,
        seconds=2.0,
        host="gpu7",
        rows=rows(
            [
                Calls(key("cudaLaunchKernel"), [4_000, 5_000, 6_000, 900_000]),
                Calls(key("cuLaunchKernel", layer="driver", nested=True), [3_000, 3_500, 4_000, 890_000]),
                Calls(key("cudaMemcpyAsync HtoD"), [20_000, 2_000_000], 0, 8_388_608),
                Calls(
                    key("cudaStreamSynchronize", tenant="cri:bb", pid=200, process="tritonserver"),
                    [15_000_000, 18_000_000, 250_000_000],
                    1,
                ),
                Calls(
                    key("ncclAllReduce", tenant="cri:bb", pid=200, process="tritonserver", layer="nccl"),
                    [45_000, 46_000],
                    0,
                    1_048_576,
                ),
            ],
            split=True,
        ),
        tenants=dict(TENANTS),
        open_calls=(
            OpenCall("cri:bb", 200, 203, "tritonserver", "nccl", "ncclCommInitRank", 42_000_000_000),
            OpenCall("docker:aa", 100, 101, "python3", "driver", "cuStreamSynchronize", 900_000_000, True),
            OpenCall(
                "docker:aa", 103, 104, "python3", "driver", "cuCtxSynchronize", 12_500_000_000, ended=True
            ),
        ),
        devices=Devices(
            devices=(
                Device(
                    index=0,
                    uuid="GPU-5f2c",
                    name="NVIDIA H100 80GB HBM3",
                    utilization_percent=97.0,
                    memory_used_bytes=71_000_000_000,
                    memory_total_bytes=85_520_809_984,
                    power_watts=512.5,
                    power_limit_watts=700.0,
                    temperature_celsius=66.0,
                    sm_clock_mhz=1755,
                    sm_clock_max_mhz=1980,
                    throttle_reasons=("sw power cap",),
                    processes=(DeviceProcess(100, "C", 70_000_000_000, "docker:aa"),),
                    notes=("memory utilisation: not supported",),
                ),
            ),
            driver="580.65.06",
        ),
        system=System(
            cpus=2,
            cpu_percent=37.5,
            cpu_each_percent=(50.0, 25.0),
            memory_total_bytes=16 << 30,
            memory_used_bytes=5 << 30,
            swap_total_bytes=2 << 30,
            swap_used_bytes=1 << 20,
            load=(0.5, 0.25, 0.125),
            uptime_seconds=86_400.5,
        ),
        loss={"abandoned": 2, "no_slot": 3},
        coverage=Coverage(
            attached=412,
            functions=206,
            libraries=(Library("/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06", "driver", 120, 3),),
            missing=(
                Missing(
                    "/opt/app/infer",
                    "static CUDA runtime without symbols",
                    "driver calls are traced",
                    4242,
                    "cri:bb",
                ),
            ),
            processes=2,
            probe_ns=512.5,
            cost_percent=0.75,
            way="multi",
        ),
    )


OPERATIONS = ("cudaLaunchKernel", "cuLaunchKernel", "cudaFree", "ncclAllReduce")
KEYS = st.builds(
    RowKey,
    host=st.just("gpu7"),
    tenant=st.sampled_from(["docker:aa", "cri:bb", "cgroup:9"]),
    pid=st.integers(1, 3),
    process=st.sampled_from(["python3", "serve"]),
    layer=st.sampled_from(["runtime", "driver", "host"]),
    operation=st.sampled_from(OPERATIONS),
    nested=st.booleans(),
)
_DURATIONS = st.lists(st.one_of(st.integers(0, 2_000), st.integers(0, HIGHEST_NS)), min_size=1, max_size=6)
_CALLS = st.builds(Calls, KEYS, _DURATIONS, st.integers(0, 3), st.integers(0, 1 << 40))


@st.composite
def windows(draw: st.DrawFn, start: float = 1_000.0, *, split: bool | None = None) -> Window:
    """A small random window of host gpu7 that lasts one second."""
    calls = draw(st.lists(_CALLS, max_size=5, unique_by=lambda row: row.key))
    loss = draw(st.dictionaries(st.sampled_from(sorted(LOSSES)), st.integers(0, 1_000), max_size=3))
    return window(
        calls,
        start=start,
        split=draw(st.booleans()) if split is None else split,
        loss=loss,
        cost_percent=draw(st.floats(0, 100)),
        simulated=draw(st.booleans()),
    )


@st.composite
def sequences(draw: st.DrawFn, most: int = 8, *, split: bool | None = None) -> list[Window]:
    """One to ``most`` windows of one host that follow each other."""
    return [draw(windows(1_000.0 + number, split=split)) for number in range(draw(st.integers(1, most)))]


def row_table(rows_: Rows) -> dict[RowKey, tuple[object, ...]]:
    """Every count of every row, by key: equal exactly where the rows are."""
    dense = rows_.histograms.dense()
    return {
        key_: (
            int(rows_.calls[i]),
            int(rows_.errors[i]),
            int(rows_.bytes[i]),
            int(rows_.total_ns[i]),
            int(rows_.max_ns[i]),
            dense[i].tobytes(),
            None if rows_.split_ns is None else rows_.split_ns[i].tobytes(),
        )
        for i, key_ in enumerate(rows_.keys)
    }
