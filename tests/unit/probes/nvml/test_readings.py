"""Tests GPU figures through the real NVML bindings and the stand-in driver library."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from stalltop.model.devices.device import Device
from stalltop.probes.nvml.readings import throttle_reasons
from tests.unit.probes.nvml.full_device import FIRST, GIB, IN_FULL
from tests.unit.probes.nvml.standin import library, read, read_each, run_with_clock


def plain(device: Device) -> dict[str, Any]:
    """Returns the fields of the device as they are when written to JSON and read back."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(device)))
    return found


def test_every_figure_of_a_gpu_is_read() -> None:
    found = read(IN_FULL)
    assert found["unavailable"] == ""
    assert found["driver"] == "580.65.06"
    first, second = found["devices"]
    assert first == plain(FIRST)
    assert (second["index"], second["name"], second["utilization_percent"]) == (1, "Stand-in [31mB200", 0.0)
    assert second["throttle_reasons"] == []  # an idle clock is no throttling
    assert second["processes"] == []
    # Figures that a board does not have are missing without a note.
    assert second["nvlinks"] is second["retired_pages"] is second["memory_temperature_celsius"] is None
    assert second["notes"] == []


def test_an_old_driver_gives_most_figures() -> None:
    first = read(IN_FULL, library(old=True))["devices"][0]
    without = (
        *("jpeg_percent", "thermal_margin_celsius"),
        *("memory_temperature_celsius", "software_thermal_held_ns", "hardware_thermal_held_ns"),
        *("power_brake_held_ns", "nvlinks", "nvlinks_active", "nvlink_rx_bytes", "nvlink_tx_bytes"),
        *("nvlink_errors", "retired_pages", "retirement_pending"),
    )
    assert first == {
        **plain(FIRST),
        **dict.fromkeys(without),
        "memory_used_bytes": 21 * GIB,  # old drivers count reserved memory as used
    }


FAILING: dict[str, tuple[str, ...]] = {
    "nvmlDeviceGetUtilizationRates": ("utilization_percent", "memory_utilization_percent"),
    "nvmlDeviceGetMemoryInfo_v2": ("memory_used_bytes", "memory_total_bytes"),
    "nvmlDeviceGetPowerUsage": ("power_watts",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_watts",),
    "nvmlDeviceGetPowerManagementDefaultLimit": ("power_limit_default_watts",),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy_millijoules",),
    "nvmlDeviceGetTemperature": ("temperature_celsius",),
    "nvmlDeviceGetTemperatureThreshold": ("slowdown_celsius", "shutdown_celsius"),
    "nvmlDeviceGetMarginTemperature": ("thermal_margin_celsius",),
    "nvmlDeviceGetClockInfo": ("sm_clock_mhz", "memory_clock_mhz", "video_clock_mhz"),
    "nvmlDeviceGetMaxClockInfo": ("sm_clock_max_mhz", "memory_clock_max_mhz", "video_clock_max_mhz"),
    "nvmlDeviceGetCurrentClocksEventReasons": ("throttle_reasons",),
    "nvmlDeviceGetPerformanceState": ("performance_state",),
    "nvmlDeviceGetFanSpeed_v2": ("fan_percent",),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie_generation",),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("pcie_generation_max",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie_width",),
    "nvmlDeviceGetMaxPcieLinkWidth": ("pcie_width_max",),
    "nvmlDeviceGetPcieThroughput": ("pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second"),
    "nvmlDeviceGetPcieReplayCounter": ("pcie_replays",),
    "nvmlDeviceGetPciInfo_v3": ("pci_bus_id",),
    "nvmlDeviceGetMinorNumber": ("minor",),
    "nvmlDeviceGetEncoderUtilization": ("encoder_percent",),
    "nvmlDeviceGetDecoderUtilization": ("decoder_percent",),
    "nvmlDeviceGetJpgUtilization": ("jpeg_percent",),
    "nvmlDeviceGetTotalEccErrors": (
        *("ecc_corrected", "ecc_uncorrected", "ecc_corrected_lifetime", "ecc_uncorrected_lifetime"),
    ),
    "nvmlDeviceGetEccMode": ("ecc",),
    "nvmlDeviceGetMigMode": ("mig",),
    "nvmlDeviceGetPersistenceMode": ("persistence",),
    "nvmlDeviceGetComputeMode": ("compute_mode",),
    "nvmlDeviceGetVirtualizationMode": ("virtualization",),
    "nvmlDeviceGetBAR1MemoryInfo": ("bar1_used_bytes", "bar1_total_bytes"),
    "nvmlDeviceGetRemappedRows": (
        *("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed"),
    ),
    "nvmlDeviceGetViolationStatus": (
        *("power_held_ns", "thermal_held_ns", "sync_boost_held_ns", "board_limit_held_ns"),
        "reliability_held_ns",
    ),
    "nvmlDeviceGetFieldValues": (
        *("memory_temperature_celsius", "software_thermal_held_ns", "hardware_thermal_held_ns"),
        *("power_brake_held_ns", "nvlinks", "nvlinks_active", "nvlink_rx_bytes", "nvlink_tx_bytes"),
        *("nvlink_errors", "retired_pages", "retirement_pending"),
    ),
    "nvmlDeviceRegisterEvents": (),
    "nvmlGpmQueryDeviceSupport": (),
    "nvmlDeviceGetProcessUtilization": (),
}
"""For each NVML function, the figures that are missing if it fails."""
EMPTY = {field: value for field, value in plain(Device(0, "", "")).items() if value in ("", [])}


