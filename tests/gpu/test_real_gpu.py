"""Tests calls and figures of a real GPU: ``./run-tests gpu``."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.nvml.reader import DeviceReader
from tests.kernel.harness import wait_until
from tests.kernel.nvidia.fetched import CUDART12, CUDART13

ROUNDS = 200
SIZE_BYTES = 1 << 20
CALLER = Path(__file__).with_name("caller.py")
RUNTIMES = [path for path in (CUDART12, CUDART13) if path is not None]


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    if not os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has no NVIDIA GPU")


@pytest.fixture(scope="module")
def monitor() -> Iterator[Monitor]:
    monitor = Monitor()
    assert monitor.cannot_trace is None
    yield monitor
    monitor.close()


def test_the_driver_gives_the_figures_of_every_gpu() -> None:
    reader = DeviceReader()
    try:
        devices = wait_until(lambda: reader.read().devices, what="NVML's first answer")
    finally:
        reader.close()
    for device in devices:
        assert device.uuid.startswith("GPU-")
        assert device.memory_total_bytes
        assert device.memory_used_bytes is not None
        assert device.power_watts is not None
        assert device.temperature_celsius is not None
        assert device.sm_clock_mhz is not None
        assert device.pcie_generation is not None
        assert device.pcie_generation_max is not None
        assert 1 <= device.pcie_generation <= device.pcie_generation_max
        assert device.pcie_width is not None
        assert device.pcie_width_max is not None
        assert 1 <= device.pcie_width <= device.pcie_width_max
        assert device.pcie_replays == 0  # counted since the first sample
        assert device.power_held_ns in (0, None)
        assert device.thermal_held_ns in (0, None)
        assert device.ecc_uncorrected in (0, None)  # None if the board has no ECC
        assert not device.lost
        assert device.xids == ()


def test_a_program_that_faults_is_reported_with_its_xid() -> None:
    reader = DeviceReader()
    try:
        devices = wait_until(lambda: reader.read().devices, what="NVML's first answer")
        if any(note.startswith("XIDs") for device in devices for note in device.notes):
            pytest.skip("this driver reports no XIDs here")
        done = subprocess.run([sys.executable, CALLER.with_name("faulty.py")], timeout=120, check=False)
        assert done.returncode == 0, "the CUDA kernel was not launched or did not fail"
        seen = wait_until(
            lambda: [xid for device in reader.read().devices for xid in device.xids], what="an XID"
        )
        assert set(seen) <= {13, 31, 43, 45}  # exception, MMU fault, channel reset, channel clean-up
    finally:
        reader.close()


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda path: path.name)
def test_calls_on_a_gpu_are_counted_exactly(monitor: Monitor, runtime: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, CALLER, runtime, str(ROUNDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        wait_until(lambda: traces(monitor.read(), runtime), what="the runtime's probes")
        monitor.read()
        process.stdin.write("\n")
        process.stdin.flush()
        waited_ns = json.loads(process.stdout.readline())
        window = monitor.read()
    finally:
        process.kill()
        process.communicate()
    assert calls(window, process.pid, "runtime") == {
        "cudaMalloc": ROUNDS,
        "cudaMemcpy HtoD": ROUNDS,
        "cudaMemset": ROUNDS,
        "cudaGraphLaunch": ROUNDS,
        "cudaDeviceSynchronize": ROUNDS,
        "cudaMemcpy DtoH": ROUNDS,
        "cudaFree": ROUNDS,
    }
    assert sum(calls(window, process.pid, "driver").values()) >= ROUNDS
    assert window.lost == 0
    for i, key in enumerate(window.rows.keys):
        if key.pid != process.pid or key.layer != "runtime":
            continue
        assert window.rows.errors[i] == 0
        if key.operation.startswith("cudaMemcpy"):
            assert window.rows.bytes[i] == ROUNDS * SIZE_BYTES
        if key.operation == "cudaDeviceSynchronize":
            assert window.rows.total_ns[i] <= waited_ns
    [use] = [use for use in window.evidence.processes if use.pid == process.pid]
    # The context and the runtime also allocate memory for themselves, by driver calls.
    assert use.allocations >= ROUNDS
    assert use.frees >= ROUNDS
    assert use.allocated_bytes - use.freed_bytes < ROUNDS * SIZE_BYTES


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_loop_of_pytorch_is_counted_exactly(monitor: Monitor) -> None:
    process = subprocess.Popen(
        [sys.executable, CALLER.with_name("torch_loop.py"), str(ROUNDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        runtimes = {line.split()[-1] for line in maps.splitlines() if "/libcudart" in line}
        assert runtimes, "PyTorch has not loaded a CUDA runtime"
        for runtime in runtimes:
            wait_until(lambda: traces(monitor.read(), Path(runtime)), what="its probes")  # noqa: B023
        monitor.read()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        window = monitor.read()
    finally:
        process.kill()
        process.communicate()
    found = calls(window, process.pid, "runtime")
    assert sum(n for name, n in found.items() if name.startswith("cudaLaunchKernel")) == ROUNDS
    assert found["cudaGraphLaunch"] == ROUNDS
    assert sum(n for name, n in found.items() if name.startswith("cudaMemcpy")) == ROUNDS
    assert found["cudaDeviceSynchronize"] == ROUNDS
    assert found.get("cudaStreamSynchronize", 0) in (0, ROUNDS)  # the copy to the host may wait by this call
    assert window.lost == 0


def traces(window: Window, file: Path) -> bool:
    return any(library.path == str(file) for library in window.coverage.libraries)


def calls(window: Window, pid: int, layer: str) -> dict[str, int]:
    rows = window.rows
    return {
        key.operation: int(rows.calls[i])
        for i, key in enumerate(rows.keys)
        if key.pid == pid and key.layer == layer
    }
