"""Reading GPUs beside the rest: a driver that comes late, goes away, or hangs."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from model.device import Device, Devices
from probes.devices import STALE_SECONDS, DeviceReader
from probes.nvml import NvmlUnavailable


class FakeNvml:
    """NVML that does as told."""

    driver = "1"
    opened = 0
    asked = 0
    shown = Device(0, "u", "n")

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
        self.asked += 1
        return (replace(self.shown, xids=(self.asked,) if self.shown.power_held_ns else ()),)

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


def test_nothing_that_counts_is_lost_or_told_twice() -> None:
    nvml, clock = FakeNvml(), Clock()
    reader = reader_of(nvml, clock)
    nvml.shown = Device(0, "u", "n", power_held_ns=100)
    assert reader.read().devices[0].power_held_ns == 0
    nvml.go_on.clear()
    reader._patience = 0.01
    nvml.shown = Device(0, "u", "n", power_held_ns=150)
    [late] = reader.read().devices  # the look that it asks for comes too late: it shows the one before
    assert (late.power_held_ns, late.xids) == (0, ())
    nvml.go_on.set()
    deadline = time.monotonic() + 30
    while reader._aside.busy and time.monotonic() < deadline:
        time.sleep(0.01)
    reader._patience = 60
    nvml.shown = Device(0, "u", "n", power_held_ns=170)
    [device] = reader.read().devices  # of two looks
    assert (device.power_held_ns, device.xids) == (70, (nvml.asked - 1, nvml.asked))
    reader.close()
    [device] = reader.read().devices
    assert (device.power_held_ns, device.xids) == (0, ())
