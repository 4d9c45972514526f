"""Who the processes on the devices are: NVML lists them by process id alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from model.device import DeviceProcess, Devices


def with_owners(devices: Devices, tenant_of: Callable[[int], str], name_of: Callable[[int], str]) -> Devices:
    """``devices`` with tenant (id) and name of each process on them and on their MIG devices."""
    known: dict[int, tuple[str, str]] = {}

    def owned(processes: Iterable[DeviceProcess]) -> tuple[DeviceProcess, ...]:
        found = []
        for process in processes:
            if process.pid not in known:
                known[process.pid] = tenant_of(process.pid), name_of(process.pid)
            tenant, name = known[process.pid]
            found.append(replace(process, tenant=tenant, process=name))
        return tuple(found)

    return replace(
        devices,
        devices=tuple(
            replace(
                device,
                processes=owned(device.processes),
                instances=tuple(replace(one, processes=owned(one.processes)) for one in device.instances),
            )
            for device in devices.devices
        ),
    )
