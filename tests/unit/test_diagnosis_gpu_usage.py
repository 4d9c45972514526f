"""Causes that lie in how a program uses the GPU: each is found in a window that shows it, and in no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.causes import CAUSES
from diagnosis.engine import Diagnosis
from diagnosis.facts import Facts
from diagnosis.gpu.causes import gpu_causes
from diagnosis.gpu.usage import duration, figure, size
from diagnosis.series import Series
from diagnosis.suspicion import Suspicion
from model.device import Device, DeviceProcess, Devices
from model.evidence import HOST_GAP, ProcessUse
from model.histograms import Histograms
from model.window import SPLITS, OpenCall, RowKey, Rows, Window
from probes.operations import OPERATIONS
from tests.unit.evidence_windows import SERVE, TRAIN, Spent, healthy_trainer, row, window
from tests.unit.windows import random_devices, random_evidence

MIB = 1 << 20


def found(
    made: Window,
    *,
    series: Mapping[tuple[str, str, int], Sequence[tuple[float, float]]] | None = None,
    normal: Mapping[RowKey, tuple[int, int]] | None = None,
) -> list[Suspicion]:
    """Faults that are found in a window, the largest loss first."""
    facts = Facts(made, series=series or {}, normal=normal)
    faults = [suspicion for suspicion in gpu_causes(facts) if CAUSES[suspicion.cause].fault]
    return sorted(faults, key=lambda suspicion: -suspicion.lost_ns_per_s)


@dataclass(frozen=True)
class Case:
    """A program, and the only cause that is to be told of it."""

    name: str
    cause: str
    rows: list[Spent]
    lost_ms: tuple[float, float]
    """Bounds of the loss, ms a second."""
    says: tuple[str, ...] = ()
    """Words of its links or fixes."""
    seconds: float = 1.0


ILL = [
    Case(
        "memory allocated in each step",
        "allocation_storm",
        [
            *(row("cudaMalloc", 40, lock=90, bytes_=40 * MIB), row("cudaFree", 40, gpu=150)),
            *(row("cudaLaunchKernel", 400, running=3), row(HOST_GAP, 480, sleep=600, running=100)),
        ],
        (239, 241),
        ("40 times a second", "cudaMallocAsync", "caching allocator"),
    ),
    Case(
        "a pool that gives its memory back",
        "allocation_storm",
        [
            *(row("cudaMallocAsync", 100, running=120), row("cudaFreeAsync", 100, running=2)),
            *(row("cudaLaunchKernel", 400, running=3), row("cudaStreamSynchronize", 20, gpu=600)),
        ],
        (121, 123),
        ("cudaMemPoolAttrReleaseThreshold",),
    ),
    Case(
        "buffers pinned in each step",
        "allocation_storm",
        [
            *(row("cudaHostAlloc", 20, running=100), row("cudaFreeHost", 20, running=60)),
            row("cudaLaunchKernel", 400, running=3),
        ],
        (159, 161),
        ("pinned buffers",),
    ),
    Case(
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
    Case(
        "asynchronous copies that a thread makes itself",
        "pageable_copies",
        [
            row("cudaMemcpyAsync HtoD", 30, bytes_=30 * 16 * MIB, running=150),
            *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 30, gpu=500)),
        ],
        (149, 150),
        ("pin_memory=True", "cudaHostAlloc"),
    ),
    Case(
        "batches copied from pageable memory, waiting",
        "pageable_copies",
        [
            row("cudaMemcpy HtoD", 30, bytes_=30 * 16 * MIB, running=150),
            *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 30, gpu=500)),
        ],
        (105, 110),
        ("pin_memory=True",),
    ),
    Case(
        "thousands of copies of 256 bytes",
        "small_copies",
        [
            row("cudaMemcpyAsync HtoD", 9000, bytes_=9000 * 256, running=60),
            *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 30, gpu=500)),
        ],
        (59, 60),
        ("9,000 copies a second",),
    ),
    Case(
        "a wait after each kernel",
        "sync_storm",
        [
            *(row("cudaLaunchKernel", 4000, running=20), row("cudaDeviceSynchronize", 4000, running=500)),
            row(HOST_GAP, 8000, running=400),
        ],
        (419, 421),
        ("4,000 waits a second", "CUDA_LAUNCH_BLOCKING"),
    ),
    Case(
        "a wait after each kernel, where gaps were not measured",
        "sync_storm",
        [row("cuLaunchKernel", 6000, running=30), row("cuStreamSynchronize", 6000, gpu=800)],
        (59, 61),
    ),
    Case(
        "a value read after each kernel",
        "sync_storm",
        [
            *(row("cudaLaunchKernel", 2000, running=10), row("cudaMemcpy DtoH", 2000, bytes_=8000, gpu=300)),
            row(HOST_GAP, 4000, running=500),
        ],
        (299, 301),
        (".item()",),
    ),
    Case(
        "tiny kernels",
        "launch_bound",
        [
            *(row("cudaLaunchKernel", 40_000, running=200), row("cudaStreamSynchronize", 10, gpu=20)),
            row(HOST_GAP, 40_000, running=700),
        ],
        (199, 201),
        ("torch.compile", "40,000 launches a second"),
    ),
    Case(
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
    Case(
        "code compiled for the device",
        "cold_start",
        [row("cuModuleLoadDataEx", 2, running=2_800, longest_ms=2_000.0)],
        (900, 1_000),
        ("TORCH_CUDA_ARCH_LIST", "compiles"),
        seconds=3.0,
    ),
    Case(
        "libraries read from a slow disk",
        "cold_start",
        [row("cuModuleLoad", 5, running=100, disk=500)],
        (599, 601),
        ("read from disk",),
    ),
    Case(
        "a graph for every launch",
        "graph_recapture",
        [
            *(row("cudaGraphInstantiate", 10, running=300), row("cudaGraphLaunch", 10, running=1)),
            *(row("cudaStreamBeginCapture", 10, running=1), row("cudaStreamEndCapture", 10, running=20)),
            row(HOST_GAP, 40, running=200),
        ],
        (320, 322),
        ("10 graphs made a second", "cudaGraphExecUpdate"),
    ),
]


@pytest.mark.parametrize("case", ILL, ids=lambda case: case.name)
def test_a_cause_is_told_and_no_other(case: Case) -> None:
    (told,) = found(window(case.rows, seconds=case.seconds))
    assert told.cause == case.cause
    assert case.lost_ms[0] <= told.lost_ns_per_s / 1e6 <= case.lost_ms[1]
    assert (told.tenant, told.pid, told.process) == (TRAIN, 100, "train.py")
    (culprit,) = [link for link in told.links if link.role == "culprit"]
    assert (culprit.tenant, culprit.pid) == (TRAIN, 100)
    assert told.links[0].role == "effect"
    assert told.links[0].depth == 0
    assert told.effect in told.rows
    assert told.share is not None
    assert 0 < told.share <= 1
    text = " ".join([*(link.text for link in told.links), *(fix.text + fix.command for fix in told.fixes)])
    for words in case.says:
        assert words in text
    for link in told.links:
        assert link.share is None or 0 <= link.share <= 1


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
    "graphs captured at start": [
        *(row("cudaGraphInstantiate", 10, running=300), row("cudaStreamEndCapture", 10, running=20)),
        row("cudaLaunchKernel", 3000, running=30),
    ],
    "graphs launched often": [
        *(row("cudaGraphInstantiate", 2, running=80), row("cudaGraphLaunch", 500, running=20)),
    ],
    "a module loaded now and then": [row("cuModuleLoadData", 2, running=30)],
}


@pytest.mark.parametrize("rows", HEALTHY.values(), ids=HEALTHY.keys())
def test_look_alikes_are_quiet(rows: list[Spent]) -> None:
    assert found(window(rows)) == []


@pytest.mark.parametrize("case", ILL, ids=lambda case: case.name)
def test_a_hundredth_of_it_is_not_worth_a_word(case: Case) -> None:
    few = [
        one._replace(
            calls=max(one.calls // 100, 1),
            bytes=one.bytes // 100,
            longest_ms=None,
            split_ms={part: ms / 100 for part, ms in one.split_ms.items()},
        )
        for one in case.rows
    ]
    assert found(window(few, seconds=case.seconds)) == []


def test_waiting_for_the_device_is_no_fault() -> None:
    told = list(gpu_causes(Facts(window(healthy_trainer()))))
    assert [suspicion.cause for suspicion in told] == ["gpu_bound"]
    assert told[0].lost_ns_per_s == pytest.approx(710e6)


def test_waiting_for_a_cpu_is_not_waiting_for_the_device() -> None:
    rows = [row("cudaLaunchKernel", 500, running=3), row("cudaStreamSynchronize", 20, gpu=500, runqueue=300)]
    assert list(gpu_causes(Facts(window(rows)))) == []


def test_a_fault_is_told_instead_of_being_bound() -> None:
    rows = [*healthy_trainer(), row("cudaMalloc", 40, lock=90), row("cudaFree", 40, lock=90)]
    assert [suspicion.cause for suspicion in gpu_causes(Facts(window(rows)))] == ["allocation_storm"]


def test_a_call_that_began_long_ago_brings_no_time_from_before() -> None:
    (told,) = found(window([row("cuModuleLoadData", 1, running=40_000)]))
    assert told.lost_ns_per_s == pytest.approx(1e9)


def test_each_program_is_told_for_itself() -> None:
    rows = [
        *(row("cudaMalloc", 40, lock=90), row("cudaFree", 40, lock=90)),
        *(
            row(
                "cudaMemcpyAsync HtoD", 9000, bytes_=9000, running=90, tenant=SERVE, pid=7, program="serve.py"
            ),
            row("cudaLaunchKernel", 10, running=1, tenant=SERVE, pid=7, program="serve.py"),
        ),
    ]
    told = {(suspicion.cause, suspicion.tenant, suspicion.pid) for suspicion in found(window(rows))}
    assert told == {("allocation_storm", TRAIN, 100), ("small_copies", SERVE, 7)}


# Over time


@dataclass
class _Held:
    """Windows of a looping program whose held memory goes as ``bytes_at`` says."""

    values: Sequence[float]
    every: float = 2.0
    rows: list[Spent] = field(default_factory=healthy_trainer)
    devices: Devices = field(default_factory=Devices)
    use: ProcessUse = field(
        default_factory=lambda: ProcessUse(TRAIN, 100, "train.py", allocations=10, frees=9)
    )

    def found(self) -> list[Suspicion]:
        points = [(1000 + at * self.every, value) for at, value in zip(count(), self.values, strict=False)]
        made = window(self.rows, processes=[self.use], devices=self.devices, start=points[-1][0] - 1)
        return found(made, series={("held_bytes", TRAIN, 100): points})


def _leak(points: int, step: float = 4 * MIB, start: float = 1 << 30) -> list[float]:
    return [start + at * step for at in range(points)]


def test_a_leak_is_told() -> None:
    (told,) = _Held(_leak(16)).found()
    assert told.cause == "memory_leak"
    assert told.pid == 100
    assert "2 MiB a second" in " ".join(link.text for link in told.links)
    assert any("NVML" in text for text in told.unknown)


def test_a_leak_opens_a_chain_of_its_own() -> None:
    diagnosis = Diagnosis()
    opened = None
    for at in range(40):
        use = ProcessUse(TRAIN, 100, "train.py", allocations=10, frees=9, held_bytes=(1 << 30) + at * 4 * MIB)
        made = diagnosis.add(window(healthy_trainer(), processes=[use], start=1000.0 + at))
        if opened is None and any(chain.cause == "memory_leak" for chain in made.chains):
            opened = at
    assert opened is not None
    assert 19 <= opened <= 30


def test_a_leak_says_when_the_device_is_full() -> None:
    device = Device(
        1,
        "GPU-1",
        "H100",
        memory_used_bytes=79 << 30,
        memory_total_bytes=80 << 30,
        processes=(DeviceProcess(100, "C", 40 << 30, TRAIN),),
    )
    (told,) = _Held(_leak(16), devices=Devices((device,))).found()
    assert "GPU 1 has 1 GiB left: full in 510 s" in " ".join(link.text for link in told.links)
    assert told.unknown == ()


def test_a_leak_under_a_loop_that_allocates_and_frees() -> None:
    swinging = [value + (at % 3) * 50 * MIB for at, value in enumerate(_leak(70))]
    (told,) = _Held(swinging).found()
    assert told.cause == "memory_leak"


def test_a_slow_leak_is_told_after_minutes() -> None:
    steps = [(1 << 30) + at // 8 * 8 * MIB for at in range(70)]
    assert _Held(steps[:30]).found() == []
    (told,) = _Held(steps).found()
    assert told.cause == "memory_leak"


@pytest.mark.parametrize(
    "values",
    [
        [],
        _leak(4),
        _leak(9),
        [1 << 30] * 200,
        [*_leak(10, 500 * MIB), *([5 << 30] * 15)],
        [min(value, 2 << 30) for value in _leak(60, 64 * MIB)],
        _leak(16, 1 << 16),
        _leak(16, -4 * MIB),
        [float((1 << 30) + (at % 5) * 100 * MIB) for at in range(100)],
        [(1 << 30) * (2 - 0.9**at) for at in range(100)],
    ],
    ids=[
        *("no points", "few points", "too short", "flat", "start, then flat", "grows to a limit"),
        *("next to nothing", "shrinks", "a saw", "a cache that fills up"),
    ],
)
def test_what_is_no_leak(values: Sequence[float]) -> None:
    assert (_Held(values).found() if values else found(window(healthy_trainer()))) == []


def test_loading_a_model_is_no_leak() -> None:
    loads = [
        *(row("cudaMalloc", 20, lock=5), row("cudaLaunchKernel", 30, running=1)),
        row("cudaMemcpyAsync HtoD", 20, bytes_=80 * MIB, running=9),
    ]
    use = ProcessUse(TRAIN, 100, "train.py", allocations=20, allocated_bytes=80 * MIB)
    assert _Held(_leak(16), rows=loads, use=use).found() == []


def test_a_program_that_does_not_work_yet_has_no_leak() -> None:
    assert _Held(_leak(16), rows=[row("cudaMalloc", 20, lock=5)]).found() == []


def _graphs_over(seconds: int, launch: bool = False) -> list[Suspicion]:
    series = Series()
    for at in range(seconds):
        rows = [row("cudaLaunchKernel", 100, running=1), row("cudaStreamSynchronize", 10, gpu=100)]
        if at < 3:
            rows.append(row("cudaGraphInstantiate", 4, running=8))
        if launch and at == 5:
            rows.append(row("cudaGraphLaunch", 1, running=1))
        made = window(rows, start=1000.0 + at)
        series.add(made)
    return found(made, series=series.points)


def test_graphs_that_are_never_launched() -> None:
    (told,) = _graphs_over(70)
    assert told.cause == "graph_unlaunched"
    assert told.links[1].text.startswith("12 graphs made, none launched")


def test_graphs_that_may_yet_be_launched() -> None:
    assert _graphs_over(30) == []


def test_graphs_that_were_launched() -> None:
    assert _graphs_over(70, launch=True) == []


# Memory that is full


def _full_device(used: float, *processes: DeviceProcess) -> Devices:
    return Devices(
        (
            Device(
                0,
                "GPU-0",
                "H100",
                memory_used_bytes=int(used * (80 << 30)),
                memory_total_bytes=80 << 30,
                processes=processes,
            ),
        )
    )


def test_a_full_device_names_who_holds_it() -> None:
    devices = _full_device(
        0.99, DeviceProcess(100, "C", 10 << 30, TRAIN), DeviceProcess(9, "C", 69 << 30, SERVE)
    )
    (told,) = found(window([*healthy_trainer(), row("cudaMalloc", 4, errors=2, lock=4)], devices=devices))
    assert told.cause == "gpu_memory_full"
    assert "2 of 4 allocations failed" in told.summary
    assert [link.tenant for link in told.links if link.role == "culprit"] == [SERVE, TRAIN]


@pytest.mark.parametrize(
    ("used", "allocations"),
    [
        (0.99, []),
        (0.99, [row("cudaMalloc", 4, lock=4)]),
        (0.99, [row("cudaMalloc", 1, lock=30)]),
        (0.90, [row("cudaMalloc", 4, errors=2, lock=4)]),
    ],
    ids=["full, and nobody allocates", "allocations work", "one slow allocation", "asks for too much"],
)
def test_a_device_that_is_full_and_well(used: float, allocations: list[Spent]) -> None:
    devices = _full_device(used, DeviceProcess(100, "C", 10 << 30, TRAIN))
    assert found(window([*healthy_trainer(), *allocations], devices=devices)) == []


# Whatever comes in


_NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 100_000), st.integers(0, 1 << 40))


@st.composite
def _random_windows(draw: st.DrawFn) -> Window:
    keys = draw(
        st.lists(
            st.builds(
                lambda info, pid, nested: RowKey(
                    "gpu7", f"docker:{pid % 2}", pid, "p", info.layer, info.name, nested
                ),
                st.sampled_from(OPERATIONS),
                st.integers(1, 3),
                st.booleans(),
            ),
            unique=True,
            max_size=12,
        )
    )
    n = len(keys)

    def column() -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array(draw(st.lists(_NUMBERS, min_size=n, max_size=n)), np.uint64)

    split = np.zeros((n, len(SPLITS)), np.uint64)
    for part in range(len(SPLITS)):
        split[:, part] = column()
    rows = Rows(
        keys=tuple(keys),
        calls=column(),
        errors=column(),
        bytes=column(),
        total_ns=split.sum(axis=1).astype(np.uint64),
        max_ns=column(),
        histograms=Histograms.empty(n),
        split_ns=split if draw(st.booleans()) else None,
    )
    seed = draw(st.integers(0, 1 << 32))
    users = tuple(DeviceProcess(pid, "C", None, f"docker:{pid % 2}") for pid in (1, 2, 3))
    devices = tuple(replace(device, processes=users) for device in random_devices(seed).devices)
    return Window(
        1000.0,
        draw(st.sampled_from([0.0, 1.0, 3.0])),
        "gpu7",
        rows,
        evidence=random_evidence(seed),
        devices=Devices(devices),
        open_calls=tuple(
            OpenCall("docker:1", pid, pid, "p", "nccl", "ncclAllReduce", age)
            for pid, age in draw(st.lists(st.tuples(st.integers(1, 3), _NUMBERS), max_size=3))
        ),
    )


@given(_random_windows(), st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e12)), max_size=20))
@settings(max_examples=150, deadline=None)
def test_no_window_makes_it_fail(made: Window, points: list[tuple[float, float]]) -> None:
    kept = ("held_bytes", "graphs_made", "graphs_launched", "kernels_per_s", "device_wait_ns")
    series = {(what, f"docker:{pid % 2}", pid): sorted(points) for what in kept for pid in (1, 2, 3)}
    facts = Facts(made, series=series)
    told = list(gpu_causes(facts))
    assert told == list(gpu_causes(facts))
    for suspicion in told:
        assert suspicion.cause in CAUSES
        assert suspicion.lost_ns_per_s >= 0
        assert 0 <= suspicion.confidence <= 1
        assert suspicion.share is None or 0 <= suspicion.share <= 1
        assert suspicion.links[0].depth == 0
        assert all(link.share is None or 0 <= link.share <= 1 for link in suspicion.links)


@pytest.mark.parametrize(
    ("given_", "words"),
    [(0.42, "0.4"), (3.0, "3"), (9.97, "10"), (12.4, "12"), (87, "87"), (5234, "5,200"), (99_999, "100,000")],
)
def test_figures(given_: float, words: str) -> None:
    assert figure(given_) == words


def test_sizes_and_durations() -> None:
    assert [size(value) for value in (17, 16384, 5 << 20, 3 << 40)] == [
        "17 B",
        "16 KiB",
        "5 MiB",
        "3,100 GiB",
    ]
    assert [duration(ns) for ns in (800, 35_000, 1.5e6, 12e9)] == ["800 ns", "35 us", "1.5 ms", "12 s"]
