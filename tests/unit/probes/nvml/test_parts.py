"""Tests MIG devices, samples of processes and figures read at intervals, with the stand-in driver library."""

from __future__ import annotations

import json
import random
from collections import deque
from typing import Any

import pytest

from stalltop.model.devices.device import DEVICE_FIGURES, DEVICE_GAUGES
from stalltop.probes.nvml.asking import RHYTHMS, slowed
from stalltop.probes.nvml.gpu import AGED_SECONDS
from stalltop.probes.nvml.readings import READINGS, SELDOM, SOON
from tests.unit.probes.nvml.standin import READ, library, read, read_each, run, run_with_clock

MIG = """
devices=1
0.mig=1
0.instances=1g.10gb,2g.20gb,,1c.3g.40gb
0:0.memory_used=1073741824
0:0.compute=100:1073741824:1:0
0:1.memory_total=21474836480
0:1.compute=200:-:2:0,201:5:2:0
0:3.uuid=MIG-told
0:3.gpu_instance=9
0:3.compute_instance=2
0.compute=100:1073741824:1:0,300:7:9:2
"""


def test_mig_devices_are_read() -> None:
    [device] = read(MIG)["devices"]
    assert device["mig"] is True
    # NVML gives no utilization for a GPU in MIG mode. That is no error, so there is no note.
    assert device["utilization_percent"] is None
    assert device["notes"] == []
    told = [
        (one["gpu"], one["index"], one["uuid"], one["profile"], one["gpu_instance"], one["compute_instance"])
        for one in device["instances"]
    ]
    assert told == [
        (0, 0, "MIG-0-0", "1g.10gb", 1, 0),
        (0, 1, "MIG-0-1", "2g.20gb", 2, 0),
        (0, 3, "MIG-told", "1c.3g.40gb", 9, 2),
    ]
    assert [(one["memory_used_bytes"], one["memory_total_bytes"]) for one in device["instances"]] == [
        (1 << 30, 10 << 30),
        (0, 20 << 30),
        (0, 10 << 30),
    ]
    pids = [[process["pid"] for process in one["processes"]] for one in device["instances"]]
    assert pids == [[100], [200, 201], [300]]  # process 300 is listed only by the GPU, not by its MIG device
    where = {process["pid"]: process["gpu_instance"] for process in device["processes"]}
    assert where == {100: 1, 200: 2, 201: 2, 300: 9}


@pytest.mark.parametrize(
    ("code", "listed"),
    [
        ("0", True),
        ("3", True),  # 3 means not supported, so the list of the GPU is used
        ("4", False),
        ("999", False),
    ],
)
def test_a_mig_device_says_whether_its_processes_are_known(code: str, listed: bool) -> None:
    failing = f"0:1.fail.nvmlDeviceGetComputeRunningProcesses_v3={code}\n"
    [device] = read(MIG + failing)["devices"]
    assert [one["listed"] for one in device["instances"]] == [True, listed, True]
    found = [[process["pid"] for process in one["processes"]] for one in device["instances"]]
    assert found[0] == [100]


@pytest.mark.parametrize(
    ("scenario", "instances", "notes"),
    [
        ("fail.nvmlDeviceGetMigMode=3\n", [], ["utilization: not supported"]),
        ("0.mig=0\n", [], []),
        ("fail.nvmlDeviceGetMaxMigDeviceCount=4\n", [], ["MIG devices: insufficient permissions"]),
        ("count.nvmlDeviceGetMaxMigDeviceCount=4000000000\n", [0, 1, 3], []),
        ("fail.nvmlDeviceGetMemoryInfo_v2=999\n", [0, 1, 3], ["memory: unknown error"]),
        ("fail.nvmlDeviceGetGpuInstanceId=999\n", [0, 1, 3], []),
    ],
)
def test_failing_calls_of_mig_devices_are_noted(
    scenario: str, instances: list[int], notes: list[str]
) -> None:
    [device] = read(MIG.replace("0.mig=1\n", "" if "mig=" in scenario else "0.mig=1\n") + scenario)["devices"]
    assert [one["index"] for one in device["instances"]] == instances
    assert device["notes"] == notes


def test_recreated_mig_devices_are_noticed() -> None:
    made = run_with_clock(
        """
nvml = Nvml(clock=clock)
seen = []
for text in ("mig=1\\ninstances=1g.10gb", "mig=1\\ninstances=1g.10gb,1g.10gb", "mig=0"):
    show("devices=1\\n" + text)
    clock.now += 10
    seen.append([one.uuid for one in nvml.devices()[0].instances])
print(json.dumps(seen))
""",
        "devices=1\n",
    )
    assert made == [["MIG-0-0"], ["MIG-0-0", "MIG-0-1"], []]


SAMPLED = "devices=1\ncompute=100:5,200:6,300:-\n"


