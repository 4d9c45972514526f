"""Tests the costs of NVML calls as ``stalltop check --verbose`` prints them."""

from __future__ import annotations

import json

import pytest

from stalltop.formats.text.call_costs import document, text
from stalltop.model.call_cost import CallCost
from stalltop.model.text.glyphs import ASCII
from tests.unit.probes.nvml.standin import library, run, run_with_clock

COSTS = (
    CallCost("nvmlDeviceGetPcieThroughput", 40, 0, 20_100_000, 21_000_000, 25_000_000, 10.0),
    CallCost("nvmlDeviceGetPowerUsage", 80, 3, 90_000, 400_000, 1_200_000, 0.0),
    CallCost("nvmlInit", 1, 0, 2_000_000_000, 2_000_000_000, 2_000_000_000),
)


def test_text_lists_calls_by_median_cost() -> None:
    told = text(COSTS)
    assert told.splitlines()[-4:] == [
        "  MEDIAN     P99     MAX  CALLS FAILED  ASKED      FUNCTION",
        "  20.1ms  21.0ms  25.0ms     40      -  every 10s  nvmlDeviceGetPcieThroughput",
        "  90.0µs   400µs  1.20ms     80      3  per sample nvmlDeviceGetPowerUsage",
        "   2.00s   2.00s   2.00s      1      -  as needed  nvmlInit",
    ]
    assert text(COSTS, glyphs=ASCII).isascii()
    assert text(()) == "\nNo GPU answered NVML, so no costs were measured.\n"


@pytest.mark.parametrize("width", [1, 40, 80, 200])
def test_the_explanation_fits_the_width(width: int) -> None:
    *above, _ = text(COSTS, width=width).partition("  MEDIAN")[0].splitlines()
    assert all(len(line) <= max(width, 40) for line in above)


def test_the_json_has_every_cost() -> None:
    told = json.loads(json.dumps(document(COSTS)))
    assert told[2] == {
        "name": "nvmlInit",
        "calls": 1,
        "failures": 0,
        "every_seconds": None,
        **dict.fromkeys(("median_ns", "p99_ns", "max_ns"), 2_000_000_000),
    }


CHECK = """
import sys
from stalltop.probes.readiness import surroundings
surroundings.COSTING_SECONDS = 0.0
surroundings.DEVICE_SECONDS = 60.0
surroundings._trace_for_a_moment = lambda: "left out here"
from stalltop.cli.main import main
sys.exit(0 if main(["check", "--json", "--verbose"]) in (0, 3) else 1)
"""


@pytest.mark.parametrize("devices", [0, 2])
def test_check_verbose_measures_the_costs(devices: int) -> None:
    scenario = f"devices={devices}\ndelay.nvmlDeviceGetPowerUsage=7\nfail.nvmlDeviceGetEccMode=3\n"
    told = json.loads(run(CHECK, library(), scenario))
    costs = {cost["name"]: cost for cost in told["nvml_calls"]}
    if not devices:
        assert costs == {}
        return
    assert costs["nvmlDeviceGetPowerUsage"]["median_ns"] >= 7_000_000
    assert costs["nvmlDeviceGetPowerUsage"]["every_seconds"] == 10.0
    assert costs["nvmlDeviceGetEccMode"]["failures"] == 2
    assert costs["nvmlDeviceGetUtilizationRates"]["calls"] >= 20


def test_costs_are_shown_for_a_driver_slow_to_answer() -> None:
    """Costs matter most for a slow driver. Here the first sample takes much longer than a read waits."""
    told = run(
        """
import json
from stalltop.probes.readiness import surroundings
surroundings.DEVICE_SECONDS = 0.01
surroundings.COSTING_SECONDS = 0.0
surroundings.COSTING_AT_MOST_SECONDS = 90.0
print(json.dumps([[cost.name, cost.median_ns] for cost in surroundings.nvml_costs()]))
""",
        library(),
        "devices=1\ndelay=40\n",
    )
    costs = dict(json.loads(told))
    assert costs["nvmlInit"] >= 40_000_000
    assert costs["nvmlDeviceGetPowerUsage"] >= 40_000_000


def test_a_function_of_several_readings_shows_the_shortest_interval() -> None:
    told = run_with_clock(
        """
nvml = Nvml(clock=clock)
for _ in range(4):
    clock.now += 1
    nvml.devices()
print(json.dumps({cost.name: [cost.calls, cost.every_seconds] for cost in nvml.costs()}))
""",
        # Of the fields of nvmlDeviceGetFieldValues, GPU 1 supports only 269: for how long its clocks were
        # lowered. GPU 0 supports none.
        "devices=2\n1.field.269=1\n0.mig=1\n0.instances=1g.10gb\n",
    )
    assert told["nvmlDeviceGetFieldValues"][1] == 0.0
    assert told["nvmlDeviceGetMemoryInfo"][1] == 0.0
    # Once for each GPU at the start, and every 10 s for the MIG device.
    assert told["nvmlDeviceGetUUID"] == [3, 10.0]
    assert told["nvmlDeviceGetPciInfo"] == [2, None]
