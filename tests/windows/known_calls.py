"""Makes windows from known single calls, so that the right answer to a query can be computed."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from stalltop.model.calls import CapturedCall, CapturedCalls
from stalltop.model.cuda_kernels import KernelCount, bucket_of
from stalltop.model.histograms.hdr import HIGHEST_NS
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.recordings.read.reading import Recorded, open_file
from stalltop.recordings.write.writing import Writer, create
from tests.windows.by_hand import Calls, window

HOST = "gpu7"
LAUNCH = "cudaLaunchKernel"
TENANTS = {
    tenant.id: tenant
    for tenant in (
        Tenant("docker:aa", "train", runtime="docker", container_id="aa" * 32, cgroup_id=71),
        Tenant("docker:bb", "serve", runtime="docker", container_id="bb" * 32, cgroup_id=72),
        Tenant("cri:cc", "serve", kind="pod", runtime="containerd", container_id="cc" * 32, pod="llm-0"),
    )
}
"""The tenants of the calls, by id. Two of them share a name, and the cgroup of one is unknown."""


class Call(NamedTuple):
    """Describes one call, with the number of the window that counts it."""

    window: int
    """Number of the window, from 0."""
    tenant: str
    pid: int
    layer: str
    operation: str
    nested: bool
    kernel: str | None
    """Name of the launched CUDA kernel; None if launches of this call are not counted by CUDA kernel."""
    duration_ns: int
    error: bool
    bytes: int
    kept: bool
    device: str = ""


_OPERATIONS = (
    ("runtime", LAUNCH, False),
    ("runtime", "cudaMemcpyAsync HtoD", False),
    ("driver", "cuLaunchKernel", True),
    ("driver", "cuStreamSynchronize", False),
    ("nccl", "ncclAllReduce", False),
    ("nccl", "ncclBroadcast", False),
    ("host", "host gap", False),
)


def random_calls(seed: int, most: int = 120, windows: int = 3) -> list[Call]:
    """Returns random calls of three tenants in a few windows. Some calls are captured, and some
    launches are not counted by CUDA kernel."""
    random, device = Random(seed), Random(seed)
    scales = {operation: random.choice((90, 4_000, 1e6, 3e9, 9e10)) for _, operation, _ in _OPERATIONS}
    told = random.random() < 0.8
    found = []
    for _ in range(random.randrange(most)):
        layer, operation, nested = random.choice(_OPERATIONS)
        kernel = random.choice(("scale<float>", "reduce", "", None)) if told and operation == LAUNCH else None
        found.append(
            Call(
                window=random.randrange(windows),
                tenant=random.choice(tuple(TENANTS)),
                pid=random.choice((100, 101)),
                layer=layer,
                operation=operation,
                nested=nested,
                kernel=kernel,
                duration_ns=min(int(random.expovariate(1 / scales[operation])), HIGHEST_NS),
                error=random.random() < 0.1,
                bytes=random.choice((0, 4096, 1_000_003)) if "Memcpy" in operation else 0,
                kept=random.random() < 0.1,
                device=device.choice(("", "0", "0:3")) if layer != "host" else "",
            )
        )
    return found


def windows_of(calls: Iterable[Call], start: float = 1_700_000_000.0) -> list[Window]:
    """Returns the windows in which stalltop would count ``calls``: one window of one second for each window
    number that has calls."""
    by_window: dict[int, list[Call]] = defaultdict(list)
    for call in calls:
        by_window[call.window].append(call)
    return [_window(by_window[number], start + number) for number in sorted(by_window)]


def _window(calls: Sequence[Call], start: float) -> Window:
    by_row: dict[RowKey, list[Call]] = defaultdict(list)
    for call in calls:
        by_row[_row(call)].append(call)
    rows = [
        Calls(
            key,
            [call.duration_ns for call in found],
            sum(call.error for call in found),
            sum(call.bytes for call in found),
        )
        for key, found in by_row.items()
    ]
    kept = (
        CapturedCall(
            *(*_row(call)[1:7], 7, int(start * 1e9) + 1_000, call.duration_ns, None, call.bytes),
            *(int(call.error), "", call.kernel or "", "slow", call.device),
        )
        for call in calls
        if call.kept
    )
    kernels = tuple(count for key, found in by_row.items() for count in _kernels(key, found))
    made = window(rows, start=start, host=HOST)
    return replace(made, tenants=dict(TENANTS), kernels=kernels, calls=CapturedCalls(kept))


def _row(call: Call) -> RowKey:
    return RowKey(
        HOST, call.tenant, call.pid, "python3", call.layer, call.operation, call.nested, call.device
    )


def _kernels(key: RowKey, calls: Sequence[Call]) -> list[KernelCount]:
    by_kernel: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.kernel is not None:
            by_kernel[call.kernel].append(call)
    found = []
    for kernel, launches in by_kernel.items():
        durations = [call.duration_ns for call in launches]
        buckets: dict[int, int] = defaultdict(int)
        for duration in durations:
            buckets[bucket_of(duration)] += 1
        figures = len(durations), sum(call.error for call in launches), sum(durations), max(durations)
        found.append(KernelCount(*key[1:7], kernel, *figures, tuple(sorted(buckets.items())), key.device))
    return found


def write_file(path: Path, windows: Iterable[Window]) -> Path:
    """Writes a recording of ``windows``."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")  # a test need not survive a power loss
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("BEGIN")
    create(connection, "recording")
    writer = Writer(connection)
    for one in windows:
        writer.add(one)
    connection.execute("COMMIT")
    connection.close()
    return path


def recorded(path: Path, calls: Iterable[Call]) -> Recorded:
    """Writes a recording of ``calls`` and opens it."""
    return open_file(write_file(path, windows_of(calls)))
