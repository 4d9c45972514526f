"""Provides a stand-in GPU: the stand-in NVML reports the figures that a file contains."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stalltop.demo.build import Built
from stalltop.demo.node import NVML_VARIABLE
from stalltop.model.devices.device import Devices

_GIB: Final = 1 << 30
_HEALTHY: Final = {
    "devices": "1",
    "utilization": "65",
    "memory_utilization": "40",
    "memory_total": str(80 * _GIB),
    "memory_used": str(30 * _GIB),
    "power": "480000",
    "temperature": "61",
}


class StandInDevice:
    """A stand-in GPU, which a monitor sees if it reads NVML with ``environment``."""

    def __init__(self, folder: Path, built: Built) -> None:
        """Makes a healthy device, whose figures are in a file in ``folder``."""
        self._scenario = folder / "devices"
        self.environment: Final = {
            "LD_LIBRARY_PATH": str(built.nvml.parent),
            NVML_VARIABLE: str(self._scenario),
        }
        """Environment of the process that reads NVML (``MonitorOptions.nvml_environment``)."""
        self.show()

    def show(self, **changes: str | int) -> None:
        """Makes NVML report a healthy device at work, except for ``changes``, whose keys are those of
        `demo/native/libraries/nvml.h`."""
        lines = {**_HEALTHY, **{key: str(value) for key, value in changes.items()}}
        fresh = self._scenario.with_suffix(".new")
        fresh.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        fresh.rename(self._scenario)


def looks_well(devices: Devices) -> bool:
    """Returns whether ``devices`` show no fault of an earlier trial. They may show such a fault for some
    seconds after the trial, because the monitor reads the driver's counters only every few seconds."""
    return not any(
        device.lost or device.xids or device.ecc_uncorrected or device.remap_pending or device.pcie_replays
        for device in devices.devices
    )
