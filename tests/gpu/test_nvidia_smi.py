"""Compares every figure of every GPU with ``nvidia-smi``, and measures the cost of reading them."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from stalltop.formats.text.call_costs import text
from stalltop.probes.nvml.reader import DeviceReader
from stalltop.probes.readiness.surroundings import nvml_costs
from tests.gpu import smi
from tests.kernel.harness import wait_until

PROGRAM = shutil.which("nvidia-smi")
pytestmark = pytest.mark.skipif(
    PROGRAM is None or not os.path.exists("/dev/nvidia0"), reason="no NVIDIA GPU, or no nvidia-smi"
)


def asked() -> str:
    done = subprocess.run([str(PROGRAM), "-q", "-x"], capture_output=True, text=True, timeout=110, check=True)
    return done.stdout


def test_every_figure_agrees_with_nvidia_smi(capsys: pytest.CaptureFixture[str]) -> None:
    # ``read`` waits for a new sample for up to 30 s, so that ``devices`` are sampled between the two answers
    # of nvidia-smi.
    reader = DeviceReader(patience_seconds=30.0)
    try:
        wait_until(lambda: reader.read().devices, what="NVML's first answer")
        before = asked()
        devices = reader.read().devices
        pairs = list(smi.compare(devices, before, asked()))
    finally:
        reader.close()
    with capsys.disabled():
        print("", f"{'':36} {'read here':>24} {'nvidia-smi':>24}", *pairs, sep="\n")
        for device in devices:
            print(f"GPU {device.index}: {len(device.instances)} MIG devices, not read: {device.notes}")
    assert [pair for pair in pairs if not pair.agree] == []
    listed = smi.processes(asked())
    for device in devices:
        assert {process.pid for process in device.processes} >= listed[device.uuid] - {0}


def test_the_cost_of_every_nvml_call_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    costs = nvml_costs()
    with capsys.disabled():
        print(text(costs, width=110))
    assert {"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo"} <= {cost.name for cost in costs}