def test_process_samples_have_an_age() -> None:
    told = run_with_clock(
        """
nvml = Nvml(clock=clock, wall_clock=wall)

def see(text, later=0.0):
    show("devices=1\\ncompute=100:5,200:6,300:-\\n" + text)
    clock.now += 1
    wall.now = time.time() + later
    return [
        [one.pid, one.sm_percent, one.memory_percent, one.encoder_percent, one.decoder_percent,
         None if one.sample_age_seconds is None else round(one.sample_age_seconds)]
        for one in nvml.devices()[0].processes
    ]

seen = [
    # Two samples of process 100, of which the newer one counts; impossible values and PIDs; an old sample.
    see("samples=100:70:20:3:4:2000,200:4000000000:101:-:50:0,0:5:5:5:5:0,4294967295:9:9:9:9:0,"
        "300:50:50:0:0:90000,100:10:10:0:0:9000"),
    see("samples="),  # no new samples: the known ones are shown, which get older
    see("samples=", later=30),
    see("samples=", later=80),
    see("fail.nvmlDeviceGetProcessUtilization=999"),
    see("count.nvmlDeviceGetProcessUtilization=4000000000\\nsamples=100:1:1:1:1:0"),
]
print(json.dumps(seen))
""",
        SAMPLED,
    )
    nothing = [None] * 5
    assert told[0] == [
        [100, 70.0, 20.0, 3.0, 4.0, 2],
        [200, None, None, 0.0, 50.0, 0],
        [300, *nothing],
    ]
    assert told[1] == told[0]
    assert [one[-1] for one in told[2]] == [32, 30, None]
    assert told[3] == told[4] == [[100, *nothing], [200, *nothing], [300, *nothing]]
    assert [one[0] for one in told[5]] == [100, 200, 300]


def test_gpm_metrics_need_two_samples() -> None:
    metrics = "devices=1\ngpm=1\nmetric.2=61.5\nmetric.3=20\nmetric.5=100.4\nmetric.20=3\nmetric.21=1.5\n"
    first, second, last = read_each(metrics, metrics + "metric.10=77\n", metrics + "metric.2=1e30\n")
    names = ("sm_active_percent", "sm_occupancy_percent", "tensor_percent", "dram_percent")
    assert [first["devices"][0][name] for name in names] == [None] * 4  # a metric needs two samples
    found = second["devices"][0]
    assert [found[name] for name in names] == [61.5, 20.0, 100.0, 77.0]
    assert (found["pcie_rx_bytes_per_second"], found["pcie_tx_bytes_per_second"]) == (3 << 19, 3 << 20)
    assert last["devices"][0]["sm_active_percent"] is None


def test_slow_or_constant_figures_are_read_at_intervals() -> None:
    told = run_with_clock(
        f"""
nvml = Nvml(clock=clock)
seen = []

def see(after):
    clock.now += after
    [device] = nvml.devices()
    seen.append([device.power_watts, device.performance_state, device.remap_pending, dict(device.ages)])

for _ in range(3):
    nvml.devices()  # after three samples it is known what is slow
    clock.now += 2
clock.now = 2000.0
see(0)
show("devices=1\\npower=71000\\nperformance_state=4\\nremap_pending=1\\nfans=1")
see(1)
see({SOON} - 1)
see({SELDOM} - {SOON})
see({SELDOM} - 2)
print(json.dumps(seen))
""",
        "devices=1\nfans=1\n",
    )
    assert [one[:3] for one in told] == [
        [70.0, 0, False],
        [71.0, 0, False],
        [71.0, 4, False],
        [71.0, 4, True],
        [71.0, 4, True],
    ]
    # Of these figures only PCIe throughput has an age: reading it takes 40 ms, so it is read seldom.
    ages = [one[3] for one in told]
    assert ages[0] == ages[1] == ages[2] == ages[3] == {}
    assert ages[4] == dict.fromkeys(("pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second"), 8.0)


def test_a_slow_call_gets_its_own_interval() -> None:
    """The measured time of a call decides how often the call is made, whatever interval the table of readings
    gives."""
    told = run_with_clock(
        """
nvml = Nvml(clock=clock)
asked = []
for _ in range(20):
    clock.now += 1
    [device] = nvml.devices()
    asked.append(next((cost.calls for cost in nvml.costs() if cost.name == "nvmlDeviceGetPowerUsage"), 0))
costs = {cost.name: cost for cost in nvml.costs()}
power, clocks = costs["nvmlDeviceGetPowerUsage"], costs["nvmlDeviceGetViolationStatus"]
print(json.dumps([asked, dict(device.ages).get("power_watts"), power.every_seconds, power.median_ns,
                  clocks.every_seconds, nvml.costs()[0].name]))
""",
        "devices=1\ndelay.nvmlDeviceGetPowerUsage=60\n",
    )
    asked, age, every, median_ns, other, dearest = told
    assert asked == [1, 2] + 18 * [3]  # after three samples the call is known to be slow
    assert age == 17.0
    assert every == 60.0
    assert median_ns >= 60_000_000
    assert other < 60.0 or other is None
    assert dearest == "nvmlDeviceGetPowerUsage"


