"""Tests causes in the GPU itself, such as lowered clocks and errors, and in the other tenants on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stalltop.diagnosis.blame import Blame
from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.causes import gpu_causes
from stalltop.diagnosis.gpu.xids import XIDS
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.normals import KNOWN_WINDOWS, Normals
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.chain import Link
from stalltop.model.devices.device import Device, DeviceProcess, Devices, MigInstance
from stalltop.model.evidence import HOST_GAP
from stalltop.probes.nvml.readings import THROTTLE_REASONS
from tests.unit.diagnosis.programs import found
from tests.windows.evidence import BATCH, SERVE, TRAIN, Spent, healthy_trainer, row, window

WELL = Device(
    2,
    "GPU-aa",
    "H100",
    utilization_percent=97.0,
    memory_used_bytes=60 << 30,
    memory_total_bytes=80 << 30,
    power_watts=640.0,
    power_limit_watts=700.0,
    temperature_celsius=66.0,
    sm_clock_mhz=1965,
    sm_clock_max_mhz=1980,
    processes=(DeviceProcess(100, "C", 60 << 30, TRAIN),),
    pcie_generation=5,
    pcie_generation_max=5,
    pcie_width=16,
    pcie_width_max=16,
    remap_pending=False,
    pcie_replays=0,
    ecc_corrected=0,
    ecc_uncorrected=0,
    power_held_ns=0,
    thermal_held_ns=0,
)
SYNCED_MS = 710.0
"""Time that ``healthy_trainer`` waits for the device each second."""


def told_of(*devices: Device, rows: list[Spent] | None = None) -> list[Suspicion]:
    return found(window(healthy_trainer() if rows is None else rows, devices=Devices(devices)))


@dataclass(frozen=True)
class DeviceCase:
    """Describes a faulty device, and the cause to be found."""

    name: str
    cause: str
    shows: dict[str, Any]
    lost_ms: float = 0.0
    says: tuple[str, ...] = ()


CASES = [
    DeviceCase(
        "power cap",
        "gpu_power",
        {"throttle_reasons": ("power cap",), "sm_clock_mhz": 1485, "power_watts": 699.0},
        SYNCED_MS * 0.25,
        ("nvidia-smi -i 2 -pl", "1485 of 1980 MHz", "700 of 700 W"),
    ),
    DeviceCase(
        "power cap, counted by the driver",
        "gpu_power",
        {"power_held_ns": 500_000_000, "sm_clock_mhz": 1485},
        SYNCED_MS * 0.25 * 0.5,
        ("50% of the time",),
    ),
    DeviceCase(
        "heat, by software",
        "gpu_thermal",
        {"throttle_reasons": ("thermal, software",), "sm_clock_mhz": 990, "temperature_celsius": 88.0},
        SYNCED_MS * 0.5,
        ("88 C", "fans"),
    ),
    DeviceCase(
        "heat, with the general reason beside it",
        "gpu_thermal",
        {"throttle_reasons": ("hardware slowdown", "thermal, hardware"), "sm_clock_mhz": 990},
        SYNCED_MS * 0.5,
    ),
    DeviceCase(
        "heat, counted for each way that it slows down",
        "gpu_thermal",
        {"thermal_held_ns": 0, "hardware_thermal_held_ns": 500_000_000, "sm_clock_mhz": 990},
        SYNCED_MS * 0.5 * 0.5,
        ("50% of the time",),
    ),
    DeviceCase(
        "power brake, between two looks",
        "gpu_hardware_slowdown",
        {"power_brake_held_ns": 500_000_000, "sm_clock_mhz": 990},
        SYNCED_MS * 0.5 * 0.5,
        ("50% of the time",),
    ),
    DeviceCase("heat, clocks unknown", "gpu_thermal", {"thermal_held_ns": 900_000_000, "sm_clock_mhz": None}),
    DeviceCase(
        "power brake",
        "gpu_hardware_slowdown",
        {"throttle_reasons": ("hardware slowdown", "power brake"), "sm_clock_mhz": 495},
        SYNCED_MS * 0.75,
        ("power supply",),
    ),
    DeviceCase(
        "clocks locked low",
        "gpu_clocks",
        {"sm_clock_mhz": 990},
        SYNCED_MS * 0.5,
        ("--reset-gpu-clocks", "no reason"),
    ),
    DeviceCase("uncorrected errors", "gpu_ecc", {"ecc_uncorrected": 1}, says=("--gpu-reset", "-q -d ECC")),
    DeviceCase("many corrected errors", "gpu_ecc", {"ecc_corrected": 400}, says=("corrected errors: 400",)),
    DeviceCase(
        "a row that could not be replaced",
        "gpu_ecc",
        {"remap_failed": True},
        says=("could not be replaced", "have the card replaced"),
    ),
    DeviceCase(
        "pages to be retired",
        "gpu_ecc",
        {"retirement_pending": True},
        says=("pages of memory will be taken out of use at the next reset", "--gpu-reset"),
    ),
    DeviceCase("rows to be replaced", "gpu_ecc", {"remap_pending": True}, says=("rows of memory",)),
    DeviceCase("fell off the bus", "gpu_xid", {"xids": (79,)}, says=("XID 79", "fell off the bus", "dmesg")),
    DeviceCase("an XID that nobody knows", "gpu_xid", {"xids": (999,)}, says=("XID 999", "NVIDIA's list")),
    DeviceCase(
        "lost", "gpu_lost", {"lost": True, "utilization_percent": None}, 1000.0, ("no longer answers",)
    ),
    DeviceCase(
        "half the lanes",
        "pcie_link",
        {"pcie_width": 8},
        says=("PCIe 5.0 x8 instead of 5.0 x16", "pcie.link.width.current", "32 GB/s instead of 63"),
    ),
    DeviceCase("a lower generation", "pcie_link", {"pcie_generation": 3}, says=("PCIe 3.0 x16",)),
    DeviceCase("replays", "pcie_replays", {"pcie_replays": 40}, says=("40 replays since",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_faulty_device_has_exactly_its_cause(case: DeviceCase) -> None:
    (told,) = told_of(replace(WELL, **case.shows))
    assert told.cause == case.cause
    assert told.tenant == TRAIN
    assert told.about.startswith("GPU 2")
    assert told.lost_ns_per_s / 1e6 == pytest.approx(case.lost_ms, rel=0.02)
    (culprit,) = [link for link in told.links if link.role == "culprit"]
    assert culprit.device == "GPU 2"
    text = " ".join(
        [
            *(link.text for link in told.links),
            *(fix.text + fix.command for fix in told.fixes),
            *(told.summary, *told.unknown),
        ]
    )
    for words in case.says:
        assert words in text
    for fix in told.fixes:
        # A command has no placeholders such as PID; ``look`` is set if the command changes nothing.
        assert not re.search(r"\b(WATTS|CPUS|PID)\b", fix.command)
        changes = any(option in fix.command for option in ("--gpu-reset", "--reset-", " -pl "))
        assert not fix.command or fix.look != changes


@pytest.mark.parametrize(
    "shows",
    [
        {},
        {"throttle_reasons": ("power cap",)},
        {"throttle_reasons": ("power cap",), "sm_clock_mhz": None},
        {"power_held_ns": 50_000_000, "sm_clock_mhz": 1485},
        {"sm_clock_mhz": 1700},
        {"sm_clock_mhz": 345, "utilization_percent": 0.0},
        {"sm_clock_mhz": 345, "utilization_percent": 30.0},
        {"ecc_corrected": 1},
        {"pcie_generation": 1, "utilization_percent": 3.0},
        {"pcie_generation": None},
        {"pcie_width": 0},
        {"pcie_replays": 12},
        dict.fromkeys(
            (
                *("utilization_percent", "sm_clock_mhz", "sm_clock_max_mhz", "pcie_width", "remap_pending"),
                *("pcie_replays", "ecc_corrected", "ecc_uncorrected", "power_held_ns", "thermal_held_ns"),
            )
        ),
    ],
)
def test_devices_that_only_look_faulty_have_no_cause(shows: dict[str, Any]) -> None:
    assert told_of(replace(WELL, **shows)) == []


def test_an_idle_host_has_no_throttled_devices() -> None:
    assert (
        told_of(replace(WELL, utilization_percent=0.0, throttle_reasons=("power cap",), sm_clock_mhz=345))
        == []
    )


def test_every_throttle_reason_belongs_to_a_cause() -> None:
    for _, reason in THROTTLE_REASONS:
        told = told_of(replace(WELL, throttle_reasons=(reason,), sm_clock_mhz=990))
        assert len(told) == (0 if reason == "sync boost" else 1), reason


def test_only_the_faulty_device_is_reported() -> None:
    other = replace(WELL, index=0, uuid="GPU-bb", processes=(DeviceProcess(7, "C", 1 << 30, SERVE),))
    (told,) = told_of(other, replace(WELL, xids=(31,)))
    assert told.about == "GPU 2/31"


def test_a_device_of_several_tenants_has_one_fault() -> None:
    """The fault belongs to the device, not to a tenant, whichever of the tenants loses most."""
    shared = replace(WELL, throttle_reasons=("power cap",), sm_clock_mhz=990)
    shared = replace(shared, processes=(*shared.processes, DeviceProcess(7, "C", 1 << 30, SERVE)))
    for waited in (100, 900):
        rows = [
            *healthy_trainer(),
            row(SYNC, 20, gpu=waited, tenant=SERVE, pid=7, program="serve.py"),
        ]
        (told,) = told_of(shared, rows=rows)
        assert (told.cause, told.tenant, told.about) == ("gpu_power", "", "GPU 2")
        assert told.pid == (7 if waited == 900 else 100)


def test_a_device_without_listed_processes_has_no_tenant() -> None:
    (told,) = told_of(replace(WELL, processes=(), throttle_reasons=("power cap",), sm_clock_mhz=990))
    assert told.tenant == ""
    assert told.pid == 100


def test_a_device_without_traced_processes_is_reported_without_a_tenant() -> None:
    (told,) = told_of(replace(WELL, processes=(DeviceProcess(5, "C", 1, ""),), ecc_uncorrected=1))
    assert told.tenant == ""
    assert told.effect is None


def test_a_program_is_blamed_only_for_xids_of_programs() -> None:
    for code, xid in XIDS.items():
        (told,) = told_of(replace(WELL, xids=(code,)))
        (culprit,) = [link for link in told.links if link.role == "culprit"]
        assert culprit.pid == (100 if xid.program else 0)


def test_slow_copies_lose_the_time_that_the_link_costs() -> None:
    rows = [row("cudaMemcpy HtoD", 30, bytes_=30 << 26, gpu=400), row("cudaLaunchKernel", 100, running=1)]
    (told,) = told_of(replace(WELL, pcie_width=4), rows=rows)
    assert told.lost_ns_per_s == pytest.approx(300e6)
    assert told.effect is not None
    assert told.effect.operation == "cudaMemcpy HtoD"


Points = Sequence[tuple[float, float]]
SYNC = "cudaStreamSynchronize"
SHARED = replace(
    WELL,
    processes=(DeviceProcess(100, "C", 1 << 30, TRAIN), DeviceProcess(7, "C", 1 << 30, BATCH)),
)


def _rows(sync: Spent, neighbour_launches: int = 5000) -> list[Spent]:
    return [
        *(row("cudaLaunchKernel", 1000, running=8), sync, row(HOST_GAP, 1020, running=200)),
        row("cudaLaunchKernel", neighbour_launches, running=50, tenant=BATCH, pid=7, program="batch.py"),
    ]


def _watched(
    neighbour_before: float | None = None, seconds: int = 60, wait_ms: float | None = 8.0
) -> dict[tuple[str, str, int], Points]:
    """Returns a sample every 2 s, from ``seconds`` ago until about 5 s ago. In each the trainer waits for the
    device for ``wait_ms``, and its neighbour launches ``neighbour_before`` CUDA kernels a second. A figure
    that is None has no samples."""
    times = [1001.0 - ago for ago in range(seconds, 4, -2)]
    series: dict[tuple[str, str, int], Points]
    series = {("kernels_per_s", TRAIN, 100): [(time, 1000.0) for time in times]}
    if wait_ms is not None:
        series["device_wait_ns", TRAIN, 100] = [(time, wait_ms * 1e6) for time in times]
    if neighbour_before is not None:
        series["kernels_per_s", BATCH, 7] = [(time, neighbour_before) for time in times]
    return series


def _neighbours(
    sync: Spent,
    device: Device = SHARED,
    wait_ms: float | None = 8.0,
    neighbour_launches: int = 5000,
    before: float | None = None,
    seconds: int = 60,
) -> list[Suspicion]:
    made = window(_rows(sync, neighbour_launches), devices=Devices((device,)))
    return found(made, series=_watched(before, seconds, wait_ms))


def test_a_new_neighbour_on_the_device_is_named() -> None:
    (told,) = _neighbours(row(SYNC, 40, gpu=700))
    assert told.cause == "gpu_neighbours"
    assert told.tenant == TRAIN
    (culprit,) = [link for link in told.links if link.role == "culprit"]
    assert (culprit.tenant, culprit.pid) == (BATCH, 7)
    assert told.lost_ns_per_s == pytest.approx(40 * (17.5e6 - 8e6), rel=0.02)
    assert any("driver does not report it" in text for text in told.unknown)
    assert "time-sliced" in told.links[1].text


def test_the_first_of_equal_neighbours_stays_first_and_many_are_named_together() -> None:
    pids = range(7, 12)
    users = (SHARED.processes[0], *(DeviceProcess(pid, "C", 1 << 30, BATCH) for pid in pids))
    launching = {pid: 5000 + pid for pid in pids}
    rows = [row("cudaLaunchKernel", launching[pid], running=50, tenant=BATCH, pid=pid) for pid in pids]
    made = window(
        [*_rows(row(SYNC, 40, gpu=700))[:-1], *rows], devices=Devices((replace(SHARED, processes=users),))
    )

    def culprits(first: Who | None) -> list[Link]:
        blamed = {("gpu_neighbours", TRAIN, f"GPU {SHARED.index}"): Blame(first)}
        (told,) = found(made, series=_watched(), blamed=blamed)
        return [link for link in told.links if link.role == "culprit"]

    *_, others = named = culprits(None)
    assert [link.pid for link in named] == [11, 10, 9, 0]
    assert (others.text, others.of_others) == ("others, 2 processes", True)
    assert [link.pid for link in culprits(Who(BATCH, 8, "train.py"))] == [8, 11, 10, 0]


def test_mps_clients_are_called_mps_clients() -> None:
    mps = replace(SHARED, processes=tuple(replace(process, kind="M+C") for process in SHARED.processes))
    (told,) = _neighbours(row(SYNC, 40, gpu=700), mps)
    assert "MPS" in told.links[1].text
    assert any("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in fix.text for fix in told.fixes)


@pytest.mark.parametrize(("apart", "told"), [(False, ["GPU 3:1"]), (True, [])])
def test_only_processes_on_one_mig_instance_are_neighbours(apart: bool, told: list[str]) -> None:
    first, second = SHARED.processes[:1], SHARED.processes[1:]
    instances = (
        MigInstance(3, 1, "MIG-1", processes=first if apart else SHARED.processes),
        MigInstance(3, 2, "MIG-2", processes=second if apart else ()),
    )
    divided = replace(SHARED, mig=True, instances=instances)
    assert [one.links[1].device for one in _neighbours(row(SYNC, 40, gpu=700), divided)] == told


def test_a_neighbour_that_starts_opens_a_chain() -> None:
    diagnosis = Diagnosis()
    opened = None
    for at in range(40):
        shared = at >= 30
        rows = _rows(row(SYNC, 40, gpu=700 if shared else 320), 5000 if shared else 10)
        made = diagnosis.add(window(rows, devices=Devices((SHARED,)), start=1000.0 + at))
        if opened is None and any(chain.cause == "gpu_neighbours" for chain in made.chains):
            opened = at
    assert opened is not None
    assert 30 <= opened <= 32


@pytest.mark.parametrize(
    ("sync", "changes"),
    [
        (row(SYNC, 40, gpu=700), {"wait_ms": None}),
        (row(SYNC, 40, gpu=700), {"wait_ms": 15.0}),
        (row(SYNC, 40, gpu=700), {"neighbour_launches": 0}),
        (row(SYNC, 40, gpu=330, runqueue=370), {}),
        (row(SYNC, 5, gpu=100), {}),
        (row(SYNC, 40, gpu=700), {"device": WELL}),
        (
            row(SYNC, 40, gpu=700),
            {"device": replace(SHARED, processes=tuple(replace(one, kind="G") for one in SHARED.processes))},
        ),
        (row(SYNC, 40, gpu=700), {"before": 4800.0}),
        (row(SYNC, 40, gpu=700), {"seconds": 16}),
    ],
    ids=[
        *(
            "no earlier waits",
            "waits as before",
            "the neighbour is idle",
            "waits for a CPU",
            "too few waits",
        ),
        *("alone", "graphics only", "the neighbour did as much before", "watched too briefly"),
    ],
)
def test_harmless_neighbours_are_not_named(sync: Spent, changes: dict[str, Any]) -> None:
    assert _neighbours(sync, **changes) == []


def test_a_neighbour_that_does_more_than_before_is_named() -> None:
    (told,) = _neighbours(row(SYNC, 40, gpu=700), before=500.0)
    assert told.cause == "gpu_neighbours"


@pytest.mark.parametrize(
    ("wait_ms", "told"),
    [(8, ["gpu_neighbours"]), (16, [])],
    ids=["longer than the baseline", "as the baseline"],
)
def test_a_neighbour_that_came_first_is_found_by_the_baseline(wait_ms: int, told: list[str]) -> None:
    earlier = Normals()
    for second in range(KNOWN_WINDOWS):
        alone = _rows(row(SYNC, 40, gpu=40 * wait_ms), 0)
        earlier.learn(Facts(window(alone, start=float(second))))
    diagnosis = Diagnosis(normals=earlier)
    for second in range(3):
        rows = _rows(row(SYNC, 40, gpu=700))
        look = diagnosis.add(window(rows, devices=Devices((SHARED,)), start=9000.0 + second))
    chains = [chain for chain in look.chains if chain.open and chain.severity != "info"]
    assert [chain.cause for chain in chains] == told
    assert all("earlier run" in " ".join(chain.unknown) for chain in chains)


def test_processes_of_one_tenant_are_no_neighbours() -> None:
    rows = [one._replace(key=one.key._replace(tenant=TRAIN)) for one in _rows(row(SYNC, 40, gpu=700))]
    made = window(rows, devices=Devices((SHARED,)))
    assert found(made, series=_watched()) == []


def test_a_throttled_device_explains_longer_waits() -> None:
    throttled = replace(SHARED, throttle_reasons=("thermal, software",), sm_clock_mhz=990)
    assert [told.cause for told in _neighbours(row(SYNC, 40, gpu=700), throttled)] == ["gpu_thermal"]


def test_a_host_without_a_driver_has_no_device_fault() -> None:
    made = window(healthy_trainer(), devices=Devices(unavailable="no NVIDIA driver on this host"))
    assert [told.cause for told in gpu_causes(Facts(made))] == ["gpu_bound"]


@pytest.mark.parametrize(
    ("limits", "command", "says"),
    [
        ({"power_limit_default_watts": 800.0}, "nvidia-smi -i 2 -pl 800", "back to its default"),
        ({"power_limit_max_watts": 750.0}, "nvidia-smi -i 2 -pl 750", "from 700 to 750 W, its highest"),
        ({"power_limit_max_watts": 700.0}, "", "700 W, is the highest that the board allows"),
        ({}, "", "raise the power cap of GPU 2 above 700 W"),
    ],
)
def test_a_power_cap_is_raised_as_far_as_the_board_allows(
    limits: dict[str, Any], command: str, says: str
) -> None:
    capped = replace(WELL, throttle_reasons=("power cap",), sm_clock_mhz=1485, power_watts=699.0, **limits)
    (told,) = told_of(capped)
    first = told.fixes[0]
    assert (first.command, says in first.text) == (command, True)
