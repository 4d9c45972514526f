"""Placement: on which devices the calls of a row ran, or can have run. All other code uses this module to
find out.

If the device was measured, the key of the row names it. Otherwise the calls can have run on any of the
devices on which, according to NVML, their process has a context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stalltop.model.devices.device import Device, DeviceProcess, MigInstance
from stalltop.model.devices.labels import order_of
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window

Labels = tuple[str, ...]
"""Labels of devices (see ``model.devices.labels``), sorted by index."""


@dataclass(frozen=True, slots=True)
class Placement:
    """On which devices each process of a window has a context."""

    by_process: Mapping[tuple[str, int], Labels] = field(default_factory=dict)
    """Devices by tenant and PID."""
    by_pid: Mapping[tuple[str, int], Labels] = field(default_factory=dict)
    """Devices by host and PID, for processes whose tenant is unknown."""

    def devices(self, key: RowKey) -> Labels:
        """Returns the devices that the calls of a row may have run on: the measured device, else all devices
        of the row's process; () if unknown."""
        if key.device:
            return (key.device,)
        found = self.by_process.get((key.tenant, key.pid))
        return self.by_pid.get((key.host, key.pid), ()) if found is None else found


def placement(window: Window) -> Placement:
    """Returns the devices of each process at the end of ``window``."""
    by_process: dict[tuple[str, int], set[str]] = {}
    by_pid: dict[tuple[str, int], set[str]] = {}
    for device in window.devices.devices:
        host = device.host or window.host
        for label, holder in _holders(device):
            if holder.tenant:
                by_process.setdefault((holder.tenant, holder.pid), set()).add(label)
            else:
                by_pid.setdefault((host, holder.pid), set()).add(label)
    return Placement(_sorted(by_process), _sorted(by_pid))


def held_bytes(window: Window) -> Mapping[tuple[str, int], Mapping[str, int]]:
    """Returns the device memory of each process at the end of ``window``, in bytes by label of the device.

    The key of a process is (tenant, PID), or (host, PID) if the tenant is unknown. Processes whose memory the
    driver does not report are left out.
    """
    found: dict[tuple[str, int], dict[str, int]] = {}
    for device in window.devices.devices:
        for label, holder in _holders(device):
            if holder.memory_bytes is not None:
                owner = holder.tenant or device.host or window.host
                found.setdefault((owner, holder.pid), {})[label] = holder.memory_bytes
    return found


def processes_on(device: Device, place: Device | MigInstance) -> tuple[DeviceProcess, ...]:
    """Returns the processes on ``place``, which is ``device`` or one of its MIG instances.

    The driver may list a process of a MIG instance with the instance or with the instance's GPU.
    """
    if isinstance(place, Device) or place.processes or place.gpu_instance is None:
        return place.processes
    return tuple(
        one
        for one in device.processes
        if one.gpu_instance == place.gpu_instance and one.compute_instance in (None, place.compute_instance)
    )


def _holders(device: Device) -> Iterator[tuple[str, DeviceProcess]]:
    """Yields (label, process) for each process on ``device``; the label is that of the GPU, or of the MIG
    device on which the process runs."""
    inside = set()
    for instance in device.instances:
        for holder in processes_on(device, instance):
            inside.add(holder.pid)
            yield instance.label, holder
    for holder in device.processes:
        # A process that the driver lists both for the GPU and for a MIG device runs on the MIG device.
        if holder.pid not in inside:
            yield device.label, holder


def _sorted(found: Mapping[tuple[str, int], set[str]]) -> dict[tuple[str, int], Labels]:
    return {who: tuple(sorted(labels, key=order_of)) for who, labels in found.items()}