def test_a_failing_call_costs_only_its_own_figures() -> None:
    """One process reads all GPUs; on each GPU another NVML function fails."""
    calls = list(FAILING)
    whole = [line.removeprefix("0.") for line in IN_FULL.splitlines() if not line.startswith("1.")]
    lines = [f"devices={len(calls)}", *whole, *(f"{at}.fail.{call}=999" for at, call in enumerate(calls))]
    devices = read("\n".join(lines))["devices"]
    for at, (call, device) in enumerate(zip(calls, devices, strict=True)):
        [note] = device.pop("notes")
        assert note.endswith(": unknown error"), call
        own = {"index": at, "uuid": f"GPU-{at}", "pci_bus_id": f"00000000:{at + 1:02X}:00.0", "minor": at}
        expected = {**plain(FIRST), **own}
        del expected["notes"]
        assert device == {**expected, **{field: EMPTY.get(field) for field in FAILING[call]}}, call


def test_calls_that_fail_with_one_error_share_a_note() -> None:
    every = "".join(f"fail.{call}=999\n" for call in FAILING)
    first, second = read_each(IN_FULL + every, IN_FULL + every)
    [note] = first["devices"][0]["notes"]
    assert note.endswith(": unknown error")
    assert second["devices"] == first["devices"]  # including figures that are not read in every sample
    mixed = f"{IN_FULL}fail.nvmlDeviceGetPowerUsage=3\nfail.nvmlEventSetCreate=4\n"
    assert read(mixed)["devices"][0]["notes"] == [
        "XIDs: insufficient permissions",
        "power: not supported",
    ]


def test_counters_are_reported_as_increases() -> None:
    def figures(found: dict[str, Any]) -> list[tuple[object, ...]]:
        names = ("power_held_ns", "thermal_held_ns", "hardware_thermal_held_ns", "energy_millijoules", "xids")
        return [tuple(device[name] for name in names) for device in found["devices"]]

    second = (
        "0.power_violation=9500\n1.power_violation=7001\nthermal_violation=3\nfield.270=40\nenergy=900\n"
        "0.xids=31,79,0x3f\n1.xids=13\n"
    )
    looks = read_each(
        # The driver counted these before the first sample, so they are not reported.
        "power_violation=7000\n0.xids=31\nfield.270=30\nenergy=500\n",
        second,
        second,
        "power_violation=100\nfail.nvmlDeviceGetViolationStatus=999\nfield.270=40\nenergy=900\n",
        "power_violation=200\nfield.270=41\nenergy=1\n",  # a restarted counter: its value is the increase
        "power_violation=250\nfield.270=41\nenergy=11\n",
    )
    assert [figures(look) for look in looks] == [
        [(0, 0, 0, 0, []), (0, 0, 0, 0, [])],
        [(2500, 3, 10, 400, [79, 63]), (1, 3, 10, 400, [13])],
        [(0, 0, 0, 0, []), (0, 0, 0, 0, [])],
        [(None, None, 0, 0, []), (None, None, 0, 0, [])],
        [(200, 0, 1, 1, []), (200, 0, 1, 1, [])],
        [(50, 0, 0, 10, []), (50, 0, 0, 10, [])],
    ]


