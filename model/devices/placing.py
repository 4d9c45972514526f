"""On which devices the calls of a row ran: the one place where that is decided. Pure functions.

Where it was measured, the row itself says it. Else it is known which processes hold a context on which
devices (NVML lists them), and so on which ones a process can have made its calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stalltop.model.devices.device import Device, DeviceProcess, MigInstance
from stalltop.model.devices.labels import order_of
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window

Labels = tuple[str, ...]
"""Labels of devices (see ``model.devices.labels``), in the order of their numbers."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Which processes of a window are on which devices."""

    by_process: Mapping[tuple[str, int], Labels] = field(default_factory=dict)
    """By tenant and process id."""
    by_pid: Mapping[tuple[str, int], Labels] = field(default_factory=dict)
    """By host and process id, where the tenant of a process is not told."""

    def devices(self, key: RowKey) -> Labels:
        """The devices that the calls of a row may have run on: the one that is known, else those of its
        process; none where these are not known either."""
        if key.device:
            return (key.device,)
        found = self.by_process.get((key.tenant, key.pid))
        return self.by_pid.get((key.host, key.pid), ()) if found is None else found


def placement(window: Window) -> Placement:
    """Which processes are on which devices at the end of ``window``."""
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


def processes_on(device: Device, place: Device | MigInstance) -> tuple[DeviceProcess, ...]:
    """The processes on a GPU, or on one of its MIG instances: the driver lists them with the instance or with
    its GPU."""
    if isinstance(place, Device) or place.processes or place.gpu_instance is None:
        return place.processes
    return tuple(
        one
        for one in device.processes
        if one.gpu_instance == place.gpu_instance and one.compute_instance in (None, place.compute_instance)
    )


def _holders(device: Device) -> Iterator[tuple[str, DeviceProcess]]:
    """The processes on a device, each with the label of the part of it that it is on."""
    inside = set()
    for instance in device.instances:
        for holder in processes_on(device, instance):
            inside.add(holder.pid)
            yield instance.label, holder
    for holder in device.processes:
        # One that the driver lists for the whole board as well is on its MIG device.
        if holder.pid not in inside:
            yield device.label, holder


def _sorted(found: Mapping[tuple[str, int], set[str]]) -> dict[tuple[str, int], Labels]:
    return {who: tuple(sorted(labels, key=order_of)) for who, labels in found.items()}
