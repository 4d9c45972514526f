"""Reports the GPUs. A separate process reads them, so that a driver that hangs never delays a window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from stalltop.model.call_cost import CallCost
from stalltop.model.devices.device import DEVICE_COUNTERS, Device, DeviceProcess, Devices
from stalltop.probes.nvml.link import NO_LIBRARY, ReaderLink, library_there
from stalltop.probes.nvml.switch_log import MOST_PROCESSES

PATIENCE_SECONDS: Final = 0.3
"""Time that a read waits for new figures, in seconds. Reading eight GPUs takes some tens of ms."""
STALE_SECONDS: Final = 3.0
"""Age in seconds from which figures are shown with their age."""
RETRY_SECONDS: Final = 15.0
"""Seconds between two searches for a driver that was missing, and between two starts of the process that
reads NVML. A process that hung on a GPU is replaced at once."""
HANG_SECONDS: Final = 30.0
"""If the process that reads NVML has not answered for this many seconds, it is killed and replaced. Opening
NVML takes seconds for each GPU if the driver does not keep the GPUs initialized."""
SET_ASIDE_SECONDS: Final = (60.0, 600.0)
"""First and longest time in seconds for which a GPU is not read after NVML hung on it. Each further hang
doubles the time."""
MOST_HANGING: Final = 4
"""Maximum number of NVML processes that hang inside the Linux kernel and cannot be killed. Once there are
this many, no further process is started."""


class NvmlConnection(Protocol):
    """The part of `probes.nvml.link.ReaderLink` that is used here."""

    def ask(self, **request: object) -> None:
        """Sends a request. Raises OSError."""
        ...

    def answers(self, patience_seconds: float) -> Iterator[tuple[Any, ...]]:
        """Yields the answers that arrive within ``patience_seconds``. Raises OSError."""
        ...

    def end(self) -> bool:
        """Kills the process; returns whether it has ended."""
        ...

    def gone(self) -> bool:
        """Returns whether the process has ended."""
        ...


@dataclass(slots=True)
class _Aside:
    """A GPU that is not read for a while, because NVML hung on it."""

    seconds: float
    until: float


class DeviceReader:
    """Reports the latest known state of the GPUs. Used from one thread; only another process touches NVML.

    A counter (``DEVICE_COUNTERS``, XIDs) is reported as its increase since the last read that reported it. If
    NVML gave no new value in time, the counter is None. The next read that has a new value then reports the
    whole increase.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        begin: Callable[[Mapping[str, str]], NvmlConnection] = ReaderLink,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float | None = None,
    ) -> None:
        """``environment`` has variables that are set for the process that reads NVML, such as the path of its
        library."""
        self._environment = environment or {}
        self._begin = begin
        self._clock = clock
        self._patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._link: NvmlConnection | None = None
        self._hanging: list[NvmlConnection] = []
        self._began = self._heard = clock()
        self._next_begin = clock()
        self._looking = False
        self._asking: int | None = None
        """The GPU that is being read."""
        self._aside: dict[int, _Aside] = {}
        self._closed = False
        self._unavailable = ""
        self._driver = ""
        self._seen: dict[int, tuple[Device, float]] = {}
        """Last known state of each GPU and when it was read, by index."""
        self._costs: tuple[CallCost, ...] | None = None
        self._fresh: set[int] = set()
        """Indexes of GPUs whose figures arrived since the previous call of ``read``."""
        self._indexes: tuple[int, ...] = ()
        self._told: dict[tuple[str, str], int] = {}
        """The driver's totals that were last reported, by device and counter."""
        self._resident: dict[str, dict[int, int]] = {}
        """Total of ``DeviceProcess.resident_ns`` that was last reported, by device and PID."""
        self._xids: dict[str, tuple[int, ...]] = {}
        """XIDs that were received and are not reported yet, by device."""
        # The first sample is requested now, because opening NVML may take seconds if the driver does not keep
        # the GPUs initialized.
        self._look()

    def read(self) -> Devices:
        """Returns the GPUs as they are now. If the driver does not answer, returns them as they were last
        seen, with a note that tells their age."""
        if not self._closed:
            fresh = not self._looking
            self._look()
            # A sample that was requested earlier is not waited for, unless it is the first one.
            opening = not self._seen and self._clock() - self._began < STALE_SECONDS
            self._listen(self._patience if fresh or opening else 0.0)
        now = self._clock()
        if self._unavailable:
            return Devices(unavailable=self._unavailable)
        if not self._seen:
            waited = now - self._began
            said = "NVML is starting" if waited < STALE_SECONDS else "NVML does not answer"
            return Devices(unavailable=f"{said} ({waited:.0f} s)")
        found = tuple(
            self._since_told(self._aged(device, now - at), now - at)
            for _, (device, at) in sorted(self._seen.items())
        )
        self._fresh.clear()
        return Devices(found, driver=self._driver)

    @property
    def looking(self) -> bool:
        """Returns whether an answer of NVML is awaited."""
        return self._looking

    def costs(self, patience_seconds: float) -> tuple[CallCost, ...]:
        """Returns what the calls of NVML have cost so far, the most expensive first; none if no answer comes
        in time."""
        end = self._clock() + patience_seconds
        self._costs = None
        try:
            while self._link is not None and self._looking and self._clock() < end:
                self._listen(end - self._clock())
            if self._link is not None and not self._looking:
                self._link.ask(costs=True)
                for answer in self._link.answers(max(end - self._clock(), 0.0)):
                    self._take(answer)
                    if self._costs is not None:
                        break
        except OSError:
            self._drop()
        return self._costs or ()

    def close(self) -> None:
        """Ends the process that reads, without waiting for a driver that hangs. May be called twice."""
        self._closed = True
        self._drop()

    # The process that reads NVML

    def _look(self) -> None:
        """Requests a sample, unless one is under way."""
        now = self._clock()
        self._hanging = [link for link in self._hanging if not link.gone()]
        if self._looking and now - self._heard >= HANG_SECONDS:
            self._give_up(now)
        if self._looking or (self._link is None and not self._start(now)):
            return
        assert self._link is not None
        without = [index for index, aside in self._aside.items() if now < aside.until]
        last = [index for index in self._aside if index not in without]
        try:
            self._link.ask(look=True, without=without, last=last)
        except OSError:
            self._drop()
            return
        self._looking, self._heard = True, now

    def _start(self, now: float) -> bool:
        if now < self._next_begin or len(self._hanging) >= MOST_HANGING:
            return False
        self._next_begin = now + RETRY_SECONDS
        if not self._environment and not library_there():
            self._unavailable = NO_LIBRARY
            self._seen.clear()
            return False
        try:
            self._link = self._begin(self._environment)
        except OSError as error:
            if not self._seen:
                self._unavailable = f"NVML cannot be read: no process can be started ({error.strerror})"
            return False
        return True

    def _give_up(self, now: float) -> None:
        """Gives up a process that has not answered for long. The process that replaces it leaves out the GPU
        on which NVML hangs."""
        if self._asking is not None:
            first, most = SET_ASIDE_SECONDS
            before = self._aside.get(self._asking)
            seconds = first if before is None else min(2 * before.seconds, most)
            self._aside[self._asking] = _Aside(seconds, now + seconds)
            self._next_begin = now
        self._drop()

    def _drop(self) -> None:
        link, self._link = self._link, None
        self._looking, self._asking = False, None
        if link is not None and not link.end():
            self._hanging.append(link)

    def _listen(self, patience_seconds: float) -> None:
        """Takes the answers that arrive within ``patience_seconds``."""
        if self._link is None or not self._looking:
            return
        try:
            for answer in self._link.answers(patience_seconds):
                self._take(answer)
                if not self._looking:
                    break
        except OSError:
            if not self._seen:
                self._unavailable = "NVML crashed the process that reads it"
            self._drop()

    def _take(self, answer: tuple[Any, ...]) -> None:
        what, *said = answer
        self._heard = now = self._clock()
        if what == "begun":
            self._driver, indexes = said
            self._unavailable = ""
            self._seen = {index: seen for index, seen in self._seen.items() if index in indexes}
            if self._indexes and tuple(indexes) != self._indexes:
                self._renumbered()
            self._indexes = tuple(indexes)
        elif what == "asking":
            [self._asking] = said
        elif what == "device":
            [device] = said
            self._asking = None
            self._aside.pop(device.index, None)
            before = self._seen.get(device.index)
            if before is not None and before[0].uuid and device.uuid not in ("", before[0].uuid):
                self._renumbered()
            self._seen[device.index] = device, now
            self._fresh.add(device.index)
            self._xids[_key(device)] = (*self._xids.get(_key(device), ()), *device.xids)
        elif what == "unavailable":
            [self._unavailable] = said
            self._seen.clear()
            self._looking, self._asking = False, None
        elif what == "costs":
            [self._costs] = said
        else:
            self._looking, self._asking = False, None

    def _renumbered(self) -> None:
        """Forgets on which GPUs NVML hung, and the last known states of these GPUs, because the GPUs have
        other numbers now."""
        for index in self._aside:
            self._seen.pop(index, None)
        self._aside.clear()

    # What is reported of the GPUs

    def _aged(self, device: Device, age: float) -> Device:
        """Returns ``device``; with its age if that is ``STALE_SECONDS`` or more."""
        if age < STALE_SECONDS:
            return device
        note = f"NVML has not answered for {age:.0f} s: the figures are that old"
        ages = dict.fromkeys(_figures(device), round(age, 1))
        ages |= {name: round(before + age, 1) for name, before in device.ages}
        return replace(device, notes=(*device.notes, note), ages=tuple(ages.items()))

    def _since_told(self, device: Device, age: float) -> Device:
        """Returns ``device``, which was read ``age`` seconds ago. Its counters are replaced by their
        increases since they were last reported: 0 the first time, None if there is no new value."""
        fresh = device.index in self._fresh
        changes = dict[str, Any](xids=self._xids.pop(_key(device), ()))
        ages = dict(device.ages)
        for name in DEVICE_COUNTERS:
            total = getattr(device, name)
            if total is None:
                continue
            if not fresh:
                changes[name], ages[name] = None, round(age, 1)
                continue
            place = _key(device), name
            before = self._told.get(place, total)
            # If a total is lower than before, the driver was loaded again and counts from 0.
            changes[name] = total - before if total >= before else total
            self._told[place] = total
        processes = tuple(self._resident_since(device, fresh))
        return replace(device, processes=processes, ages=tuple(ages.items()), **changes)

    def _resident_since(self, device: Device, fresh: bool) -> Iterator[DeviceProcess]:
        """Yields the processes on ``device``. Their times on the GPU, which are sums since the driver's log
        was opened, are replaced by the increases since they were last reported."""
        totals = {one.pid: one.resident_ns for one in device.processes if one.resident_ns is not None}
        before = self._resident.get(_key(device), {})
        for one in device.processes:
            total, since = totals.get(one.pid), None
            if fresh and total is not None:
                told = before.get(one.pid, 0)
                # If a total is lower than before, the process that reads NVML was replaced and sums anew.
                since = total - told if total >= told else total
            yield replace(one, resident_ns=since)
        if fresh and totals:
            # A process may be missing from one sample, and be listed again.
            known = {pid: total for pid, total in before.items() if pid not in totals} | totals
            self._resident[_key(device)] = dict(list(known.items())[-MOST_PROCESSES:])


def _figures(device: Device) -> Iterator[str]:
    """Yields the names of the main fields of a device that hold a momentary state and have a value."""
    for name in (
        *("utilization_percent", "memory_utilization_percent", "memory_used_bytes", "power_watts"),
        *("temperature_celsius", "sm_clock_mhz", "processes"),
    ):
        if getattr(device, name) not in (None, ()):
            yield name


def _key(device: Device) -> str:
    """Returns a key that identifies a device, even if the device cannot report its UUID."""
    return device.uuid or str(device.index)
