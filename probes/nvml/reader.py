"""The GPUs, read in another process: a driver that hangs never holds up a window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from stalltop.model.call_cost import CallCost
from stalltop.model.devices.device import DEVICE_COUNTERS, Device, Devices
from stalltop.probes.nvml.link import NO_LIBRARY, Link, library_there

PATIENCE_SECONDS: Final = 0.3
"""How long a read waits for figures of now; eight GPUs take some tens of ms."""
STALE_SECONDS: Final = 3.0
"""Figures older than this are marked with their age."""
RETRY_SECONDS: Final = 15.0
"""How often a driver that was not there is looked for again."""
HANG_SECONDS: Final = 30.0
"""After so long without a word, the process that reads NVML is ended and another one begun. Opening NVML
takes seconds for each GPU where the driver does not keep them ready."""
SET_ASIDE_SECONDS: Final = (60.0, 600.0)
"""How long a GPU on which it hung is not asked, at first and at most: that time doubles with each hang."""
MOST_HANGING: Final = 4
"""Processes that hang inside the kernel and cannot be ended: with so many, no other one is begun."""


class Reading(Protocol):
    """What is used of `probes.nvml.link.Link`."""

    def ask(self, **request: object) -> None:
        """Send a request. Raises OSError."""
        ...

    def answers(self, patience_seconds: float) -> Iterator[tuple[Any, ...]]:
        """What comes within this time. Raises OSError."""
        ...

    def end(self) -> bool:
        """End it; whether it is gone."""
        ...

    def gone(self) -> bool:
        """Whether it has ended."""
        ...


@dataclass(slots=True)
class _Aside:
    """A GPU on which NVML hung."""

    seconds: float
    until: float


class DeviceReader:
    """Gives the GPUs as they were a moment ago. Used from one thread; only another process touches NVML.

    Whatever counts (``DEVICE_COUNTERS``, XIDs) is told once: each read gives what came since the one before
    that had it. Where NVML told nothing new in time, a counter is None: what came is in the next read.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        begin: Callable[[Mapping[str, str]], Reading] = Link,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float | None = None,
    ) -> None:
        """``environment``: what is set for the process that reads, such as where its library is."""
        self._environment = environment or {}
        self._begin = begin
        self._clock = clock
        self._patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._link: Reading | None = None
        self._hanging: list[Reading] = []
        self._began = self._heard = clock()
        self._next_begin = clock()
        self._looking = False
        self._asking: int | None = None
        """The GPU that is being asked."""
        self._aside: dict[int, _Aside] = {}
        self._closed = False
        self._unavailable = ""
        self._driver = ""
        self._seen: dict[int, tuple[Device, float]] = {}
        """What was last told of each GPU, and when."""
        self._costs: tuple[CallCost, ...] | None = None
        self._fresh: set[int] = set()
        """GPUs of which something was told since the read before, by index."""
        self._indexes: tuple[int, ...] = ()
        self._told: dict[tuple[str, str], int] = {}
        """The driver's totals that were told last, by device and counter."""
        self._xids: dict[str, tuple[int, ...]] = {}
        """Reported and not told yet, by device."""
        self._look()  # opening may take seconds where the driver keeps no state

    def read(self) -> Devices:
        """The GPUs now, or as last seen, with a note of the age, where the driver does not answer."""
        if not self._closed:
            fresh = not self._looking
            self._look()
            # A look that was under way already is not waited for, but the first one.
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
        """Whether an answer of NVML is still to come."""
        return self._looking

    def costs(self, patience_seconds: float) -> tuple[CallCost, ...]:
        """What the calls of NVML took so far, the dearest first; none where it is not told in this time."""
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
        """End the process that reads, without waiting for a driver that hangs. May be called twice."""
        self._closed = True
        self._drop()

    # The process that reads

    def _look(self) -> None:
        """Have a look begun, unless one is under way."""
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
                self._unavailable = f"NVML cannot be read: no process can be begun ({error.strerror})"
            return False
        return True

    def _give_up(self, now: float) -> None:
        """Nothing was heard for long: have another process go on without the GPU that this one hangs on."""
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
        """Take in what it says, for at most so long."""
        if self._link is None or not self._looking:
            return
        try:
            for answer in self._link.answers(patience_seconds):
                self._take(answer)
                if not self._looking:
                    break
        except OSError:
            if not self._seen:
                self._unavailable = "NVML took the process down that reads it"
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
        """GPUs have other numbers than before: nobody knows which of them NVML hung on."""
        for index in self._aside:
            self._seen.pop(index, None)
        self._aside.clear()

    # What is told of them

    def _aged(self, device: Device, age: float) -> Device:
        """``device`` with its age, where that is worth a word."""
        if age < STALE_SECONDS:
            return device
        note = f"NVML has not answered for {age:.0f} s: the figures are as old"
        ages = dict.fromkeys(_figures(device), round(age, 1))
        ages |= {name: round(before + age, 1) for name, before in device.ages}
        return replace(device, notes=(*device.notes, note), ages=tuple(ages.items()))

    def _since_told(self, device: Device, age: float) -> Device:
        """``device``, seen so many seconds ago, with what it counts as differences to what was told before:
        0 the first time, None where nothing new is known."""
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
            # A total that is lower begins anew (the driver was loaded again): all of it came since.
            changes[name] = total - before if total >= before else total
            self._told[place] = total
        return replace(device, ages=tuple(ages.items()), **changes)


def _figures(device: Device) -> Iterator[str]:
    """Names of the fields of a device that tell what was true at a moment."""
    for name in (
        *("utilization_percent", "memory_utilization_percent", "memory_used_bytes", "power_watts"),
        *("temperature_celsius", "sm_clock_mhz", "processes"),
    ):
        if getattr(device, name) not in (None, ()):
            yield name


def _key(device: Device) -> str:
    """What a device is told by, also where it is too broken to say who it is."""
    return device.uuid or str(device.index)
