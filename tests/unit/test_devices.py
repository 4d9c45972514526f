"""GPUs through the real binding and a stand-in driver library, and a driver that hangs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from model.device import Device, Devices
from probes.devices import STALE_SECONDS, DeviceReader
from probes.nvml import NvmlUnavailable, throttle_reasons

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
# Runs in a process of its own: the binding loads libnvidia-ml.so.1 once, by the loader's search path.
READ = """
import dataclasses, json, sys
from probes.devices import DeviceReader
reader = DeviceReader(patience_seconds=60)
print(json.dumps(dataclasses.asdict(reader.read())))
reader.close()
"""


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed to build the stand-in driver library"
    built = {}
    for kind, flags in {"new": [], "old": ["-DOLD_DRIVER"]}.items():
        built[kind] = tmp_path_factory.mktemp(kind)
        source = ROOT / "tests/native/nvml_standin.c"
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *flags, str(source)]
        subprocess.run([*command, "-o", str(built[kind] / "libnvidia-ml.so.1")], check=True)
    return built


def read(library: Path, **environment: str) -> dict[str, Any]:
    """What a DeviceReader in a process with this driver library says."""
    done = subprocess.run(
        [sys.executable, "-c", READ],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(library), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


FIRST = {
    "index": 0,
    "uuid": "GPU-aaaa",
    "name": "Stand-in H100",
    "utilization_percent": 87.0,
    "memory_utilization_percent": 41.0,
    "memory_used_bytes": 20 * GIB,
    "memory_total_bytes": 80 * GIB,
    "power_watts": 640.25,
    "power_limit_watts": 700.0,
    "temperature_celsius": 83.0,
    "sm_clock_mhz": 1410,
    "sm_clock_max_mhz": 1980,
    "throttle_reasons": ["power cap", "thermal, hardware"],
    "processes": [
        {"pid": 100, "kind": "C", "memory_bytes": 5 * GIB, "tenant": ""},
        {"pid": 200, "kind": "M+C", "memory_bytes": 7 * GIB, "tenant": ""},
        {"pid": 300, "kind": "C+G", "memory_bytes": None, "tenant": ""},
        {"pid": 400, "kind": "G", "memory_bytes": 1 << 20, "tenant": ""},
    ],
    "notes": [],
}


def test_every_figure_of_a_gpu(libraries: dict[str, Path]) -> None:
    found = read(libraries["new"])
    assert found["unavailable"] == ""
    assert found["driver"] == "580.65.06"
    first, second = found["devices"]
    assert first == FIRST
    assert (second["index"], second["name"], second["utilization_percent"]) == (1, "Stand-in [31mB200", 0.0)
    assert second["throttle_reasons"] == []  # idle is no fault
    assert second["processes"] == []


def test_an_old_driver_has_all_of_it_too(libraries: dict[str, Path]) -> None:
    first = read(libraries["old"])["devices"][0]
    assert first == {**FIRST, "memory_used_bytes": 21 * GIB}  # such drivers count what they reserve as used


def test_a_call_that_fails_costs_its_own_cell(libraries: dict[str, Path]) -> None:
    calls: dict[str, tuple[tuple[str, ...], object]] = {
        "nvmlDeviceGetUtilizationRates": (("utilization_percent", "memory_utilization_percent"), None),
        "nvmlDeviceGetMemoryInfo_v2": (("memory_used_bytes", "memory_total_bytes"), None),
        "nvmlDeviceGetPowerUsage": (("power_watts",), None),
        "nvmlDeviceGetEnforcedPowerLimit": (("power_limit_watts",), None),
        "nvmlDeviceGetTemperature": (("temperature_celsius",), None),
        "nvmlDeviceGetClockInfo": (("sm_clock_mhz",), None),
        "nvmlDeviceGetMaxClockInfo": (("sm_clock_max_mhz",), None),
        "nvmlDeviceGetCurrentClocksEventReasons": (("throttle_reasons",), []),
    }
    every = ",".join(f"{call}=999" for call in calls)
    first = read(libraries["new"], NVML_STANDIN_FAIL=every)["devices"][0]
    lost = {cell: value for cells, value in calls.values() for cell in cells}
    [note] = first.pop("notes")
    assert note.endswith(": unknown error")
    assert note.count(",") == len(calls) - 1
    assert first == {key: value for key, value in {**FIRST, **lost}.items() if key != "notes"}
    one = read(libraries["new"], NVML_STANDIN_FAIL="nvmlDeviceGetPowerUsage=3")["devices"][0]
    assert one == {**FIRST, "power_watts": None, "notes": ["power: not supported"]}


def test_process_lists_that_fail(libraries: dict[str, Path]) -> None:
    fail = "nvmlDeviceGetMPSComputeRunningProcesses_v3=3,nvmlDeviceGetGraphicsRunningProcesses_v3=4"
    first = read(libraries["new"], NVML_STANDIN_FAIL=fail)["devices"][0]
    assert [process["kind"] for process in first["processes"]] == ["C", "C", "C"]
    assert first["notes"] == ["graphics processes: insufficient permissions", "MPS clients: not supported"]


def test_a_gpu_that_fell_off_keeps_its_row(libraries: dict[str, Path]) -> None:
    found = read(libraries["new"], NVML_STANDIN_FAIL="nvmlDeviceGetPowerUsage=15")
    assert [device["notes"] for device in found["devices"]] == [["GPU is lost"]] * 2
    assert found["devices"][0]["name"] == "Stand-in H100"
    assert found["devices"][0]["utilization_percent"] is None
    found = read(libraries["new"], NVML_STANDIN_FAIL="nvmlDeviceGetHandleByIndex_v2=16")
    assert found["devices"][1]["name"] == "GPU 1"
    assert found["devices"][1]["notes"] == ["GPU requires restart"]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"NVML_STANDIN_FAIL": "nvmlInitWithFlags=9"}, "the NVIDIA driver is not loaded"),
        ({"NVML_STANDIN_FAIL": "nvmlInitWithFlags=18"}, "differ in version"),
        ({"NVML_STANDIN_FAIL": "nvmlInitWithFlags=999"}, "NVML: unknown error"),
        ({"NVML_STANDIN_FAIL": "nvmlDeviceGetCount_v2=4"}, "may not use"),
        ({"NVML_STANDIN_FAIL": "nvmlDeviceGetUtilizationRates=1"}, "was unloaded"),
        ({"NVML_STANDIN_FAIL": "nvmlDeviceGetCount_v2=77"}, "an error of the stand-in"),
        ({"NVML_STANDIN_EMPTY": "1"}, "no GPU is visible"),
    ],
)
def test_no_gpus_in_one_line(libraries: dict[str, Path], environment: dict[str, str], said: str) -> None:
    found = read(libraries["new"], **environment)
    assert found["devices"] == []
    assert said in found["unavailable"]
    assert "\n" not in found["unavailable"]


def test_a_library_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"\x7fELF, but not for long")
    found = read(tmp_path)
    assert "no NVIDIA driver" in found["unavailable"]


def test_a_driver_that_hangs_under_the_real_binding(libraries: dict[str, Path], tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    program = f"""
import json, pathlib, time
from probes import devices
devices.STALE_SECONDS = 0.2
reader = devices.DeviceReader(patience_seconds=60)
fresh = reader.read()
pathlib.Path({str(hang)!r}).touch()
reader._patience = 0.05
while not any("has not answered" in note for device in reader.read().devices for note in device.notes):
    time.sleep(0.01)
