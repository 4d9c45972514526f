"""A GPU that is not there: the stand-in NVML of the tests, which shows whatever a file says."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path
from typing import Final

from demo.build import COMPILE_SECONDS, compiler
from model.device import Devices
from model.errors import Told

_SOURCE: Final = Path(__file__).resolve().parent.parent.parent / "tests/native/nvml_standin.c"
_SCENARIO: Final = "NVML_STANDIN_SCENARIO"
_LIBRARY: Final = "libnvidia-ml.so.1"
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
    """One device for as long as this process runs: made before anything looks for the real library."""

    def __init__(self, folder: Path) -> None:
        """Build the library in ``folder``, and load it in place of the real one. Raises Told."""
        library = folder / _LIBRARY
        command = [*compiler(), "-shared", "-fPIC", "-O1", f"-Wl,-soname,{_LIBRARY}", "-o", str(library)]
        done = subprocess.run(
            [*command, str(_SOURCE)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMPILE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise Told(f"cannot build {_LIBRARY}: {done.stderr.splitlines()[:1]}")
        self._scenario = folder / "devices"
        os.environ[_SCENARIO] = str(self._scenario)
        self.show()
        # The binding asks for the library by its name: what has been loaded under that name is what it gets.
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)

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
