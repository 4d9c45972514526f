"""Tests CPU shares from counters, and figures of this machine."""

from __future__ import annotations

import time
from types import SimpleNamespace

import psutil
import pytest

from stalltop.model.devices.device import System
from stalltop.model.text.figures import stolen
from stalltop.probes.host.host import HostReader, busy_percents


def cpu(**seconds: float) -> SimpleNamespace:
    return SimpleNamespace(**{"user": 0.0, "nice": 0.0, "system": 0.0, "idle": 0.0, "iowait": 0.0, **seconds})


def test_idle_and_iowait_are_not_busy() -> None:
    before = [cpu(user=100, idle=100), cpu(user=100, idle=100)]
    now = [cpu(user=103, idle=101), cpu(user=100, idle=103, iowait=1)]
    shares = busy_percents(before, now)
    assert shares.each == (75.0, 0.0)  # waiting for I/O is not busy
    assert shares.total == pytest.approx(37.5)


def test_guests_are_not_counted_twice() -> None:
    shares = busy_percents([cpu(guest=0.0)], [cpu(user=1, guest=1.0, idle=1)])
    assert shares.each == (50.0,)


def test_steal_and_interrupts_are_busy() -> None:
    shares = busy_percents([cpu()], [cpu(irq=1.0, softirq=1.0, steal=1.0, nice=1, idle=4)])
    assert (shares.each, shares.steal) == ((50.0,), 12.5)


def test_what_the_hypervisor_takes_is_told_if_it_is_more_than_a_little() -> None:
    assert stolen(System(cpus=2, cpu_percent=0.0, cpu_steal_percent=0.9)) == []
    assert stolen(System(cpus=2, cpu_percent=30.0, cpu_steal_percent=24.0)) == ["hypervisor takes 24.0%"]


def test_counters_that_step_back_or_stand_still_give_valid_shares() -> None:
    assert busy_percents([cpu(user=5, idle=5)], [cpu(user=5, idle=5)]).each == (0.0,)
    assert busy_percents([cpu(user=5, idle=5)], [cpu(user=6, idle=4.99)]).each == (100.0,)


def test_cpus_may_appear_between_samples() -> None:
    assert busy_percents([cpu(user=1)], [cpu(user=2), cpu(user=2)]) == (0.0, (0.0, 0.0), 0.0)


def test_figures_of_this_host_are_plausible() -> None:
    reader = HostReader()
    begin = time.process_time()
    # Uses 0.3 s of CPU time; the elapsed time may be longer.
    while time.process_time() - begin < 0.3:
        pass
    seen = reader.read()
    assert seen.cpus == len(seen.cpu_each_percent)
    assert 0 < seen.cpu_percent <= 100
    assert all(0 <= share <= 100 for share in seen.cpu_each_percent)
    assert 0 < seen.memory_used_bytes < seen.memory_total_bytes
    assert seen.memory_total_bytes == psutil.virtual_memory().total
    assert seen.uptime_seconds > 0
    assert seen.clock_error_ns is None or seen.clock_error_ns >= 0
    assert len(seen.load) == 3
