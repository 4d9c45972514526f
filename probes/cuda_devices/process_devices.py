"""Finds on which GPU of the host the calls of a process ran: translates the process's own ordinals to labels.

A process numbers the devices that it sees, beginning with 0. There are two sources for the list of these
devices. The more reliable source is the UUIDs that the process asked the driver for. The other source is its
environment and the device files that it can open. The other source is not used if it contradicts NVML, which
lists the processes on each GPU. An unknown label is left empty, never guessed.

If a process sees only one device, all its calls count as calls on this device, even if the devices that its
threads chose are unknown. So all windows have its rows under one label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stalltop.model.devices.device import Devices
from stalltop.model.devices.labels import UNKNOWN, gpu_of
from stalltop.probes.cuda_devices.process_sight import ProcessNotVisibleError, Program, Sight, Sights
from stalltop.probes.cuda_devices.visible_devices import (
    Labels,
    VisibleGpu,
    gpus_of,
    uuids_by_label,
    visible_devices,
)
from stalltop.probes.layout import UNKNOWN_DEVICE
from stalltop.probes.maps.cuda_programs import NO_PROGRAM, CudaProgram

_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_UUID: Final = re.compile(r"^GPU UUID:\s*(\S+)", re.MULTILINE)
_LOOKS: Final = 2
"""Number of device samples. Once this many were taken after a call, NVML's list of processes is certainly
newer than the call."""


@dataclass(frozen=True, slots=True)
class _View:
    """The devices that one program sees."""

    by_uuid: Mapping[int, str]
    visible: tuple[Labels, ...]
    """Candidates: each is a list of the devices that the program may see, and one of the lists is right.
    Empty if nothing is known."""
    watched: bool
    listed: frozenset[int]
    """GPUs on which NVML lists the program."""
    shared: bool
    """Whether several processes may use each of the devices. If not (exclusive compute mode), a thread that
    chooses no device gets the first free device; it is unknown which one that is."""

    def label(self, device: int, *, is_listed: bool) -> str:
        """Returns the label of ``device``.

        ``is_listed`` says that NVML's list is newer than the calls for ``device``. The list then has the
        program on the GPU of these calls.
        """
        if len(self.visible) == 1 == len(self.visible[0]):
            # A program that sees only one device uses this device, whatever its thread chose.
            return self.by_uuid.get(0, self.visible[0][0])
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
    """Facts about a program that are kept from window to window."""

    visible: tuple[tuple[str, ...], ...] | None
    """Candidates: each is a list of the devices that the program may see, as UUIDs, according to its
    environment and device files; None if not known. The first result is kept, because a program sees the same
    devices even if the host's GPUs change."""
    begun: int
    """Number of the device sample in which the program was first seen."""
    chosen: dict[int, int] = field(default_factory=dict)
    """By device: number of the device sample in which calls of the program first used it."""


