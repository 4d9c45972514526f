"""Finds the tenants of the processes on devices, because NVML lists only PIDs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from stalltop.model.devices.device import DeviceProcess, Devices
from stalltop.model.window import Missing
from stalltop.probes.tenants.host_files import sees_host_pids

OTHER_NUMBERS: Final = Missing(
    "processes on GPUs",
    "the driver lists PIDs of the host, and processes have other PIDs in this container",
    "run with --pid=host",
)


def with_owners(devices: Devices, tenant_of: Callable[[int], str], name_of: Callable[[int], str]) -> Devices:
    """Returns ``devices`` with the tenant id and name of each process on them and on their MIG devices.

    A process whose tenant is unknown (``tenant_of`` returns '') gets no name either, because its PID may
    belong to another process in this PID namespace.
    """
    known: dict[int, tuple[str, str]] = {}

    def owned(processes: Iterable[DeviceProcess]) -> tuple[DeviceProcess, ...]:
        found = []
        for process in processes:
            if process.pid not in known:
                owner = tenant_of(process.pid)
                known[process.pid] = owner, name_of(process.pid) if owner else ""
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


def holders(devices: Devices) -> set[int]:
    """Returns the processes with known tenants on the devices and on their MIG devices."""
    return {process.pid for process in listed(devices) if process.tenant}


def listed(devices: Devices) -> Iterator[DeviceProcess]:
    """Yields the processes on the devices and on their MIG devices; a process may be yielded for both."""
    for device in devices.devices:
        yield from device.processes
        for instance in device.instances:
            yield from instance.processes


def numbered_otherwise() -> bool:
    """Returns whether the PIDs that a driver lists may belong to other processes in this PID namespace."""
    try:
        return not sees_host_pids()
    except OSError:
        return False
