"""GPUs through the real binding and a stand-in driver library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from probes.nvml import throttle_reasons

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
# Run in a process of its own: the binding loads libnvidia-ml.so.1 once, by the loader's search path.
READ = """
import dataclasses, json, os, sys
from probes.devices import DeviceReader
reader = DeviceReader(patience_seconds=60)
for line in sys.stdin:  # a scenario each
    path = os.environ["NVML_STANDIN_SCENARIO"]
    with open(path + ".new", "w") as file:
        file.write(json.loads(line))
    os.rename(path + ".new", path)
    print(json.dumps(dataclasses.asdict(reader.read())))
reader.close()
"""
IN_FULL = """
0.name=Stand-in H100
0.utilization=87
0.memory_utilization=41
memory_reserved=1073741824
0.memory_used=21474836480
1.memory_used=1073741824
0.power=640250
0.temperature=83
0.sm_clock=1410
0.reasons=0x46
1.reasons=0x1
0.link_generation=3
0.link_width=8
0.compute=100:5368709120,200:7516192768,300:-
0.graphics=300:-,400:1048576
0.mps=200:7516192768
1.name=Stand-in \033[31mB200
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


def run(program: str, library: Path, scenario: Path, given: str = "") -> str:
    """What ``program`` prints in a process with this driver library."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "NVML_STANDIN_SCENARIO": str(scenario)},
        input=given,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    ).stdout


def read_each(library: Path, *scenarios: str) -> list[dict[str, Any]]:
    """What a DeviceReader says at one look after the other; each finds another scenario."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "scenario"
        scenario.write_text(scenarios[0])
        given = "".join(f"{json.dumps(text)}\n" for text in scenarios)
        return [json.loads(line) for line in run(READ, library, scenario, given).splitlines()]


def read(library: Path, scenario: str = IN_FULL) -> dict[str, Any]:
    """What a DeviceReader says first."""
    [found] = read_each(library, scenario)
    return found


FIRST = {
    "index": 0,
    "uuid": "GPU-0",
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
    "pcie_generation": 3,
    "pcie_generation_max": 5,
    "pcie_width": 8,
    "pcie_width_max": 16,
    "remap_pending": False,
    "pcie_replays": 0,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "power_held_ns": 0,
    "thermal_held_ns": 0,
    "xids": [],
    "lost": False,
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


FAILING: dict[str, tuple[tuple[str, ...], object]] = {
    "nvmlDeviceGetUtilizationRates": (("utilization_percent", "memory_utilization_percent"), None),
    "nvmlDeviceGetMemoryInfo_v2": (("memory_used_bytes", "memory_total_bytes"), None),
    "nvmlDeviceGetPowerUsage": (("power_watts",), None),
    "nvmlDeviceGetEnforcedPowerLimit": (("power_limit_watts",), None),
    "nvmlDeviceGetTemperature": (("temperature_celsius",), None),
    "nvmlDeviceGetClockInfo": (("sm_clock_mhz",), None),
    "nvmlDeviceGetMaxClockInfo": (("sm_clock_max_mhz",), None),
    "nvmlDeviceGetCurrentClocksEventReasons": (("throttle_reasons",), []),
    "nvmlDeviceGetCurrPcieLinkGeneration": (("pcie_generation",), None),
    "nvmlDeviceGetMaxPcieLinkGeneration": (("pcie_generation_max",), None),
    "nvmlDeviceGetCurrPcieLinkWidth": (("pcie_width",), None),
    "nvmlDeviceGetMaxPcieLinkWidth": (("pcie_width_max",), None),
    "nvmlDeviceGetPcieReplayCounter": (("pcie_replays",), None),
    "nvmlDeviceGetTotalEccErrors": (("ecc_corrected", "ecc_uncorrected"), None),
    "nvmlDeviceGetRemappedRows": (("remap_pending",), None),
    "nvmlDeviceGetViolationStatus": (("power_held_ns", "thermal_held_ns"), None),
    "nvmlDeviceRegisterEvents": ((), None),
}
"""What fails, the figures that it costs, and what they are then."""


@pytest.mark.parametrize("call", FAILING)
def test_a_call_that_fails_costs_its_own_cell(libraries: dict[str, Path], call: str) -> None:
    first = read(libraries["new"], f"{IN_FULL}fail.{call}=999\n")["devices"][0]
    cells, value = FAILING[call]
    [note] = first.pop("notes")
    assert note.endswith(": unknown error")
    assert first == {key: value if key in cells else FIRST[key] for key in FIRST if key != "notes"}


def test_calls_that_fail_in_one_way_are_noted_together(libraries: dict[str, Path]) -> None:
    every = "".join(f"fail.{call}=999\n" for call in FAILING)
    first, second = read_each(libraries["new"], IN_FULL + every, IN_FULL + every)
    [note] = first["devices"][0]["notes"]
    assert note.endswith(": unknown error")
    assert note.count(",") == len(FAILING) + 2 - 1  # two of them are asked for two things
    assert second == first  # also what is not asked for at every look
    mixed = f"{IN_FULL}fail.nvmlDeviceGetPowerUsage=3\nfail.nvmlEventSetCreate=4\n"
    assert read(libraries["new"], mixed)["devices"][0]["notes"] == [
        "XIDs: insufficient permissions",
        "power: not supported",
    ]


def test_what_counts_is_told_as_it_comes(libraries: dict[str, Path]) -> None:
    def figures(found: dict[str, Any]) -> list[tuple[object, ...]]:
        names = ("power_held_ns", "thermal_held_ns", "xids")
        return [tuple(device[name] for name in names) for device in found["devices"]]

    looks = read_each(
        libraries["new"],
        "power_violation=7000\n0.xids=31\n",  # before the first look: nothing that came while it was watched
        "0.power_violation=9500\n1.power_violation=7001\nthermal_violation=3\n0.xids=31,79,0x3f\n1.xids=13\n",
        "0.power_violation=9500\n1.power_violation=7001\nthermal_violation=3\n0.xids=31,79,0x3f\n1.xids=13\n",
        "power_violation=100\nfail.nvmlDeviceGetViolationStatus=3\n",
        "power_violation=200\n",  # begun anew
        "power_violation=250\n",
    )
    assert [figures(look) for look in looks] == [
        [(0, 0, []), (0, 0, [])],
        [(2500, 3, [79, 63]), (1, 3, [13])],
        [(0, 0, []), (0, 0, [])],
        [(None, None, []), (None, None, [])],
        [(0, 0, []), (0, 0, [])],
        [(50, 0, []), (50, 0, [])],
    ]


def test_dear_figures_are_read_at_a_slower_rhythm(libraries: dict[str, Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "scenario"
        told = run(SLOWLY, libraries["new"], scenario)
    before, between, after, later = json.loads(told)
    assert before == between == [0, 0, 0, False, 16]
    assert after == [4, 1000, 1, True, 4]
    assert later == [0, 0, 0, True, 4]


SLOWLY = """
import json, os, pathlib
from probes import nvml
from probes.devices import DeviceReader

now = 0.0
reader = DeviceReader(lambda: nvml.Nvml(clock=lambda: now), patience_seconds=60)

def look():
    [device] = reader.read().devices
    return [device.pcie_replays, device.ecc_corrected, device.ecc_uncorrected, device.remap_pending,
            device.pcie_width_max]

def show(text):
    path = pathlib.Path(os.environ["NVML_STANDIN_SCENARIO"])
    path.with_suffix(".new").write_text("devices=1\\n" + text)
    path.with_suffix(".new").rename(path)

show("replays=10\\n")
found = [look()]
show("replays=14\\necc_corrected=1000\\necc_uncorrected=1\\nremap_pending=1\\nlink_width_max=4\\n")
now = nvml.RARELY_SECONDS / 2
found.append(look())
now = nvml.RARELY_SECONDS
found += [look(), look()]
reader.close()
print(json.dumps(found))
"""


def test_process_lists_that_fail(libraries: dict[str, Path]) -> None:
    fail = (
        "fail.nvmlDeviceGetMPSComputeRunningProcesses_v3=3\nfail.nvmlDeviceGetGraphicsRunningProcesses_v3=4\n"
    )
    first = read(libraries["new"], IN_FULL + fail)["devices"][0]
    assert [process["kind"] for process in first["processes"]] == ["C", "C", "C"]
    assert first["notes"] == ["graphics processes: insufficient permissions", "MPS clients: not supported"]


def test_a_gpu_that_fell_off_keeps_its_row(libraries: dict[str, Path]) -> None:
    fine, gone, back = read_each(
        libraries["new"], IN_FULL, f"{IN_FULL}0.lost=1\n0.xids=79\n0.power_violation=5\n", IN_FULL
    )
    first, second = gone["devices"]
    assert (first["lost"], first["notes"], first["xids"]) == (True, ["GPU is lost"], [79])
    assert first["name"] == "Stand-in H100"
    assert first["utilization_percent"] is first["power_held_ns"] is None
    assert not second["lost"]
    assert back == fine
    found = read(libraries["new"], "fail.nvmlDeviceGetHandleByIndex_v2=16\n")
    assert found["devices"][1]["name"] == "GPU 1"
    assert found["devices"][1]["lost"]
    assert found["devices"][1]["notes"] == ["GPU requires restart"]


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("fail.nvmlInitWithFlags=9", "the NVIDIA driver is not loaded"),
        ("fail.nvmlInitWithFlags=18", "differ in version"),
        ("fail.nvmlInitWithFlags=999", "NVML: unknown error"),
        ("fail.nvmlDeviceGetCount_v2=4", "may not use"),
        ("fail.nvmlDeviceGetUtilizationRates=1", "was unloaded"),
        ("fail.nvmlDeviceGetRemappedRows=1", "was unloaded"),
        ("fail.nvmlDeviceGetCount_v2=77", "an error of the stand-in"),
        ("devices=0", "no GPU is visible"),
    ],
)
def test_no_gpus_in_one_line(libraries: dict[str, Path], scenario: str, said: str) -> None:
    found = read(libraries["new"], f"{scenario}\n")
    assert found["devices"] == []
    assert said in found["unavailable"]
    assert "\n" not in found["unavailable"]


def test_a_library_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"\x7fELF, but not for long")
    found = read(tmp_path)
    assert "no NVIDIA driver" in found["unavailable"]


def test_a_driver_that_hangs_under_the_real_binding(libraries: dict[str, Path], tmp_path: Path) -> None:
    scenario = tmp_path / "scenario"
    scenario.write_text("power=640250\n")
    program = f"""
import json, pathlib, time
from probes import devices
devices.STALE_SECONDS = 0.2
reader = devices.DeviceReader(patience_seconds=60)
fresh = reader.read()
pathlib.Path({str(scenario)!r}).write_text("hang=1")
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
    fresh, aged, watts = json.loads(run(program, libraries["new"], scenario))
    assert fresh == []
    assert "has not answered" in aged[0]
    assert watts == 640.25  # the last that was known


def test_throttle_reasons() -> None:
    assert throttle_reasons(0) == throttle_reasons(0x1 | 0x2 | 0x100) == ()
    assert throttle_reasons(0x4 | 0x20) == ("power cap", "thermal, software")
    assert throttle_reasons(0x8 | 0x80) == ("hardware slowdown", "power brake")
    assert throttle_reasons(0x4 | 1 << 20) == ("power cap", "reason 0x100000")