class ProcessDevices:
    """Finds the labels of the devices that processes' calls are for. Used from one thread.

    ``program_of`` returns the kernel side's record of the program that a process runs. ``uninitialized``
    returns True if a process had a probed CUDA runtime before it loaded CUDA's driver.
    """

    def __init__(
        self,
        program_of: Callable[[int], CudaProgram] = lambda pid: NO_PROGRAM,
        uninitialized: Callable[[int], bool] = lambda pid: False,
        root: Path = Path("/"),
        patience_seconds: float | None = None,
        read: Callable[[int], Sight] | None = None,
    ) -> None:
        """``read`` is passed to `Sights`."""
        self._program_of = program_of
        self._uninitialized = uninitialized
        self._root = root
        self._sights = Sights(root, patience_seconds, read=read)
        self._told: tuple[VisibleGpu, ...] = ()
        self._gpus: tuple[VisibleGpu, ...] = ()
        """The GPUs of ``_told``, with the numbers of their device files added from the driver's files in
        /proc."""
        self._uuids: Mapping[str, str] = {}
        """UUIDs by label."""
        self._labels: Mapping[str, str] = {}
        """Labels by UUID."""
        self._listed: Mapping[int, frozenset[int]] = {}
        self._looks = 0
        """Number of device samples so far in which the driver's process lists were freshly read."""
        self._known: dict[Program, _Known] = {}
        self._views: dict[int, tuple[_View, _Known]] = {}
        """By PID: the views of the processes for which ``label`` was called in this window."""

    def begin(self, devices: Devices, *, same_numbers: bool = True) -> None:
        """Begins a new window with the current devices; if there are none, the previous devices are kept.

        ``same_numbers`` says that the PIDs in the driver's lists are those of this PID namespace.
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
                if holder.kind != "G":  # A graphics process gives no evidence of the devices that CUDA sees.
                    listed.setdefault(holder.pid, set()).add(device.index)
        self._listed = {pid: frozenset(indices) for pid, indices in listed.items()}

    def label(self, pid: int, device: int) -> str:
        """Returns the label of ``device`` of process ``pid``, or '' if it is not known.

        ``device`` is encoded as on the kernel side: the ordinal + 1, or 0 (none chosen), or
        ``layout.UNKNOWN_DEVICE``.
        """
        if not self._gpus:
            return UNKNOWN
        if pid not in self._views:
            self._views[pid] = self._view(pid)
        view, known = self._views[pid]
        at = known.chosen.setdefault(device, self._looks)
        return view.label(device, is_listed=at == known.begun or self._looks - at >= _LOOKS)

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended and whose last counts were read."""
        self._views.pop(pid, None)
        self._sights.forget(pid)
        for key in [key for key in self._known if key[0] == pid]:
            del self._known[key]

    def close(self) -> None:
        """Stops reading processes. May be called twice."""
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
            except ProcessNotVisibleError:
                return _Known(None, self._looks)
            uuids = tuple(tuple(self._uuids.get(label, "") for label in labels) for labels in visible)
            known = self._known[key] = _Known(uuids or None, self._looks)
        return known

    def _visible(self, sight: Sight | None) -> tuple[Labels, ...]:
        """Returns the candidates for the list of devices that a program sees, according to its environment
        and device files; none if not known."""
        if len(self._gpus) == 1 and not self._gpus[0].mig and (sight is None or len(sight.environments) > 1):
            return ((self._gpus[0].label,),)
        gpus = None if sight is None else _openable(self._gpus, sight.files)
        if sight is None or gpus is None or (len(gpus) > 1 and sight.mps):
            return ()  # An MPS client sees the devices that its server lets it see.
        found = [visible_devices(each, gpus, contained=sight.contained) for each in sight.environments]
        known = [labels for labels in found if labels is not None]
        return tuple(dict.fromkeys(known)) if len(known) == len(found) else ()


def _openable(gpus: tuple[VisibleGpu, ...], files: frozenset[int]) -> tuple[VisibleGpu, ...] | None:
    """Returns the GPUs whose device files a program can open; None if not known. A container may have the
    device files of only some GPUs."""
    minors = {gpu.minor for gpu in gpus}
    if not files or minors == files:
        return gpus
    if None in minors:
        return gpus if len(files) == len(gpus) else None
    # If the program has device files of GPUs that are not in ``gpus``, the answer is unknown: stalltop itself
    # may run in a container that sees only some of the GPUs.
    return tuple(gpu for gpu in gpus if gpu.minor in files) if files <= minors else None


def _with_minors(gpus: tuple[VisibleGpu, ...], root: Path) -> tuple[VisibleGpu, ...]:
    if all(gpu.minor is not None for gpu in gpus):
        return gpus
    minors = {uuid: minor for minor, uuid in _minors(root).items()}
    return tuple(gpu._replace(minor=minors.get(gpu.uuid) if gpu.minor is None else gpu.minor) for gpu in gpus)


def _minors(root: Path) -> dict[int, str]:
    """Returns the UUID of each GPU by the number of its device file, read from the driver's files; empty if
    these cannot be read."""
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
