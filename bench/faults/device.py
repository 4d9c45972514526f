"""A GPU that is not there: the stand-in NVML, which shows whatever a file says."""

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
    """One device, for a monitor that looks by ``environment``."""

    def __init__(self, folder: Path, built: Built) -> None:
        """A healthy one, at first; what it shows is a file in ``folder``."""
        self._scenario = folder / "devices"
        self.environment: Final = {
            "LD_LIBRARY_PATH": str(built.nvml.parent),
            NVML_VARIABLE: str(self._scenario),
        }
        """Of the process that asks for devices (``probes.monitor.MonitorOptions.nvml_environment``)."""
        self.show()

    def show(self, **changes: str | int) -> None:
        """A healthy device at work, but for ``changes`` (the keys are the stand-in's)."""
        lines = {**_HEALTHY, **{key: str(value) for key, value in changes.items()}}
        fresh = self._scenario.with_suffix(".new")
        fresh.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        fresh.rename(self._scenario)


def looks_well(devices: Devices) -> bool:
    """Whether nothing of an earlier trial shows: what drivers count is read every few seconds only."""
    return not any(
        device.lost or device.xids or device.ecc_uncorrected or device.remap_pending or device.pcie_replays
        for device in devices.devices
    )