aged = reader.read().devices[0]
reader._patience = 3600
for _ in range(100):
    reader.read()  # while it hangs, reads do not even wait as long as they may
reader.close()
print(json.dumps([fresh.devices[0].notes, aged.notes, aged.power_watts]))
"""  # and the process ends, although a thread of it never comes back
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries["new"]), "NVML_STANDIN_HANG": str(hang)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    fresh, aged, watts = json.loads(done.stdout)
    assert fresh == []
    assert "has not answered" in aged[0]
    assert watts == 640.25  # the last that was known


class FakeNvml:
    """NVML that does as told."""

    driver = "1"
    opened = 0

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.open_error: Exception | None = None
        self.go_on = threading.Event()
        self.go_on.set()
        self.closed = 0

    def open(self) -> FakeNvml:
        self.go_on.wait(60)
        self.opened += 1
        if self.open_error:
            raise self.open_error
        return self

    def devices(self) -> tuple[Device, ...]:
        self.go_on.wait(60)
        if self.error:
            raise self.error
        return (Device(0, "u", "n"),)

    def close(self) -> None:
        self.closed += 1


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def reader_of(nvml: FakeNvml, clock: Clock, patience: float = 60.0) -> DeviceReader:
    return DeviceReader(nvml.open, clock=clock, patience_seconds=patience)


def test_a_driver_that_comes_later_is_found() -> None:
    nvml, clock = FakeNvml(), Clock()
    nvml.open_error = NvmlUnavailable("no driver")
    reader = reader_of(nvml, clock)
    assert reader.read().unavailable == "no driver"
    assert reader.read().unavailable == "no driver"
    assert nvml.opened == 1  # not at every tick
    nvml.open_error = None
    clock.now += 20
    assert reader.read() == Devices((Device(0, "u", "n"),), driver="1")
    reader.close()
    reader.close()
    assert nvml.closed == 1
    assert reader.read().devices  # the last that was known, and no call into a closed library


@pytest.mark.parametrize(
    ("error", "said"),
    [(NvmlUnavailable("unloaded"), "unloaded"), (AttributeError("no such function"), "no such function")],
)
def test_a_driver_that_goes_away_and_comes_back(error: Exception, said: str) -> None:
    nvml, clock = FakeNvml(), Clock()
    reader = reader_of(nvml, clock)
    assert reader.read().devices
    nvml.error = error
    assert said in reader.read().unavailable
    assert nvml.closed == 1
    nvml.error = None
    clock.now += 20
    assert reader.read().devices
    assert nvml.opened == 2
    reader.close()


def test_a_driver_that_hangs_while_it_opens() -> None:
    nvml, clock = FakeNvml(), Clock()
    nvml.go_on.clear()
    reader = reader_of(nvml, clock, patience=0.01)
    assert reader.read().unavailable == "NVML is starting (0 s)"
    clock.now += 60
    assert reader.read().unavailable == "NVML does not answer (60 s)"
    nvml.go_on.set()
    deadline = time.monotonic() + 30
    while not reader.read().devices and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reader.read().unavailable == ""
    reader.close()


def test_figures_are_marked_with_their_age() -> None:
    nvml, clock = FakeNvml(), Clock()
    reader = reader_of(nvml, clock)
    assert reader.read().devices[0].notes == ()
    nvml.go_on.clear()
    reader._patience = 0.01
    assert reader.read().devices[0].notes == ()
    clock.now += STALE_SECONDS + 2
    assert reader.read().devices[0].notes == ("NVML has not answered for 5 s: the figures are as old",)
    nvml.go_on.set()
    deadline = time.monotonic() + 30
    while reader.read().devices[0].notes and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reader.read().devices[0].notes == ()
    reader.close()


def test_throttle_reasons() -> None:
    assert throttle_reasons(0) == throttle_reasons(0x1 | 0x2 | 0x100) == ()
    assert throttle_reasons(0x4 | 0x20) == ("power cap", "thermal, software")
    assert throttle_reasons(0x8 | 0x80) == ("hardware slowdown", "power brake")
    assert throttle_reasons(0x4 | 1 << 20) == ("power cap", "reason 0x100000")
