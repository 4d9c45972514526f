"""Computes which devices a CUDA program sees, and their ordinals, from the program's environment. Pure
functions.

The rules are those of the CUDA C++ Programming Guide ("CUDA Environment Variables") and of the MIG User Guide
("CUDA Device Enumeration"). If the rules do not say what the driver does, the result is None: not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from stalltop.model.devices.device import Device
from stalltop.model.devices.labels import parts_of

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
ORDER: Final = "CUDA_DEVICE_ORDER"
GIVEN: Final = "NVIDIA_VISIBLE_DEVICES"
"""Environment variable that tells the container runtime which devices to give to a container."""
STEP_GPUS: Final = "SLURM_STEP_GPUS"
"""Environment variable with the GPUs that Slurm gave to a step of a job, by their numbers on the host. The
variable ``JOB_GPUS`` has the GPUs of the whole job."""
JOB_GPUS: Final = "SLURM_JOB_GPUS"

Labels = tuple[str, ...]
"""Labels of devices (``model.devices.labels``), in the order of their ordinals; '' for an unknown device."""


class MigDevice(NamedTuple):
    """One MIG device of a GPU."""

    label: str
    uuid: str
    gpu_instance: int | None
    compute_instance: int | None


class VisibleGpu(NamedTuple):
    """One GPU of the host."""

    label: str
    uuid: str
    name: str
    mig: bool
    instances: tuple[MigDevice, ...]
    minor: int | None = None
    """The number N in the name of the GPU's device file ``/dev/nvidiaN``."""
    lost: bool = False
    """Whether the GPU does not answer any more."""
    shared: bool = True
    """Whether several processes may use the GPU. If not, a program whose threads choose no device gets the
    first free GPU."""


def gpus_of(devices: Sequence[Device]) -> tuple[VisibleGpu, ...]:
    """Returns, for each of ``devices``, the facts that decide whether programs see this device. The result
    has the order of the PCI bus ids, which is also NVML's order."""
    return tuple(
        VisibleGpu(
            device.label,
            device.uuid,
            device.name,
            bool(device.mig or device.instances),
            tuple(
                MigDevice(part.label, part.uuid, part.gpu_instance, part.compute_instance)
                for part in device.instances
            ),
            device.minor,
            device.lost,
            device.compute_mode in ("", "default"),
        )
        for device in sorted(devices, key=lambda device: device.index)
    )


def uuids_by_label(gpus: Sequence[VisibleGpu]) -> dict[str, str]:
    """Returns the UUIDs of GPUs without MIG and of MIG devices, by label. The UUIDs are in lower case and
    have no prefix."""
    found = {gpu.label: _plain(gpu.uuid) for gpu in gpus if not gpu.mig}
    found |= {part.label: _plain(part.uuid) for gpu in gpus for part in gpu.instances}
    return {label: uuid for label, uuid in found.items() if uuid}


def visible_devices(
    environment: Mapping[str, str], gpus: Sequence[VisibleGpu], *, contained: bool = False
) -> Labels | None:
    """Returns the devices of a program by ordinal, or None if they are not known.

    ``gpus`` are the GPUs that the program can open. ``contained`` says that the program is in a container, so
    that its environment may name the devices of the container.
    """
    seen = _seen(environment, gpus, contained=contained)
    left = [gpu for gpu in gpus if not gpu.lost]
    if len(left) < len(gpus) and _seen(environment, left, contained=contained) != seen:
        return None  # It is unknown whether the program began before the GPU was lost.
    return seen


def _seen(environment: Mapping[str, str], gpus: Sequence[VisibleGpu], *, contained: bool) -> Labels | None:
    allowed = _allowed(environment, gpus)
    if allowed is None:
        return None
    gpus = allowed
    every = _every(environment, gpus, contained=contained)
    chosen = environment.get(VISIBLE)
    if chosen is None:
        return every
    found: list[str] = []
    for word in (part.strip() for part in chosen.split(",")):
        if word.isdecimal():
            if every is None:
                return None
            if int(word) >= len(every):
                break  # The driver ignores this device and all that follow.
            label = every[int(word)]
        else:
            matches = _named(word, gpus)
            if matches is None:
                return None
            if len(matches) != 1:
                break
            label = matches[0]
        found.append(label)
    known = [label for label in found if label]
    return None if len(set(known)) < len(known) else tuple(found)


