"""Reads the MIG devices of a GPU. A MIG device is a part of a GPU that programs see as a GPU of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from stalltop.model.devices.device import DeviceProcess, MigInstance
from stalltop.model.text.clean import clean
from stalltop.probes.nvml.asking import Asking, NvmlCallError
from stalltop.probes.nvml.processes import listed, together
from stalltop.probes.nvml.questions import memory

T = TypeVar("T")

MOST_INSTANCES: Final = 64
"""Maximum number of MIG devices of a GPU that are looked for, even if the driver reports more. A GPU has at
most 7."""
_MOST_BYTES: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Instance:
    """One MIG device and its NVML handle."""

    handle: Any
    index: int
    uuid: str
    profile: str
    gpu_instance: int | None
    compute_instance: int | None


def instances(ask: Asking, gpu: Any) -> tuple[Instance, ...]:
    """Returns all present MIG devices; none if MIG is off. Raises what ``ask`` raises."""
    found = []
    for index in range(min(int(ask("nvmlDeviceGetMaxMigDeviceCount", gpu)), MOST_INSTANCES)):
        try:
            handle = ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu, index)
        except NvmlCallError:  # There is no device with this index: indexes have gaps.
            continue
        found.append(_instance(ask, index, handle))
    return tuple(found)


def _instance(ask: Asking, index: int, handle: Any) -> Instance:
    return Instance(
        handle,
        index,
        _known(lambda: clean(ask("nvmlDeviceGetUUID", handle))) or "",
        _known(lambda: _profile(ask, handle)) or "",
        _known(lambda: int(ask("nvmlDeviceGetGpuInstanceId", handle))),
        _known(lambda: int(ask("nvmlDeviceGetComputeInstanceId", handle))),
    )


def read(ask: Asking, gpu: int, instance: Instance) -> MigInstance:
    """Returns a MIG device of GPU ``gpu`` as it is now. Fields that it does not report are None."""
    told = _known(lambda: memory(ask, instance.handle)) or (None, None)
    used, total = (int(n) if n is not None and 0 <= n <= _MOST_BYTES else None for n in told)
    holders, told_of = _processes(ask, instance.handle)
    return MigInstance(
        gpu,
        instance.index,
        instance.uuid,
        instance.profile,
        instance.gpu_instance,
        instance.compute_instance,
        used,
        total,
        holders,
        told_of,
    )


def _processes(ask: Asking, handle: Any) -> tuple[tuple[DeviceProcess, ...], bool]:
    """Returns the processes on a MIG device, and whether its processes are known. Some drivers list processes
    only by GPU, not by MIG device: then the list is empty, and ``with_processes`` adds the processes."""
    try:
        return together({"C": listed(ask, handle, "Compute")}), True
    except NvmlCallError as none:
        return (), none.unsupported


def with_processes(
    instances: tuple[MigInstance, ...], processes: tuple[DeviceProcess, ...]
) -> tuple[MigInstance, ...]:
    """Returns ``instances`` with their processes. ``processes`` are all processes of the GPU; each MIG device
    gets those that run on it."""
    return tuple(
        replace(one, processes=tuple(process for process in processes if _is_on(process, one)))
        for one in instances
    )


def _is_on(process: DeviceProcess, instance: MigInstance) -> bool:
    if any(process.pid == listed_.pid for listed_ in instance.processes):
        return True
    known = process.gpu_instance is not None and process.compute_instance is not None
    at = process.gpu_instance, process.compute_instance
    return known and at == (instance.gpu_instance, instance.compute_instance)


def _profile(ask: Asking, handle: Any) -> str:
    """Returns the MIG profile, taken from the device's name (``NVIDIA H100 80GB HBM3 MIG 1g.10gb``). If the
    name has none, the profile is derived from the numbers of slices and the memory size."""
    _, said, profile = clean(ask("nvmlDeviceGetName", handle)).rpartition(" MIG ")
    if said:
        return profile
    made = ask("nvmlDeviceGetAttributes_v2", handle)
    gpu, compute = int(made.gpuInstanceSliceCount), int(made.computeInstanceSliceCount)
    part = f"{compute}c." if compute != gpu else ""
    return f"{part}{gpu}g.{round(int(made.memorySizeMB) / 1024)}gb"


def _known(question: Callable[[], T]) -> T | None:
    try:
        return question()
    except NvmlCallError:
        return None
