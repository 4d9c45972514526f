"""Reads CPU, memory and load of the whole host, through psutil."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from stalltop.model.devices.device import System
from stalltop.probes.host.clock import clock_error_ns
from stalltop.probes.host.pressure_stall import HostPressure


class HostReader:
    """Reads the host's figures. CPU shares are those of the time since the previous read."""

    def __init__(self) -> None:
        self._before = psutil.cpu_times(percpu=True)
        self._pressure = HostPressure()

    def read(self) -> System:
        """Returns the host's figures now. If two reads are less than a clock tick apart, CPU shares may be
        0."""
        now = psutil.cpu_times(percpu=True)
        before, self._before = self._before, now
        each = busy_percents(before, now)
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        pressure = self._pressure.read()
        return System(
            cpus=len(now),
            cpu_percent=each.total,
            cpu_each_percent=each.each,
            memory_total_bytes=memory.total,
            memory_used_bytes=max(memory.total - memory.available, 0),
            swap_total_bytes=swap.total,
            swap_used_bytes=swap.used,
            load=os.getloadavg(),
            uptime_seconds=time.clock_gettime(time.CLOCK_BOOTTIME),
            clock_error_ns=clock_error_ns(),
            cpu_pressure_percent=pressure.get("cpu"),
            memory_pressure_percent=pressure.get("memory"),
            io_pressure_percent=pressure.get("io"),
            cpu_steal_percent=each.steal,
        )


class BusyShares(NamedTuple):
    """Busy shares in percent."""

    total: float
    """Share of all CPUs together."""
    each: tuple[float, ...]
    steal: float = 0.0
    """Share of all CPUs together in which the hypervisor ran something else; a part of ``total``."""


def busy_percents(before: Sequence[object], now: Sequence[object]) -> BusyShares:
    """Returns how busy each CPU was between two samples (psutil's times of each CPU, in seconds).

    Waiting for I/O is idle time, as in ``top``. If the number of CPUs changed between the samples, the shares
    are unknown and all returned as 0.
    """
    if len(before) != len(now):
        return BusyShares(0.0, (0.0,) * len(now))
    spent = [_busy_and_all(old, new) for old, new in zip(before, now, strict=True)]
    whole = sum(total for _, total in spent)
    stolen = sum(_risen(old, new, ("steal",)) for old, new in zip(before, now, strict=True))
    return BusyShares(
        _percent(sum(busy for busy, _ in spent), whole),
        tuple(_percent(busy, total) for busy, total in spent),
        _percent(stolen, whole),
    )


def _busy_and_all(before: object, now: object) -> tuple[float, float]:
    # user and nice include guest and guest_nice.
    busy = _risen(before, now, ("user", "nice", "system", "irq", "softirq", "steal"))
    return busy, busy + _risen(before, now, ("idle", "iowait"))


def _risen(before: object, now: object, fields: Sequence[str]) -> float:
    # A counter of idle time may step back a little, so a negative difference counts as 0.
    return sum(max(getattr(now, name, 0.0) - getattr(before, name, 0.0), 0.0) for name in fields)


def _percent(part: float, whole: float) -> float:
    return min(100.0 * part / whole, 100.0) if whole > 0 else 0.0
