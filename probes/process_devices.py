"""Which GPU of the host the calls of a process ran on: from the process's own ordinals to labels.

A process counts the devices that it sees from 0. What it sees is told, the surer one first, by the UUIDs
that it asked the driver for; by its environment and the device files that it can open, unless NVML
contradicts that by listing it on other devices only. What is not known is left empty: it is never guessed.

Where a process sees one device, all its calls ran there, whatever is known of its threads. So such a process
has its rows under one label from the first window to the last.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from model.device import Devices
from model.device_label import UNKNOWN, gpu_of
from probes.cuda_programs import NO_PROGRAM, CudaProgram
from probes.environment import Environments, started_with
from probes.layout import UNKNOWN_DEVICE
from probes.visible_devices import (
    GIVEN,
    ORDER,
    VISIBLE,
    Gpu,
    Labels,
    gpus_of,
    uuids_by_label,
    visible_devices,
)

_MPS_PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
_MPS_PIPES_DEFAULT: Final = "/tmp/nvidia-mps"
_VARIABLES: Final = (VISIBLE, ORDER, GIVEN, _MPS_PIPES)
_DEVICE_FILE: Final = re.compile(r"nvidia(\d{1,5})")
_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)
_UUID: Final = re.compile(r"^GPU UUID:\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _View:
    """What one program sees."""

    by_uuid: Mapping[int, str]
    visible: Labels
    """Empty where it is not known."""
    watched: bool

    def label(self, device: int) -> str:
        if len(self.visible) == 1:
            return self.by_uuid.get(0, self.visible[0])  # whatever it chose
        if device == UNKNOWN_DEVICE or not (device or self.watched):
            return UNKNOWN
        ordinal = max(device - 1, 0)
        known = self.visible[ordinal] if ordinal < len(self.visible) else UNKNOWN
        return self.by_uuid.get(ordinal, known)


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
    ) -> None:
        self._program_of = program_of
        self._uninitialized = uninitialized
        self._root = root
        self._environments = Environments(root)
        self._gpus: tuple[Gpu, ...] = ()
        self._uuids: Mapping[str, str] = {}
        """By label."""
        self._labels: Mapping[str, str] = {}
        """By UUID."""
        self._minors: Mapping[int, str] = {}
        self._listed: Mapping[int, frozenset[int]] = {}
        self._visible: dict[tuple[int, int], tuple[str, ...] | None] = {}
        """UUIDs of what programs see by their environment, by process and ``CudaProgram.born_ns``. A program
        goes on with what it saw first, whatever becomes of the host's GPUs."""
        self._views: dict[int, _View] = {}
        """Of this window."""

    def begin(self, devices: Devices) -> None:
        """A new window, with the devices as they are now; without any, those of before are still there."""
        self._views.clear()
        if not devices.devices:
            return
        gpus = gpus_of(devices.devices)
        if gpus != self._gpus:
            self._gpus, self._uuids = gpus, uuids_by_label(gpus)
            self._labels = {uuid: label for label, uuid in self._uuids.items()}
            self._minors = _minors(self._root)
            self._visible = {key: uuids for key, uuids in self._visible.items() if uuids is not None}
        listed: dict[int, set[int]] = {}
        for device in devices.devices:
            for holder in (
                *device.processes,
                *(each for part in device.instances for each in part.processes),
            ):
                listed.setdefault(holder.pid, set()).add(device.index)
        self._listed = {pid: frozenset(indices) for pid, indices in listed.items()}

    def label(self, pid: int, device: int) -> str:
        """The label of ``device`` of process ``pid``; empty where it is not known.

        ``device`` is as the kernel side has it: the ordinal + 1, 0 or ``layout.UNKNOWN_DEVICE``.
        """
        if not self._gpus:
            return UNKNOWN
        view = self._views.get(pid)
        if view is None:
            view = self._views[pid] = self._view(pid)
        return view.label(device)

    def forget(self, pid: int) -> None:
        """The process has ended, and all that was counted of it was read."""
        self._views.pop(pid, None)
        for key in [key for key in self._visible if key[0] == pid]:
            del self._visible[key]

    def _view(self, pid: int) -> _View:
        program = self._program_of(pid)
        watched = program.watched or self._uninitialized(pid)
        asked = {ordinal: self._labels.get(uuid, UNKNOWN) for ordinal, uuid in program.uuids.items()}
        key = pid, program.born_ns
        if key not in self._visible:
            seen = self._look(pid, late=not watched)
            self._visible[key] = None if seen is None else tuple(self._uuids.get(each, "") for each in seen)
        visible = tuple(self._labels.get(uuid, UNKNOWN) for uuid in self._visible[key] or ())
        on = self._listed.get(pid)
        if on and visible and not on & {gpu_of(label) for label in visible}:
            visible = ()
        by_uuid = {ordinal: label for ordinal, label in asked.items() if label}
        return _View(by_uuid, visible, watched)

    def _look(self, pid: int, *, late: bool) -> Labels | None:
        """What the process sees, by its environment."""
        alone = len(self._gpus) == 1 and not self._gpus[0].mig
        unread = (self._gpus[0].label,) if alone else None
        try:
            began = started_with(pid, _VARIABLES, self._root)
            now = self._environments.now(pid, _VARIABLES)
            if late and now is not None and now != began:
                return unread  # it was changed, nobody knows whether before or after CUDA read it
            environment = began if now is None else now
            gpus = self._openable(pid)
            if len(gpus) > 1 and self._may_use_mps(pid, environment):
                return None  # it counts what the server lets it see
            return visible_devices(environment, gpus, contained=self._is_contained(pid))
        except OSError:
            return unread

    def _openable(self, pid: int) -> tuple[Gpu, ...]:
        """The GPUs whose device files the process has: a container may be given some. Raises OSError."""
        files = {
            int(found[1])
            for name in os.listdir(self._root / f"proc/{pid}/root/dev")
            if (found := _DEVICE_FILE.fullmatch(name))
        }
        if not files or not self._minors:
            return self._gpus
        uuids = {uuid for minor, uuid in self._minors.items() if minor in files}
        return tuple(gpu for gpu in self._gpus if gpu.uuid in uuids)

    def _may_use_mps(self, pid: int, environment: Mapping[str, str]) -> bool:
        pipes = environment.get(_MPS_PIPES) or _MPS_PIPES_DEFAULT
        return os.path.exists(f"{self._root / f'proc/{pid}/root'}/{pipes.lstrip('/')}/control")

    def _is_contained(self, pid: int) -> bool:
        """Whether it has another root folder than this host. Raises OSError."""
        theirs, ours = os.stat(self._root / f"proc/{pid}/root"), os.stat(self._root)
        return (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino)


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
