"""Which GPU of the host the calls of a process ran on: from the process's own ordinals to labels.

A process counts the devices that it sees from 0. What it sees is told, the surer one first, by the UUIDs
that it asked the driver for; by its environment and the device files that it can open, unless NVML
contradicts that: it lists processes by the GPUs that they hold. What is not known is left empty: it is never
guessed.

Where a process sees one device, all its calls ran there, whatever is known of its threads. So such a process
has its rows under one label from the first window to the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stalltop.model.devices.device import Devices
from stalltop.model.devices.labels import UNKNOWN, gpu_of
from stalltop.probes.cuda_devices.process_sight import Program, Sight, Sights, Unseen
from stalltop.probes.cuda_devices.visible_devices import Gpu, Labels, gpus_of, uuids_by_label, visible_devices
from stalltop.probes.layout import UNKNOWN_DEVICE
from stalltop.probes.maps.cuda_programs import NO_PROGRAM, CudaProgram

_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_UUID: Final = re.compile(r"^GPU UUID:\s*(\S+)", re.MULTILINE)
_LOOKS: Final = 2
"""A list of processes that was asked for so many windows after a call is younger than the call."""


@dataclass(frozen=True, slots=True)
class _View:
    """What one program sees."""

    by_uuid: Mapping[int, str]
    visible: tuple[Labels, ...]
    """What it may see; none where that is not known."""
    watched: bool
    listed: frozenset[int]
    """GPUs on which NVML lists it."""
    shared: bool
    """All that it sees may be shared: the first device is the same for all of its threads."""

    def label(self, device: int, *, is_listed: bool) -> str:
        """``is_listed``: were calls made there, NVML's list would show it."""
        if len(self.visible) == 1 == len(self.visible[0]):
            return self.by_uuid.get(0, self.visible[0][0])  # whatever it chose
        if device == UNKNOWN_DEVICE or not (device or self.watched):
            return UNKNOWN
        ordinal = max(device - 1, 0)
        if ordinal in self.by_uuid:
            return self.by_uuid[ordinal]
        found = {labels[ordinal] for labels in self.visible if ordinal < len(labels)}
        if self.listed and is_listed:
            found = {label for label in found if gpu_of(label) in self.listed}
        elif not (self.shared or ordinal):
            return UNKNOWN
        return found.pop() if len(found) == 1 else UNKNOWN


@dataclass(slots=True)
class _Known:
    """What is remembered of a program."""

    visible: tuple[tuple[str, ...], ...] | None
    """UUIDs of what it may see, by its files. It goes on with what it saw first, whatever becomes of the
    host's GPUs. None: not known."""
    begun: int
    """The look at the devices at which it was seen first."""
    chosen: dict[int, int] = field(default_factory=dict)
    """The same of each device that it called on."""