def test_a_counter_that_was_not_read_is_unknown_in_that_window() -> None:
    """A counter that is read in each sample gives each window its increase. In a window without such a
    reading the increase is unknown, not zero."""
    told = run_with_clock(
        """
from stalltop.probes.nvml import gpu as nvml_gpu, reader as devices
from stalltop.probes.nvml.reader import DEVICE_COUNTERS

class Late:
    \"\"\"Stands for the child process: reads NVML in this process, with the clock of the test.\"\"\"
    def __init__(self, environment):
        self.nvml = Nvml(clock=clock)
    def ask(self, **request):
        pass
    def answers(self, patience):
        self.nvml.begin()
        yield "begun", "1", (0,)
        yield "device", self.nvml.device(0)
        yield "done",
    def end(self):
        return True
    gone = end

reader = devices.DeviceReader(begin=Late, environment={"a": "b"}, clock=clock)
seen, total = [], 0
for _ in range(14):
    clock.now += 1
    total += 1_000_000
    show(f"devices=1\\ndelay.nvmlDeviceGetTotalEnergyConsumption=6\\nfield.139={total}\\n"
         f"energy={total}\\necc_corrected={total}\\nreliability_violation={total}\\nreplays={total}")
    [device] = reader.read().devices
    seen.append([device.nvlink_rx_bytes, device.ecc_corrected, device.reliability_held_ns,
                 device.pcie_replays, device.energy_millijoules, dict(device.ages).get("energy_millijoules")])
print(json.dumps(seen))
""",
        "devices=1\n",
    )
    million = 1_000_000
    flows = [one[:4] for one in told]
    assert flows == [[0] * 4, *([[1024 * million, million, million, million]] * 13)]
    # After three samples the slow counter is read every 10 s, and then has the increase of these 10 s.
    slow = [tuple(one[4:]) for one in told]
    assert slow[:3] == [(0, None), (million, None), (million, None)]
    assert slow[3:] == [*((None, float(at)) for at in range(1, 10)), (10 * million, None), (None, 1.0)]


def test_the_interval_follows_the_cost_of_a_call() -> None:
    assert RHYTHMS == ((50_000_000, 60.0), (5_000_000, 10.0))
    slow, quick = 10**9, 10**6
    told = {
        0.0: ([], [slow], [slow] * 2, [slow, slow, quick], [slow] * 3 + [quick], [slow, quick] * 3 + [quick]),
        10.0: ([6_000_000] * 3, [6_000_000] * 9),
        60.0: ([slow] * 3, [slow] * 4 + [quick] * 3),
    }
    for seconds, durations in told.items():
        assert [slowed(deque(took)) for took in durations] == [seconds] * len(durations)


def test_a_sample_ends_even_if_every_call_is_slow() -> None:
    """A sample makes the calls that fit its time and leaves the others to the next sample, until all figures
    are known."""
    told = run_with_clock(
        """
from stalltop.probes.nvml import gpu as nvml_gpu
nvml_gpu.LOOK_NS = 50_000_000
nvml = Nvml(clock=clock)
known = []
for _ in range(200):
    clock.now += 0.1
    [device] = nvml.devices()
    known.append(sum(value is not None for value in dataclasses.asdict(device).values()))
    if device.power_limit_watts is not None and device.virtualization:
        break
print(json.dumps([known, device.notes]))
""",
        "devices=1\ndelay=6\ndelay.nvmlDeviceGetPcieThroughput=6\n",
    )
    known, notes = told
    assert known[0] < known[-1]
    assert len(known) < 200
    assert notes == []


def test_costs_count_failed_calls() -> None:
    told = run_with_clock(
        """
nvml = Nvml(clock=clock)
for _ in range(3):
    clock.now += 1
    nvml.devices()
print(json.dumps([dataclasses.asdict(cost) for cost in nvml.costs()]))
""",
        "devices=2\nfail.nvmlDeviceGetPowerUsage=999\n",
    )
    costs = {cost.pop("name"): cost for cost in told}
    assert costs["nvmlDeviceGetPowerUsage"]["calls"] == costs["nvmlDeviceGetPowerUsage"]["failures"] == 6
    assert costs["nvmlDeviceGetPowerUsage"]["every_seconds"] == 0.0
    assert costs["nvmlDeviceGetUUID"]["calls"] == 2
    assert costs["nvmlDeviceGetUUID"]["every_seconds"] is None
    assert all(cost["median_ns"] <= cost["p99_ns"] <= cost["max_ns"] for cost in costs.values())


