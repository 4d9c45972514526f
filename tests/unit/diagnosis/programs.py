"""Lists programs that use the GPU badly and well, and finds their causes with the GPU rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stalltop.diagnosis.blame import Blame, ChainKey
from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.causes import gpu_causes
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.evidence import HOST_GAP
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window
from tests.windows.evidence import Spent, healthy_trainer, row

MIB = 1 << 20


def found(
    made: Window,
    *,
    series: Mapping[tuple[str, str, int], Sequence[tuple[float, float]]] | None = None,
    normal: Mapping[RowKey, tuple[int, int]] | None = None,
    blamed: Mapping[ChainKey, Blame] | None = None,
) -> list[Suspicion]:
    """Returns the faults that the GPU rules find in a window, the largest loss first."""
    facts = Facts(made, series=series or {}, normal=normal, blamed=blamed or {})
    faults = [suspicion for suspicion in gpu_causes(facts) if CAUSES[suspicion.cause].fault]
    return sorted(faults, key=lambda suspicion: -suspicion.lost_ns_per_s)


@dataclass(frozen=True)
class UsageCase:
    """Describes a program that uses the GPU badly, and the only cause that the rules may find in it."""

    name: str
    cause: str
    rows: list[Spent]
    lost_ms: tuple[float, float]
    """Lower and upper bound of the time that the rule may report as lost, in ms a second."""
    says: tuple[str, ...] = ()
    """Words that must occur in the links or fixes of the cause that is found."""
    seconds: float = 1.0


ILL = [
    UsageCase(
        "memory allocated in each step",
        "allocation_storm",
        [
            *(row("cudaMalloc", 40, lock=90, bytes_=40 * MIB), row("cudaFree", 40, gpu=150)),
            *(row("cudaLaunchKernel", 400, running=3), row(HOST_GAP, 480, sleep=600, running=100)),
        ],
        (239, 241),
        ("40 times a second", "cudaMallocAsync", "caching allocator"),
    ),
    UsageCase(
        "a pool that gives its memory back",
        "allocation_storm",
        [
            *(row("cudaMallocAsync", 100, running=120), row("cudaFreeAsync", 100, running=2)),
            *(row("cudaLaunchKernel", 400, running=3), row("cudaStreamSynchronize", 20, gpu=600)),
        ],
        (121, 123),
        ("cudaMemPoolAttrReleaseThreshold",),
    ),
    UsageCase(
        "buffers pinned in each step",
        "allocation_storm",
        [
            *(row("cudaHostAlloc", 20, running=100), row("cudaFreeHost", 20, running=60)),
            row("cudaLaunchKernel", 400, running=3),
        ],
        (159, 161),
        ("pinned buffers",),
    ),
    UsageCase(
        "address ranges mapped in each step",
        "memory_churn",
        [
            *(
                row("cuMemCreate", 30, lock=40),
                row("cuMemMap", 30, lock=20),
                row("cuMemSetAccess", 30, lock=30),
            ),
            *(row("cuMemUnmap", 30, lock=30), row("cuMemRelease", 30, lock=20)),
            row("cudaLaunchKernel", 400, running=3),
        ],
        (139, 141),
        ("expandable_segments",),
    ),
    UsageCase(
        "asynchronous copies that a thread makes itself",
        "pageable_copies",
        [
            row("cudaMemcpyAsync HtoD", 30, bytes_=30 * 16 * MIB, running=150),
            *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 30, gpu=500)),
        ],
        (149, 150),
        ("pin_memory=True", "cudaHostAlloc"),
    ),
    UsageCase(
        "batches copied from pageable memory, waiting",
        "pageable_copies",
        [
            row("cudaMemcpy HtoD", 30, bytes_=30 * 16 * MIB, running=150),
            *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 30, gpu=500)),
        ],
        (105, 110),
        ("pin_memory=True",),
    ),
    UsageCase(
        "thousands of copies of 256 bytes",
        "small_copies",
        [
            row("cudaMemcpyAsync HtoD", 9000, bytes_=9000 * 256, running=60),
            *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 30, gpu=500)),
        ],
        (59, 60),
        ("9,000 copies a second",),
    ),
    UsageCase(
        "an all-reduce for each small tensor",
        "small_collectives",
        [
            row("ncclAllReduce", 4000, bytes_=4000 * 8192, running=120),
            *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 30, gpu=500)),
        ],
        (119, 121),
        ("4,000 collectives a second: 8 KiB and ", "bucket_cap_mb"),
    ),
    UsageCase(
        "a wait after each kernel",
        "sync_storm",
        [
            *(row("cudaLaunchKernel", 4000, running=20), row("cudaDeviceSynchronize", 4000, running=500)),
            row(HOST_GAP, 8000, running=400),
        ],
        (419, 421),
        ("4,000 waits per second", "CUDA_LAUNCH_BLOCKING"),
    ),
    UsageCase(
        "a wait after each kernel, where gaps were not measured",
        "sync_storm",
        [row("cuLaunchKernel", 6000, running=30), row("cuStreamSynchronize", 6000, gpu=800)],
        (59, 61),
    ),
    UsageCase(
        "a value read after each kernel",
        "sync_storm",
        [
            *(row("cudaLaunchKernel", 2000, running=10), row("cudaMemcpy DtoH", 2000, bytes_=8000, gpu=300)),
            row(HOST_GAP, 4000, running=500),
        ],
        (299, 301),
        (".item()",),
    ),
    UsageCase(
        "tiny kernels",
        "launch_bound",
        [
            *(row("cudaLaunchKernel", 40_000, running=200), row("cudaStreamSynchronize", 10, gpu=20)),
            row(HOST_GAP, 40_000, running=700),
        ],
        (199, 201),
        ("torch.compile", "40,000 launches a second"),
    ),
    UsageCase(
        "libraries loaded in first calls",
        "cold_start",
        [
            row("cudaLaunchKernel", 50, running=650),
            row("cuLibraryLoadData", 5, running=600, nested=True),
            row(HOST_GAP, 50, running=200),
        ],
        (599, 601),
        ("CUDA_MODULE_LOADING", "inside its first calls"),
    ),
    UsageCase(
        "code compiled for the device",
        "cold_start",
        [row("cuModuleLoadDataEx", 2, running=2_800, longest_ms=2_000.0)],
        (900, 1_000),
        ("TORCH_CUDA_ARCH_LIST", "compiles"),
        seconds=3.0,
    ),
    UsageCase(
        "libraries read from a slow disk",
        "cold_start",
        [row("cuModuleLoad", 5, running=100, disk=500)],
        (599, 601),
        ("read from disk",),
    ),
    UsageCase(
        "a graph for every launch",
        "graph_recapture",
        [
            *(row("cudaGraphInstantiate", 10, running=300), row("cudaGraphLaunch", 10, running=1)),
            *(row("cudaStreamBeginCapture", 10, running=1), row("cudaStreamEndCapture", 10, running=20)),
            row(HOST_GAP, 40, running=200),
        ],
        (320, 322),
        ("10 graphs made per second", "cudaGraphExecUpdate"),
    ),
]

HEALTHY = {
    "nothing at all": [],
    "a trainer that is bound by the device": healthy_trainer(),
    "a trainer with many launches and one wait a step": [
        *(row("cudaLaunchKernel", 2400, running=12), row("cudaStreamSynchronize", 20, gpu=800)),
        *(row("cudaMemcpyAsync HtoD", 80, bytes_=80 * 4 * MIB, running=1.2), row(HOST_GAP, 2500, running=30)),
    ],
    "a server of small requests": [
        *(row("cudaMallocAsync", 150, running=1.3), row("cudaFreeAsync", 150, running=0.6)),
        *(
            row("cudaMemcpyAsync HtoD", 150, bytes_=150 * 16384, running=1.3),
            row("cudaLaunchKernel", 2400, running=11),
        ),
        *(row("cudaGraphLaunch", 150, running=4), row("cudaStreamSynchronize", 150, lock=300)),
        row(HOST_GAP, 3000, sleep=1600, running=12),
    ],
    "a server that launches one graph a request": [
        *(row("cudaGraphLaunch", 1000, running=25), row("cudaStreamSynchronize", 1000, gpu=600)),
        row(HOST_GAP, 2000, running=200, network=100),
    ],
    "a server of tiny requests, a few each second": [
        *(row("cudaLaunchKernel", 120, running=1), row("cudaStreamSynchronize", 60, gpu=60)),
        row(HOST_GAP, 180, network=900),
    ],
    "a notebook that allocates in its cells": [
        *(row("cudaMalloc", 8, lock=5), row("cudaFree", 8, lock=4)),
        *(
            row("cudaMemcpy HtoD", 4, bytes_=4 * 64 * MIB, running=22),
            row("cudaMemcpy DtoH", 4, bytes_=4 * 32 * MIB, running=14),
        ),
        *(row("cudaLaunchKernel", 100, running=0.7), row("cudaDeviceSynchronize", 4, gpu=80)),
    ],
    "a program that starts, and only allocates": [row("cudaMalloc", 300, lock=400)],
    "a program that ends, and only frees": [row("cudaFree", 300, lock=400)],
    "an allocator that maps its first segments": [
        row("cuMemCreate", 200, lock=90),
        row("cuMemMap", 200, lock=50),
    ],
    "copies from pinned memory that are waited for": [
        row("cudaMemcpy HtoD", 30, bytes_=30 * 64 * MIB, gpu=170),
    ],
    "copies as fast as from pinned memory": [
        row("cudaMemcpy HtoD", 30, bytes_=30 * 64 * MIB, running=160),
    ],
    "a value read after each step, spinning": [
        *(row("cudaLaunchKernel", 2000, running=10), row("cudaMemcpy DtoH", 20, bytes_=80, running=700)),
    ],
    "a result read after each step, spinning": [
        *(
            row("cudaLaunchKernel", 2000, running=10),
            row("cudaMemcpy DtoH", 20, bytes_=20 * MIB, running=700),
        ),
    ],
    "launches held up by a full queue": [
        *(row("cudaLaunchKernel", 9000, running=900), row("cudaStreamSynchronize", 1, gpu=50)),
        row(HOST_GAP, 9000, running=50),
    ],
    "many launches with work that keeps the device busy": [
        *(row("cudaLaunchKernel", 20_000, running=100), row("cudaStreamSynchronize", 20, gpu=300)),
        row(HOST_GAP, 20_000, running=600),
    ],
    "gradients reduced in buckets, with small sums beside": [
        row("ncclAllReduce", 200, bytes_=200 * 25 * MIB, running=8),
        row("ncclAllReduce", 300, bytes_=300 * 8, running=9),
        *(row("cudaLaunchKernel", 2000, running=10), row("cudaStreamSynchronize", 20, gpu=800)),
    ],
    "small collectives that wait for a late rank": [
        row("ncclAllReduce", 600, bytes_=600 * 8192, lock=500),
        *(row("cudaLaunchKernel", 2000, running=10), row("cudaStreamSynchronize", 20, gpu=400)),
    ],
    "graphs captured at start": [
        *(row("cudaGraphInstantiate", 10, running=300), row("cudaStreamEndCapture", 10, running=20)),
        row("cudaLaunchKernel", 3000, running=30),
    ],
    "graphs launched often": [
        *(row("cudaGraphInstantiate", 2, running=80), row("cudaGraphLaunch", 500, running=20)),
    ],
    "a module loaded now and then": [row("cuModuleLoadData", 2, running=30)],
}
