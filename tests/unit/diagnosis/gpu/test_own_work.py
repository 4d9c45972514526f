"""Tests which programs are limited by their own computing between calls."""

from __future__ import annotations

import pytest

from stalltop.diagnosis.engine import explain
from stalltop.model.devices.device import Device, DeviceProcess, Devices
from stalltop.model.evidence import HOST_GAP
from stalltop.model.window import Window
from tests.unit.diagnosis.faults import LAUNCHES, plus
from tests.windows.evidence import TRAIN, Spent, charge, row, window


def losses(one: Window) -> dict[str, float]:
    """Returns the loss of each cause found in a window, in ms a second."""
    return {chain.cause: round(chain.lost_ms_per_s) for chain in explain(one)}


def computing(ms: float, *, waits_ms: float = 100, launch_ms: float = 5) -> list[Spent]:
    """Returns a program that prepares its data itself for ``ms`` of a second, then waits for the device."""
    return [
        row("cudaLaunchKernel", 600, running=launch_ms),
        row("cudaStreamSynchronize", 12, gpu=waits_ms),
        row(HOST_GAP, 612, running=ms),
    ]


def busy_device(percent: float) -> Devices:
    users = (DeviceProcess(100, "C", 1 << 30, TRAIN),)
    return Devices((Device(0, "GPU-0", "H100", utilization_percent=percent, processes=users),))


def test_a_program_that_computes_between_calls_is_host_bound() -> None:
    (chain,) = explain(window(computing(850)))
    assert (chain.cause, chain.severity, chain.pid) == ("host_bound", "info", 100)
    assert chain.confidence == pytest.approx(0.85, abs=0.05)
    assert (chain.operation, chain.culprits[0].pid) == (HOST_GAP, 100)
    assert chain.fixes[0].look
    assert "py-spy" in chain.fixes[0].command
    assert any("utilization" in line for line in chain.unknown)
    (chain,) = explain(window(computing(850), devices=busy_device(15)))
    assert not any("utilization" in line for line in chain.unknown)


def test_a_program_that_waits_for_an_idle_device_after_computing_is_host_bound() -> None:
    assert losses(window(computing(650, waits_ms=300))) == {"host_bound": 650}
    assert losses(window(computing(550, waits_ms=400), devices=busy_device(45))) == {"host_bound": 550}


def test_threads_that_take_turns_count_as_one_that_computes() -> None:
    """In an autograd engine one thread computes while the other waits for it."""
    turns = [row("cudaLaunchKernel", 600, running=15), row(HOST_GAP, 612, running=850, lock=1_000)]
    by_itself = charge("lock", 1_000, 100, culprit_tenant=TRAIN, culprit_process="train.py")
    assert losses(window(turns, charges=[by_itself])) == {"host_bound": 850}
    assert losses(window(turns)) == {}


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(window(computing(350)), id="it computes little"),
        pytest.param(window(computing(550, waits_ms=400)), id="the device may work while it computes"),
        pytest.param(window(computing(850), devices=busy_device(95)), id="the device is busy"),
        pytest.param(window([LAUNCHES, row(HOST_GAP, 40, running=300, sleep=650)]), id="it sleeps"),
        pytest.param(
            window([row("cudaGetDevice", 5), row(HOST_GAP, 5, running=900)]), id="it launches nothing"
        ),
        pytest.param(
            window([row("cudaLaunchKernel", 600, running=400), row(HOST_GAP, 600, running=590)]),
            id="launches wait for the device's queue",
        ),
    ],
)
def test_other_programs_are_not_host_bound(made: Window) -> None:
    assert "host_bound" not in losses(made)


@pytest.mark.parametrize(("late_ms", "told"), [(300, {"host_bound"}), (620, set())])
def test_host_bound_is_reported_beside_a_smaller_fault(late_ms: int, told: set[str]) -> None:
    late = plus(
        window(computing(600, waits_ms=10), cpus=(90, 90, 90, 90)),
        window([row("cudaMalloc", 1, runqueue=late_ms, pid=107, program="eval.py")], cpus=(90, 90, 90, 90)),
    )
    chains = explain(late)
    assert [chain.cause for chain in chains] == ["cpu_contention", *told], "the fault must come first"
    assert not told or "60% of its time" in chains[-1].summary
