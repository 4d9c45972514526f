"""The GPUs, read beside the thread that makes windows: a driver that hangs never holds up a window."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from model.device import DEVICE_COUNTERS, Device, Devices
from probes.aside import Aside
from probes.nvml import Nvml, NvmlUnavailable
from probes.text import clean

PATIENCE_SECONDS = 0.3
"""How long a read waits for figures of now; eight GPUs take some tens of ms."""
STALE_SECONDS = 3.0
"""Figures older than this are marked with their age."""
RETRY_SECONDS = 15.0
"""How often a driver that was not there is looked for again."""


class OpenNvml(Protocol):
    """What is used of `probes.nvml.Nvml`."""

    driver: str

    def devices(self) -> tuple[Device, ...]:
        """All GPUs now."""
        ...

    def close(self) -> None:
        """Shut down."""
        ...


@dataclass(frozen=True, slots=True)
class _Seen:
    devices: Devices
    clock: float


class DeviceReader:
    """Gives the GPUs as they were a moment ago. Used from one thread; NVML is only touched in another.

    Whatever counts (``DEVICE_COUNTERS``, XIDs) is told once: each read gives what came since the read before,
    also where some figures of NVML came too late to be given at all.
    """

    def __init__(
        self,
        open_nvml: Callable[[], OpenNvml] = Nvml,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float | None = None,
    ) -> None:
        self._open_nvml = open_nvml
        self._clock = clock
        self._patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._aside = Aside("devices")
        self._nvml: OpenNvml | None = None
        self._seen: _Seen | None = None
        self._next_open = clock()
        self._began = clock()
        self._closed = False
        self._told: dict[tuple[str, str], int] = {}
        """The driver's totals that were told last, by device and counter."""
        self._xids: deque[tuple[str, int]] = deque()
        """Reported and not told yet, with their device."""
        self._aside.call(self._poll, 0)  # opening may take seconds where the driver keeps no state

    def read(self) -> Devices:
        """The GPUs now, or as last seen, with a note of the age, where the driver does not answer."""
        if not self._closed and not self._aside.busy:
            self._aside.call(self._poll, self._patience)
        elif self._seen is None and self._clock() - self._began < STALE_SECONDS:
            self._aside.wait(self._patience)  # still opening
        seen, now = self._seen, self._clock()
        if seen is None:
            waited = now - self._began
            said = "NVML is starting" if waited < STALE_SECONDS else "NVML does not answer"
            return Devices(unavailable=f"{said} ({waited:.0f} s)")
        age = now - seen.clock
        devices = self._since_told(seen.devices.devices)
        if age >= STALE_SECONDS:
            note = f"NVML has not answered for {age:.0f} s: the figures are as old"
            devices = tuple(replace(device, notes=(*device.notes, note)) for device in devices)
        return replace(seen.devices, devices=devices)

    def close(self) -> None:
        """Shut NVML down, unless it hangs; never waits longer than a read. May be called twice."""
        if not self._closed:
            self._closed = True
            self._aside.call(self._shut, self._patience)
            self._aside.close()

    def _since_told(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """``devices`` with what they count as differences to what was told before; 0 the first time."""
        xids = dict[str, tuple[int, ...]]()
        while self._xids:
            key, xid = self._xids.popleft()
            xids[key] = (*xids.get(key, ()), xid)
        found = []
        for device in devices:
            changes = dict[str, Any]()
            for name in DEVICE_COUNTERS:
                total = getattr(device, name)
                if total is not None:
                    place = _key(device), name
                    # A total that is lower begins anew: the driver was loaded again.
                    changes[name] = max(total - self._told.get(place, total), 0)
                    self._told[place] = total
            found.append(replace(device, xids=xids.get(_key(device), ()), **changes))
        return tuple(found)

    # In the thread beside

    def _poll(self) -> None:
        try:
            if self._nvml is None:
                if self._clock() < self._next_open:
                    return
                self._nvml = self._open_nvml()
            devices = self._nvml.devices()
            self._xids.extend((_key(device), xid) for device in devices for xid in device.xids)
            found = Devices(devices, driver=self._nvml.driver)
        except NvmlUnavailable as reason:
            self._shut()
            found = Devices(unavailable=str(reason))
        except Exception as error:  # a binding that does not fit its library: this costs the devices only
            self._shut()
            found = Devices(unavailable=clean(f"NVML failed: {type(error).__name__}: {error}"))
        self._seen = _Seen(found, self._clock())

    def _shut(self) -> None:
        nvml, self._nvml = self._nvml, None
        self._next_open = self._clock() + RETRY_SECONDS
        if nvml is not None:
            nvml.close()


def _key(device: Device) -> str:
    """What a device is told by, also where it is too broken to say who it is."""
    return device.uuid or str(device.index)
