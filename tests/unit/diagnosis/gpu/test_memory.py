"""Tests GPU memory that leaks, and GPU memory that is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest

from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.devices.device import Device, DeviceProcess, Devices
from stalltop.model.evidence import HOST_GAP, ProcessUse
from tests.unit.diagnosis.programs import MIB, found
from tests.windows.evidence import SERVE, TRAIN, Spent, healthy_trainer, row, window


@dataclass
class _HeldMemory:
    """Describes a looping program that held ``values`` bytes of GPU memory in samples ``every`` s apart."""

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


def test_a_leak_is_found() -> None:
    (told,) = _HeldMemory(_leak(16)).found()
    assert told.cause == "memory_leak"
    assert told.pid == 100
    assert "2 MiB a second" in " ".join(link.text for link in told.links)
    assert any("NVML" in text for text in told.unknown)


def test_processes_of_a_tenant_leak_together() -> None:
    """The memory of each process grows by 8 MiB in half a minute, which is below the threshold; that of all
    six grows by 48 MiB."""
    pids = range(100, 106)
    each = [(1000.0 + 2 * at, (1 << 28) + at * MIB / 2) for at in range(17)]
    series = {("held_bytes", TRAIN, pid): each for pid in pids}
    rows = [
        spent
        for pid in pids
        for spent in (
            row("cudaLaunchKernel", 600, pid=pid, running=4),
            row(HOST_GAP, 40, pid=pid, running=90),
        )
    ]
    uses = [ProcessUse(TRAIN, pid, "train.py", allocations=10, frees=9) for pid in pids]
    made = window(rows, processes=uses, start=each[-1][0] - 1)
    assert not found(made, series=series)
    together = [(at, 6 * value) for at, value in each]
    (told,) = found(made, series={**series, ("held_bytes", TRAIN, 0): together})
    assert told.cause == "memory_leak"
    assert any("the processes of the tenant together" in link.text for link in told.links)


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


def test_a_leak_says_when_the_device_will_be_full() -> None:
    device = Device(
        1,
        "GPU-1",
        "H100",
        memory_used_bytes=79 << 30,
        memory_total_bytes=80 << 30,
        processes=(DeviceProcess(100, "C", 40 << 30, TRAIN),),
    )
    (told,) = _HeldMemory(_leak(16), devices=Devices((device,))).found()
    assert "GPU 1 has 1 GiB left: full in 510 s" in " ".join(link.text for link in told.links)
    assert told.unknown == ()


def test_a_leak_below_allocations_and_frees_is_found() -> None:
    swinging = [value + (at % 3) * 50 * MIB for at, value in enumerate(_leak(70))]
    (told,) = _HeldMemory(swinging).found()
    assert told.cause == "memory_leak"


def test_a_slow_leak_is_found_after_minutes() -> None:
    steps = [(1 << 30) + at // 8 * 8 * MIB for at in range(70)]
    assert _HeldMemory(steps[:30]).found() == []
    (told,) = _HeldMemory(steps).found()
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
        *("next to nothing", "shrinks", "sawtooth", "a cache that fills up"),
    ],
)
def test_other_growth_of_memory_is_no_leak(values: Sequence[float]) -> None:
    assert (_HeldMemory(values).found() if values else found(window(healthy_trainer()))) == []


def test_loading_a_model_is_no_leak() -> None:
    loads = [
        *(row("cudaMalloc", 20, lock=5), row("cudaLaunchKernel", 30, running=1)),
        row("cudaMemcpyAsync HtoD", 20, bytes_=80 * MIB, running=9),
    ]
    use = ProcessUse(TRAIN, 100, "train.py", allocations=20, allocated_bytes=80 * MIB)
    assert _HeldMemory(_leak(16), rows=loads, use=use).found() == []


def test_a_program_without_launches_has_no_leak() -> None:
    assert _HeldMemory(_leak(16), rows=[row("cudaMalloc", 20, lock=5)]).found() == []


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


def test_a_full_device_names_the_holders_of_its_memory() -> None:
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
    ids=["full, and nobody allocates", "allocations work", "one slow allocation", "a tenth is free"],
)
def test_a_full_device_without_failed_allocations_is_no_fault(used: float, allocations: list[Spent]) -> None:
    devices = _full_device(used, DeviceProcess(100, "C", 10 << 30, TRAIN))
    assert found(window([*healthy_trainer(), *allocations], devices=devices)) == []
