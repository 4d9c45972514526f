"""Tests reading GPUs in a child process: the driver may appear late, disappear, or hang."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from stalltop.model.call_cost import CallCost
from stalltop.model.devices.device import Device, DeviceProcess, Devices
from stalltop.probes.nvml import reader as devices
from stalltop.probes.nvml.reader import (
    HANG_SECONDS,
    MOST_HANGING,
    RETRY_SECONDS,
    SET_ASIDE_SECONDS,
    STALE_SECONDS,
    DeviceReader,
)

DEAR = CallCost("nvmlDeviceGetPcieThroughput", 2, 0, 20_000_000, 21_000_000, 21_000_000, 10.0)
ENVIRONMENT = {"LD_LIBRARY_PATH": "/somewhere"}


@dataclass
class FakeProcess:
    """Stands for the child process; answers as its ``script`` says."""

    script: NvmlScript
    wanted: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    ended = False

    def ask(self, **request: object) -> None:
        if self.script.dead:
            raise BrokenPipeError("gone")
        self.script.asked.append(request)
        self.wanted.append(request)

    def answers(self, patience_seconds: float) -> Iterator[tuple[Any, ...]]:
        if self.script.dead:
            raise BrokenPipeError("gone")
        if self.wanted and not self.script.silent:
            self.waiting += self.script.answers(self.wanted.pop())
        while self.waiting:
            yield self.waiting.pop(0)

    def end(self) -> bool:
        self.ended = True
        return not self.script.unkillable

    def gone(self) -> bool:
        return self.ended and not self.script.unkillable


class NvmlScript:
    """Holds the scripted state of NVML for all fake processes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.begun: list[FakeProcess] = []
        self.asked: list[dict[str, Any]] = []
        self.unavailable = ""
        self.shown: tuple[Device, ...] = (Device(0, "u", "n"),)
        self.hangs_at: int | None = None
        self.silent = self.dead = self.unkillable = False

    def begin(self, environment: Mapping[str, str]) -> FakeProcess:
        assert environment == ENVIRONMENT
        if self.dead:
            raise OSError(11, "Resource temporarily unavailable")
        self.begun.append(FakeProcess(self))
        return self.begun[-1]

    def answers(self, request: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        if request.get("costs"):
            yield ("costs", (DEAR,))
            return
        if self.unavailable:
            yield ("unavailable", self.unavailable)
            return
        yield ("begun", "1", tuple(device.index for device in self.shown))
        for device in sorted(self.shown, key=lambda device: device.index in request["last"]):
            if device.index in request["without"]:
                continue
            yield ("asking", device.index)
            if device.index == self.hangs_at:
                return
            yield ("device", device)
        yield ("done",)

    def reader(self) -> DeviceReader:
        return DeviceReader(ENVIRONMENT, begin=self.begin, clock=lambda: self.now, patience_seconds=60)


@pytest.fixture
def script() -> NvmlScript:
    return NvmlScript()


def test_a_driver_that_appears_later_is_found(script: NvmlScript) -> None:
    script.unavailable = "no driver"
    reader = script.reader()
    assert reader.read().unavailable == "no driver"
    script.unavailable = ""
    assert reader.read() == Devices((Device(0, "u", "n"),), driver="1")
    script.unavailable = "unloaded"
    assert reader.read() == Devices(unavailable="unloaded")
    script.unavailable = ""
    assert reader.read().devices
    assert len(script.begun) == 1
    reader.close()
    reader.close()
    assert script.begun[0].ended
    assert reader.read().devices  # the last known devices: no request is sent to a process
    assert len(script.begun) == 1


def test_without_the_library_no_process_is_started(
    script: NvmlScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "library_there", lambda: False)
    reader = DeviceReader(begin=script.begin, clock=lambda: script.now)
    assert "libnvidia-ml.so.1 not found" in reader.read().unavailable
    assert script.begun == []
    reader.close()


def test_a_process_that_dies_or_cannot_start_leaves_the_last_devices(script: NvmlScript) -> None:
    reader = script.reader()
    assert reader.read().devices
    script.dead = True
    assert reader.read().devices  # the last known devices
    script.now += RETRY_SECONDS
    assert reader.read().devices[0].notes  # with a note that says why they are old
    script.dead = False
    script.now += RETRY_SECONDS
    assert reader.read().devices[0].notes == ()
    assert len(script.begun) == 2
    script.dead = True
    assert "no process can be started" in script.reader().read().unavailable


def test_a_driver_that_hangs_at_start_is_given_up(script: NvmlScript) -> None:
    script.silent = True
    reader = script.reader()
    assert reader.read().unavailable == "NVML is starting (0 s)"
    script.now += HANG_SECONDS - 1
    assert reader.read().unavailable == f"NVML does not answer ({HANG_SECONDS - 1:.0f} s)"
    assert len(script.begun) == 1
    script.now += 1  # the time limit has passed
    reader.read()
    assert script.begun[0].ended
    assert len(script.begun) == 2
    script.silent = False
    assert reader.read().devices


def test_the_number_of_hanging_processes_is_bounded(script: NvmlScript) -> None:
    script.silent = script.unkillable = True
    reader = script.reader()
    for _ in range(3 * MOST_HANGING):
        reader.read()
        script.now += HANG_SECONDS
    assert len(script.begun) == MOST_HANGING
    script.unkillable = False  # the hanging NVML calls return, so the processes end
    script.silent = False
    script.now += RETRY_SECONDS
    assert reader.read().devices
    assert len(script.begun) == MOST_HANGING + 1


def test_stale_figures_are_marked_with_their_age(script: NvmlScript) -> None:
    script.shown = (Device(0, "u", "n", power_watts=70.0, pcie_replays=1, ages=(("fan_percent", 4.0),)),)
    reader = script.reader()
    [fresh] = reader.read().devices
    assert (fresh.notes, fresh.ages) == ((), (("fan_percent", 4.0),))
    script.silent = True
    assert reader.read().devices[0].notes == ()
    script.now += STALE_SECONDS + 2
    [old] = reader.read().devices
    assert old.notes == ("NVML has not answered for 5 s: the figures are that old",)
    assert dict(old.ages) == {"power_watts": 5.0, "fan_percent": 9.0, "pcie_replays": 5.0}
    assert old.pcie_replays is None
    script.silent = False
    reader.read()
    assert reader.read().devices[0].notes == ()


def test_only_the_figures_of_a_hanging_gpu_age(script: NvmlScript) -> None:
    script.shown = tuple(Device(index, f"u{index}", "n") for index in range(3))
    reader = script.reader()
    reader.read()
    script.hangs_at = 1
    for _ in range(int(HANG_SECONDS) + 2):
        reader.read()
        script.now += 1
    assert len(script.begun) == 2
    first, hung, last = reader.read().devices
    assert (first.notes, last.notes) == ((), ())
    assert "has not answered" in hung.notes[0]
    assert script.asked[-1]["without"] == [1]
    script.now += SET_ASIDE_SECONDS[0]
    reader.read()  # GPU 1 is read once more, after the other GPUs
    assert (script.asked[-1]["without"], script.asked[-1]["last"]) == ([], [1])
    script.now += HANG_SECONDS
    reader.read()
    script.now += SET_ASIDE_SECONDS[0]
    reader.read()
    assert script.asked[-1]["without"] == [1]  # after another hang, GPU 1 is left out for longer
    script.hangs_at = None
    script.now += SET_ASIDE_SECONDS[0]
    assert [device.notes for device in reader.read().devices] == [(), (), ()]
    assert script.asked[-1]["last"] == [1]
    reader.read()
    assert script.asked[-1]["last"] == []


def test_counters_are_neither_lost_nor_reported_twice(script: NvmlScript) -> None:
    reader = script.reader()
    told = Device(0, "u", "n", power_held_ns=100)
    script.shown = (replace(told, xids=(1,)),)
    [device] = reader.read().devices
    assert (device.power_held_ns, device.xids) == (0, (1,))
    script.silent = True
    # The sample that this read requests arrives too late, so the read returns the previous sample.
    [late] = reader.read().devices
    assert (late.power_held_ns, late.xids) == (None, ())  # the increase since then is unknown
    assert dict(late.ages) == {"power_held_ns": 0.0}
    script.silent = False
    script.shown = (replace(told, power_held_ns=150, xids=(2,)),)
    [device] = reader.read().devices
    assert (device.power_held_ns, device.xids) == (50, (2,))
    script.shown = (replace(told, power_held_ns=170, xids=(3,)),)
    [device] = reader.read().devices
    assert (device.power_held_ns, device.xids) == (20, (3,))
    script.shown = (told, replace(told, index=1, uuid="v"))
    assert [one.power_held_ns for one in reader.read().devices] == [100, 0]  # the total restarted from 0
    reader.close()
    [device, _] = reader.read().devices
    assert (device.power_held_ns, device.xids) == (None, ())


def test_a_removed_gpu_disappears_with_its_index(script: NvmlScript) -> None:
    script.shown = tuple(Device(index, f"u{index}", "n") for index in range(2))
    reader = script.reader()
    assert len(reader.read().devices) == 2
    script.shown = script.shown[:1]
    assert [device.index for device in reader.read().devices] == [0]


@pytest.mark.parametrize(
    ("shown", "left"),
    [
        # GPU u0 is gone: the hanging GPU u1 now has index 0.
        ((Device(0, "u1", "n"), Device(1, "u2", "n")), ["u1", "u2"]),
        # The number of GPUs is the same, but a new GPU comes first: the hanging GPU u1 now has index 2.
        ((Device(0, "new", "n"), Device(1, "u0", "n"), Device(2, "u1", "n")), ["new", "u0", "u1"]),
    ],
)
def test_after_renumbering_no_gpu_is_left_out_in_place_of_the_hanging_one(
    script: NvmlScript, shown: tuple[Device, ...], left: list[str]
) -> None:
    script.shown = tuple(Device(index, f"u{index}", "n") for index in range(3))
    reader = script.reader()
    reader.read()
    script.hangs_at = 1
    for _ in range(int(HANG_SECONDS) + 2):
        reader.read()
        script.now += 1
    assert script.asked[-1]["without"] == [1]
    script.hangs_at, script.shown = None, shown
    # The GPU that now has index 1 was not read in this sample, so it is not listed.
    assert [device.uuid for device in reader.read().devices] == left[:1] + left[2:]
    assert [device.uuid for device in reader.read().devices] == left
    assert script.asked[-1]["without"] == []


def test_costs_are_returned_where_known(script: NvmlScript) -> None:
    reader = script.reader()
    assert reader.costs(1.0) == (DEAR,)
    script.dead = True
    assert reader.costs(1.0) == ()
    reader.close()
    assert reader.costs(1.0) == ()


def test_time_on_the_gpu_is_that_since_the_previous_read(script: NvmlScript) -> None:
    def shown(*totals_ns: int | None) -> tuple[Device, ...]:
        processes = (DeviceProcess(7 + at, "C", resident_ns=total) for at, total in enumerate(totals_ns))
        return (Device(0, "u", "n", processes=tuple(processes)),)

    def read() -> list[int | None]:
        return [one.resident_ns for one in reader.read().devices[0].processes]

    reader = script.reader()
    script.shown = shown(None, None)
    assert read() == [None, None]
    script.shown = shown(300, 700)
    assert read() == [300, 700]
    script.shown = shown(350, 1_650)
    assert read() == [50, 950]
    script.silent = True
    assert read() == [None, None]
    script.silent, script.shown = False, shown(360, 1_700)
    script.now += HANG_SECONDS + RETRY_SECONDS
    assert read() == [10, 50]
    script.shown = shown(365)
    assert read() == [5]
    script.shown = shown(370, 1_800)  # a process that was missing from one sample
    assert read() == [5, 100]
    script.shown = shown(5, 60)  # summed anew, by another process
    assert read() == [5, 60]