def _allowed(environment: Mapping[str, str], gpus: Sequence[VisibleGpu]) -> Sequence[VisibleGpu] | None:
    """Returns the GPUs that a program's cgroup allows it to open; None if they are not known. The cgroup
    itself does not show these GPUs.

    Slurm works in one of two ways. With ``ConstrainDevices``, a step can open only the GPUs that it was
    given, and numbers them from 0. Without ``ConstrainDevices``, a step can open all GPUs, and numbers all of
    them. The numbers in ``CUDA_VISIBLE_DEVICES``, which Slurm sets, show which way applies. If a task was
    given fewer GPUs than its step, the result is None, because the environment does not show which GPUs.
    """
    given = _numbers(environment.get(STEP_GPUS) or environment.get(JOB_GPUS) or "")
    chosen = environment.get(VISIBLE)
    words = None if chosen is None else _numbers(chosen)
    if given == [] or any(gpu.mig for gpu in gpus) or (chosen and words is None):
        # The program is not part of a Slurm job with GPUs, a GPU has MIG devices, or CUDA_VISIBLE_DEVICES
        # names devices by UUID.
        return gpus
    if given is None or words is None:
        return None
    if len(given) == len(gpus):
        return gpus
    if [gpu.minor for gpu in gpus] != list(range(len(gpus))) or max(given) >= len(gpus):
        # Slurm uses the numbers of the device files, and these are not the positions in ``gpus``.
        return None
    if words == given:
        return gpus
    return [gpus[number] for number in given] if words == list(range(len(given))) else None


def _numbers(text: str) -> list[int] | None:
    """Returns the numbers in ``text`` in ascending order; None if any word is not a number."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return sorted(map(int, words)) if all(word.isdecimal() for word in words) else None


def _every(environment: Mapping[str, str], gpus: Sequence[VisibleGpu], *, contained: bool) -> Labels | None:
    """Returns the devices that a program sees if it does not set CUDA_VISIBLE_DEVICES; None if they are not
    known."""
    if any(gpu.mig for gpu in gpus):
        # A program sees only one MIG device. Which one it is depends on the MIG devices that its container
        # may open.
        given = _given(environment.get(GIVEN, ""), gpus) if contained else None
        if given is None and len(gpus) == 1 and len(gpus[0].instances) == 1:
            return (gpus[0].instances[0].label,)
        return given
    if environment.get(ORDER, "").upper() != "PCI_BUS_ID" and len({gpu.name for gpu in gpus}) > 1:
        return None  # The fastest device comes first, and the driver does not document how it ranks models.
    return tuple(gpu.label for gpu in gpus)


def _given(words: str, gpus: Sequence[VisibleGpu]) -> Labels | None:
    """Returns the only device of a container, from ``words``, the value of ``NVIDIA_VISIBLE_DEVICES``; None
    if the container has several devices, or if they are not known."""
    parts = [word.strip() for word in words.split(",")]
    if len(parts) != 1:
        return None
    if parts_of(parts[0]) is not None:
        found = [part.label for gpu in gpus for part in gpu.instances if part.label == parts[0]]
    else:
        found = _named(parts[0], gpus) or []
    return (found[0],) if len(found) == 1 else None


def _named(word: str, gpus: Sequence[VisibleGpu]) -> list[str] | None:
    """Returns the labels of the devices that ``word`` names: a UUID, or the beginning of one. None if it is
    not known which devices these are."""
    lower = word.lower()
    if lower.startswith("mig-gpu-"):  # MIG-<UUID of the GPU>/<GPU instance>/<compute instance>
        uuid, _, place = lower.removeprefix("mig-").partition("/")
        return [
            part.label
            for gpu in gpus
            for part in gpu.instances
            if gpu.uuid.lower() == uuid and f"{part.gpu_instance}/{part.compute_instance}" == place
        ]
    if lower.startswith("mig-"):
        return [part.label for gpu in gpus for part in gpu.instances if part.uuid.lower().startswith(lower)]
    if not lower.startswith("gpu-"):
        return []
    matches = [gpu for gpu in gpus if gpu.uuid.lower().startswith(lower)]
    if len(matches) == 1 and matches[0].mig:
        return [part.label for part in matches[0].instances] if len(matches[0].instances) == 1 else None
    return [gpu.label for gpu in matches]


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("mig-").removeprefix("gpu-")