HUGE = ("-1", "4294967295", "18446744073709551615", "2147483648", "9223372036854775807", "101", "1", "")
NUMBERS = (
    *("utilization", "memory_utilization", "encoder", "decoder", "memory_total", "memory_used", "power"),
    *("bar1_used", "power_limit", "energy", "temperature", "slowdown", "sm_clock", "memory_clock", "fans"),
    *("performance_state", "fan", "reasons", "link_generation", "link_width", "pcie_rx", "replays", "ecc"),
    *("ecc_corrected", "ecc_corrected_lifetime", "persistence", "compute_mode", "virtualization", "minor"),
    *("remapped_corrected", "remap_pending", "power_violation", "field.29", "field.82", "field.91", "gpm"),
    *("field.138", "field.269", "links_up", "metric.2", "metric.21", "mig", "0:0.memory_used"),
    *("0:0.gpu_instance", "count.nvmlDeviceGetMaxMigDeviceCount"),
)
LISTS = (
    "0:5,4294967295:9,4194305:1,1:18446744073709551615,7:-:4294967295:4294967295",
    ",".join(f"{pid}:1" for pid in range(1, 150)),
    "::,:::,-1:-1,12:",
    "1:1,1:2,1:3",
)
SEEDS = 12
TEXTS = ("\033]0;x\007", "\u202edlrow", "A" * 90, "\xff\xfe", "MIG", " MIG ", "")


def nonsense(seed: int) -> str:
    """Returns a scenario of two GPUs with many impossible values."""
    choose = random.Random(seed)
    lines = [f"{key}={choose.choice(HUGE)}" for key in choose.sample(NUMBERS, 25)]
    lines += [f"{key}={choose.choice(LISTS)}" for key in ("compute", "graphics", "mps")]
    lines += [f"samples={choose.choice(LISTS)}", f"xids={choose.choice(HUGE)},{choose.choice(HUGE)}"]
    lines += [f"{key}={choose.choice(TEXTS)}" for key in ("name", "uuid", "bus", "driver")]
    lines.append(f"instances={choose.choice(('1g.10gb', ',,,', TEXTS[0] + ',1g.10gb'))}")
    lists = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization")
    lines += [f"count.{name}={choose.choice(('0', '3', '100000'))}" for name in lists]
    return "\n".join(lines) + "\n"


def test_impossible_answers_cost_only_their_own_figures() -> None:
    given = "".join(json.dumps(nonsense(seed)) + "\n" for seed in range(SEEDS))
    told = [json.loads(line) for line in run(READ, library(), "", given).splitlines()]
    assert len(told) == SEEDS
    for found in told:
        assert len(found["devices"]) == 2, found["unavailable"]
        for device in found["devices"]:
            check(device)


def check(device: dict[str, Any]) -> None:
    text = [device["name"], device["uuid"], device["pci_bus_id"], *device["notes"]]
    text += [one[name] for one in device["instances"] for name in ("uuid", "profile")]
    assert all(line.isprintable() and "\u202e" not in line for line in text)
    for name, value in device.items():
        if value is None or isinstance(value, (bool, str, list)):
            continue
        assert 0 <= value < 1 << 62, name
        assert not name.endswith("percent") or value <= 100.0, name
        assert not name.endswith("celsius") or value <= 250.0, name
    everyone = [*device["processes"], *(p for one in device["instances"] for p in one["processes"])]
    for process in everyone:
        assert 0 < process["pid"] <= 1 << 22
        assert process["memory_bytes"] is None or process["memory_bytes"] < 1 << 50
        assert process["gpu_instance"] is None or process["gpu_instance"] < 1 << 16
    assert len({process["pid"] for process in device["processes"]}) == len(device["processes"])


def test_an_impossible_answer_is_noted() -> None:
    [device] = read("devices=1\npower=4000000000\ntemperature=4294967295\nutilization=101\n")["devices"]
    assert device["power_watts"] is device["temperature_celsius"] is device["utilization_percent"] is None
    assert device["notes"] == ["utilization, power: an implausible answer"]


def test_every_reading_has_its_own_fields() -> None:
    fields = [figure.field for reading in READINGS for figure in reading.figures]
    assert len(fields) == len(set(fields))
    assert len({reading.name for reading in READINGS}) == len(READINGS)
    assert AGED_SECONDS > SOON  # figures read every ``SOON`` seconds are shown without an age


def test_what_a_figure_refers_to_exists() -> None:
    fields = {one.name for one in DEVICE_FIGURES}
    assert {one.most for one in DEVICE_FIGURES if isinstance(one.most, str)} <= fields
    assert {asked for one in DEVICE_GAUGES for asked in one.questions} <= {one.name for one in READINGS}