def test_a_failing_process_list_leaves_the_others() -> None:
    fail = (
        "fail.nvmlDeviceGetMPSComputeRunningProcesses_v3=3\nfail.nvmlDeviceGetGraphicsRunningProcesses_v3=4\n"
    )
    first = read(IN_FULL + fail)["devices"][0]
    assert [process["kind"] for process in first["processes"]] == ["C", "C", "C"]
    assert first["notes"] == ["graphics processes: insufficient permissions", "MPS clients: not supported"]


def test_a_lost_gpu_keeps_its_row() -> None:
    fine, gone, back = read_each(IN_FULL, f"{IN_FULL}0.lost=1\n0.xids=79\n0.power_violation=5\n", IN_FULL)
    first, second = gone["devices"]
    assert (first["lost"], first["notes"], first["xids"]) == (True, ["GPU is lost"], [79])
    assert first["name"] == "Stand-in H100"
    assert first["utilization_percent"] is first["power_held_ns"] is None
    assert not second["lost"]
    assert back == fine
    found = read("fail.nvmlDeviceGetHandleByIndex_v2=16\n")
    assert found["devices"][1]["name"] == "GPU 1"
    assert found["devices"][1]["lost"]
    assert found["devices"][1]["notes"] == ["GPU requires restart"]


def test_added_and_removed_gpus_are_noticed(tmp_path: Path) -> None:
    """NVML lists only the GPUs that were present when it was opened. A change in the driver's folder shows
    that NVML must be opened again."""
    found = run_with_clock(
        f"""
bus = pathlib.Path({str(tmp_path)!r})
(bus / "0000:01:00.0").mkdir()
nvml = Nvml(clock=clock, gpus_folder=str(bus))
seen = []

def see():
    seen.append([[device.uuid, device.lost] for device in nvml.devices()])

see()
show("devices=2")
see()  # the folder of the driver does not show the new GPU yet
(bus / "0000:02:00.0").mkdir()
see()
show("devices=2\\n1.lost=1")
see()
show("devices=2\\n1.uuid=GPU-anew")  # the lost GPU was reset or replaced
see()
clock.now += 30
see()
(bus / "0000:02:00.0").rmdir()
show("devices=1")
see()
nvml.close()
nvml.close()
print(json.dumps(seen))
""",
        "devices=1",
    )
    one, two = ["GPU-0", False], ["GPU-1", False]
    assert found == [
        [one],
        [one],
        [one, two],
        [one, ["GPU-1", True]],
        [one, two],  # GPU-1 answers again; its UUID is read again only later
        [one, ["GPU-anew", False]],
        [one],
    ]


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
def test_the_reason_for_no_gpus_is_one_line(scenario: str, said: str) -> None:
    found = read(f"{scenario}\n")
    assert found["devices"] == []
    assert said in found["unavailable"]
    assert "\n" not in found["unavailable"]


def test_an_invalid_library_is_reported(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"\x7fELF, but not for long")
    found = read("", tmp_path)
    assert "no NVIDIA driver" in found["unavailable"]


def test_throttle_reasons_are_decoded() -> None:
    assert throttle_reasons(0) == throttle_reasons(0x1 | 0x2 | 0x100) == ()
    assert throttle_reasons(0x4 | 0x20) == ("power cap", "thermal, software")
    assert throttle_reasons(0x8 | 0x80) == ("hardware slowdown", "power brake")
    assert throttle_reasons(0x4 | 1 << 20) == ("power cap", "reason 0x100000")
