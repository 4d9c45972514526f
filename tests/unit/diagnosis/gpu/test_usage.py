"""Tests that each misuse of the GPU is found in a window that contains it, and in no other window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.engine import explain
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.bound import gpu_bound
from stalltop.diagnosis.gpu.causes import gpu_causes
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import usages
from stalltop.diagnosis.wording.figures import duration, figure, size
from stalltop.model.devices.device import Device, DeviceProcess, Devices
from tests.unit.diagnosis.programs import HEALTHY, ILL, MIB, UsageCase, found
from tests.windows.evidence import SERVE, TRAIN, Spent, healthy_trainer, row, window


@pytest.mark.parametrize("case", ILL, ids=lambda case: case.name)
def test_a_misuse_has_exactly_its_cause(case: UsageCase) -> None:
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


@pytest.mark.parametrize("rows", HEALTHY.values(), ids=HEALTHY.keys())
def test_healthy_programs_have_no_cause(rows: list[Spent]) -> None:
    assert found(window(rows)) == []


@pytest.mark.parametrize(("generation", "told"), [(3, []), (5, ["pageable_copies"])])
def test_a_copy_as_fast_as_its_link_uses_pinned_memory(generation: int, told: list[str]) -> None:
    """The copies reach 6 GB/s: three quarters of what eight lanes of PCIe 3.0 carry, but only a fifth of what
    eight lanes of PCIe 5.0 carry."""
    rows = [
        row("cudaMemcpy HtoD", 60, bytes_=60 * 16 * MIB, running=160),
        *(row("cudaLaunchKernel", 600, running=4), row("cudaStreamSynchronize", 20, gpu=700)),
    ]
    device = Device(
        0,
        "GPU-0",
        "A2",
        processes=(DeviceProcess(100, "C", 1 << 30, TRAIN),),
        pcie_generation=generation,
        pcie_width=8,
    )
    assert [one.cause for one in found(window(rows, devices=Devices((device,))))] == told


def on_two_devices(one: Spent) -> list[Spent]:
    """Returns the calls of ``one`` as two rows: half of them on device 0, half on MIG device 0:1."""
    parts = [(one.calls - one.calls // 2, "0"), (one.calls // 2, "0:1")]
    return [
        one._replace(
            key=one.key._replace(device=device),
            calls=calls,
            bytes=one.bytes * calls // one.calls,
            errors=one.errors * calls // one.calls,
            split_ms={part: ms * calls / one.calls for part, ms in one.split_ms.items()},
            longest_ms=one.longest_ms if device == "0" else None,
        )
        for calls, device in parts
        if calls
    ]


@pytest.mark.parametrize("case", ILL, ids=lambda case: case.name)
def test_a_program_on_two_devices_has_the_same_cause(case: UsageCase) -> None:
    both = [part for one in case.rows for part in on_two_devices(one)]
    (fault,) = found(window(both, seconds=case.seconds))
    (whole,) = found(window(case.rows, seconds=case.seconds))
    assert fault.cause == whole.cause
    assert fault.lost_ns_per_s == pytest.approx(whole.lost_ns_per_s, rel=0.05)


@pytest.mark.parametrize("rows", HEALTHY.values(), ids=HEALTHY.keys())
def test_a_healthy_program_on_two_devices_is_healthy(rows: list[Spent]) -> None:
    assert found(window([part for one in rows for part in on_two_devices(one)])) == []


@pytest.mark.parametrize("case", ILL, ids=lambda case: case.name)
def test_a_hundredth_of_a_misuse_is_not_reported(case: UsageCase) -> None:
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


def test_waiting_for_the_device_is_information_not_a_fault() -> None:
    told = list(gpu_causes(Facts(window(healthy_trainer()))))
    assert [suspicion.cause for suspicion in told] == ["gpu_bound"]
    assert told[0].lost_ns_per_s == pytest.approx(710e6)


@pytest.mark.parametrize(("percent", "causes"), [(97.0, ["gpu_bound"]), (47.0, []), (None, ["gpu_bound"])])
def test_a_device_that_is_idle_half_of_the_time_limits_nobody(
    percent: float | None, causes: list[str]
) -> None:
    users = (DeviceProcess(100, "C", 1 << 30, TRAIN),)
    devices = Devices((Device(0, "GPU-0", "H100", utilization_percent=percent, processes=users),))
    told = gpu_causes(Facts(replace(window(healthy_trainer()), devices=devices)))
    assert [suspicion.cause for suspicion in told] == causes


def test_waiting_for_a_cpu_is_not_waiting_for_the_device() -> None:
    rows = [row("cudaLaunchKernel", 500, running=3), row("cudaStreamSynchronize", 20, gpu=500, runqueue=300)]
    assert list(gpu_causes(Facts(window(rows)))) == []


@pytest.mark.parametrize(("ms", "told"), [(90, ["gpu_bound"]), (800, [])])
def test_gpu_bound_is_reported_beside_a_smaller_fault(ms: int, told: list[str]) -> None:
    rows = [*healthy_trainer(), row("cudaMalloc", 40, lock=ms), row("cudaFree", 40, lock=ms)]
    chains = explain(window(rows))
    assert [chain.cause for chain in chains] == ["allocation_storm", *told], "the fault must come first"


def test_waits_that_a_fault_makes_longer_are_not_those_of_gpu_bound() -> None:
    made = window(healthy_trainer())
    (usage,) = usages(Facts(made))
    waits = next(
        row.key for row in usage.facts.rows_of(usage.pid) if row.key.operation.endswith("Synchronize")
    )
    clocks = Suspicion("gpu_power", TRAIN, "", 100e6, 1.0, effect=waits)
    (bound,) = gpu_bound(usage.facts, [usage], [clocks])
    assert bound.lost_ns_per_s == pytest.approx(610e6)
    assert not list(gpu_bound(usage.facts, [usage], [replace(clocks, lost_ns_per_s=300e6)]))
    elsewhere = replace(clocks, effect=waits._replace(operation="cudaMalloc"))
    (bound,) = gpu_bound(usage.facts, [usage], [elsewhere])
    assert bound.lost_ns_per_s == pytest.approx(710e6)


def test_time_before_the_window_is_not_lost_in_it() -> None:
    (told,) = found(window([row("cuModuleLoadData", 1, running=40_000)]))
    assert told.lost_ns_per_s == pytest.approx(1e9)


def test_each_program_gets_its_own_cause() -> None:
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


@pytest.mark.parametrize(
    ("given_", "words"),
    [(0.42, "0.4"), (3.0, "3"), (9.97, "10"), (12.4, "12"), (87, "87"), (5234, "5,200"), (99_999, "100,000")],
)
def test_figures_are_rounded_to_two_digits(given_: float, words: str) -> None:
    assert figure(given_) == words


def test_sizes_and_durations_have_units() -> None:
    assert [size(value) for value in (17, 16384, 5 << 20, 3 << 40)] == [
        "17 B",
        "16 KiB",
        "5 MiB",
        "3,100 GiB",
    ]
    assert [duration(ns) for ns in (800, 35_000, 1.5e6, 12e9)] == ["800 ns", "35 us", "1.5 ms", "12 s"]
