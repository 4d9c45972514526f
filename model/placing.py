"""On which devices the calls of a row ran: the one place where that is decided. Pure functions.

Calls are not traced down to a device. What is known is which processes hold a context on which devices (NVML
lists them), and so on which devices a process can have made its calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.cpu_list import list_of
from model.window import RowKey, Window

Indices = tuple[int, ...]
"""Numbers of devices, as the driver numbers them on their host; ascending."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Which processes of a window are on which devices."""

    by_process: Mapping[tuple[str, int], Indices] = field(default_factory=dict)
    """By tenant and process id."""
    by_pid: Mapping[tuple[str, int], Indices] = field(default_factory=dict)
    """By host and process id, where the tenant of a process is not told."""

    def devices(self, key: RowKey) -> Indices:
        """The devices that the calls of a row may have run on; none where that is not known."""
        found = self.by_process.get((key.tenant, key.pid))
        return self.by_pid.get((key.host, key.pid), ()) if found is None else found


def placement(window: Window) -> Placement:
    """Which processes are on which devices at the end of ``window``."""
    by_process: dict[tuple[str, int], set[int]] = {}
    by_pid: dict[tuple[str, int], set[int]] = {}
    for device in window.devices.devices:
        for holder in device.processes:
            if holder.tenant:
                by_process.setdefault((holder.tenant, holder.pid), set()).add(device.index)
            else:
                by_pid.setdefault((window.host, holder.pid), set()).add(device.index)
    return Placement(_sorted(by_process), _sorted(by_pid))


def _sorted(found: Mapping[tuple[str, int], set[int]]) -> dict[tuple[str, int], Indices]:
    return {who: tuple(sorted(indices)) for who, indices in found.items()}


def text_of(indices: Indices) -> str:
    """Devices for a person: ``0``, ``0-3,6``; empty where none is known."""
    return list_of(indices)