class ProcessDevices:
    """Labels of devices for the calls of processes. Used from one thread.

    ``program_of`` tells of a process what the kernel side saw; ``uninitialized`` whether it was seen with
    CUDA's runtime, probed, before it had CUDA's driver.
    """

    def __init__(
        self,
        program_of: Callable[[int], CudaProgram] = lambda pid: NO_PROGRAM,
        uninitialized: Callable[[int], bool] = lambda pid: False,
        root: Path = Path("/"),
        patience_seconds: float | None = None,
    ) -> None:
        self._program_of = program_of
        self._uninitialized = uninitialized
        self._root = root
        self._sights = Sights(root, patience_seconds)
        self._told: tuple[Gpu, ...] = ()
        self._gpus: tuple[Gpu, ...] = ()
        """The same, with what the driver's files tell of them."""
        self._uuids: Mapping[str, str] = {}
        """By label."""
        self._labels: Mapping[str, str] = {}
        """By UUID."""
        self._listed: Mapping[int, frozenset[int]] = {}
        self._looks = 0
        """At the devices, with an answer of now."""
        self._known: dict[Program, _Known] = {}
        self._views: dict[int, tuple[_View, _Known]] = {}
        """Of this window."""

    def begin(self, devices: Devices, *, same_numbers: bool = True) -> None:
        """A new window, with the devices as they are now; without any, those of before are still there.

        ``same_numbers``: the driver tells processes by the numbers that they have here.
        """
        self._views.clear()
        self._sights.begin()
        if not devices.devices:
            return
        told = gpus_of(devices.devices)
        if told != self._told:
            self._told, self._gpus = told, _with_minors(told, self._root)
            self._uuids = uuids_by_label(told)
            self._labels = {uuid: label for label, uuid in self._uuids.items()}
            self._known = {key: known for key, known in self._known.items() if known.visible is not None}
        if not any("processes" in dict(device.ages) for device in devices.devices):
            self._looks += 1
        listed: dict[int, set[int]] = {}
        for device in devices.devices if same_numbers else ():
            for holder in (
                *device.processes,
                *(each for part in device.instances for each in part.processes),
            ):
                if holder.kind != "G":  # a display is another matter than what CUDA sees
                    listed.setdefault(holder.pid, set()).add(device.index)
        self._listed = {pid: frozenset(indices) for pid, indices in listed.items()}

    def label(self, pid: int, device: int) -> str:
        """The label of ``device`` of process ``pid``; empty where it is not known.

        ``device`` is as the kernel side has it: the ordinal + 1, 0 or ``layout.UNKNOWN_DEVICE``.
        """
        if not self._gpus:
            return UNKNOWN
        if pid not in self._views:
            self._views[pid] = self._view(pid)
        view, known = self._views[pid]
        at = known.chosen.setdefault(device, self._looks)
        return view.label(device, is_listed=at == known.begun or self._looks - at >= _LOOKS)

    def forget(self, pid: int) -> None:
        """The process has ended, and all that was counted of it was read."""
        self._views.pop(pid, None)
        self._sights.forget(pid)
        for key in [key for key in self._known if key[0] == pid]:
            del self._known[key]

    def close(self) -> None:
        """Look at no more processes. May be called twice."""
        self._sights.close()

    def _view(self, pid: int) -> tuple[_View, _Known]:
        program = self._program_of(pid)
        asked = {ordinal: self._labels.get(uuid, UNKNOWN) for ordinal, uuid in program.uuids.items()}
        known = self._known_of((pid, program.born_ns))
        listed = self._listed.get(pid, frozenset())
        visible = tuple(
            tuple(self._labels.get(uuid, UNKNOWN) for uuid in uuids) for uuids in known.visible or ()
        )
        seen = {gpu_of(label) for labels in visible for label in labels}
        view = _View(
            {ordinal: label for ordinal, label in asked.items() if label},
            tuple(labels for labels in visible if UNKNOWN in labels or listed <= set(map(gpu_of, labels))),
            program.watched or self._uninitialized(pid),
            listed,
            all(gpu.shared for gpu in self._gpus if gpu_of(gpu.label) in seen),
        )
        return view, known

    def _known_of(self, key: Program) -> _Known:
        known = self._known.get(key)
        if known is None:
            try:
                visible = self._visible(self._sights.of(key))
            except Unseen:
                return _Known(None, self._looks)
            uuids = tuple(tuple(self._uuids.get(label, "") for label in labels) for labels in visible)
            known = self._known[key] = _Known(uuids or None, self._looks)
        return known

    def _visible(self, sight: Sight | None) -> tuple[Labels, ...]:
        """What a program may see by its files; nothing where that is not known."""
        if len(self._gpus) == 1 and not self._gpus[0].mig and (sight is None or len(sight.environments) > 1):
            return ((self._gpus[0].label,),)
        gpus = None if sight is None else _openable(self._gpus, sight.files)
        if sight is None or gpus is None or (len(gpus) > 1 and sight.mps):
            return ()  # a client of MPS counts what the server lets it see
        found = [visible_devices(each, gpus, contained=sight.contained) for each in sight.environments]
        known = [labels for labels in found if labels is not None]
        return tuple(dict.fromkeys(known)) if len(known) == len(found) else ()


def _openable(gpus: tuple[Gpu, ...], files: frozenset[int]) -> tuple[Gpu, ...] | None:
    """The GPUs whose device files a program has: a container may be given some. None: not known."""
    minors = {gpu.minor for gpu in gpus}
    if not files or minors == files:
        return gpus
    if None in minors:
        return gpus if len(files) == len(gpus) else None
    # With files of others it may see GPUs that are not known here, as this process may be in a container too.
    return tuple(gpu for gpu in gpus if gpu.minor in files) if files <= minors else None


def _with_minors(gpus: tuple[Gpu, ...], root: Path) -> tuple[Gpu, ...]:
    if all(gpu.minor is not None for gpu in gpus):
        return gpus
    minors = {uuid: minor for minor, uuid in _minors(root).items()}
    return tuple(gpu._replace(minor=minors.get(gpu.uuid) if gpu.minor is None else gpu.minor) for gpu in gpus)


def _minors(root: Path) -> dict[int, str]:
    """UUIDs of GPUs by the number of their device file, as the driver tells; empty where it does not."""
    found = {}
    try:
        for folder in (root / "proc/driver/nvidia/gpus").iterdir():
            text = (folder / "information").read_text(errors="replace")
            minor, uuid = _MINOR.search(text), _UUID.search(text)
            if minor and uuid:
                found[int(minor[1])] = uuid[1]
    except OSError:
        return {}
    return found
