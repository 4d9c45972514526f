"""Reads the devices of CUDA programs, as recorded by the BPF programs (``bpf/cuda/selection.h``)."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from stalltop.probes.layout import CUDA_PROGRAM, PROGRAM_DEVICES, Evicting, Watched
from stalltop.probes.operations import DRIVER
from stalltop.probes.process_maps import mapped_by, pids
from stalltop.probes.programs.bpf_calls import get, put
from stalltop.probes.programs.loading import Programs

COSTLY_SECONDS: Final = 20.0
"""Time for which a process with too many mappings is not read again, s: reading takes 0.25 s of CPU time."""


class CudaProgram(NamedTuple):
    """A program, and the devices that it sees."""

    born_ns: int
    """When the program was first seen (CLOCK_MONOTONIC, ns). Distinguishes it from other programs of its
    process."""
    watched: bool
    """Whether the program was watched when it initialized CUDA, so that all device choices of its threads are
    known."""
    uuids: Mapping[int, str]
    """UUIDs of devices by ordinal, formatted as by `uuid.UUID`. Has only UUIDs for which the program asked
    CUDA."""


NO_PROGRAM: Final = CudaProgram(0, False, {})


def cuda_program(programs: int, tgid: int) -> CudaProgram:
    """Returns the program of process ``tgid`` from the map ``cuda_programs``; ``NO_PROGRAM`` if the map has
    none."""
    try:
        found = get(programs, np.uint32(tgid).tobytes(), CUDA_PROGRAM.itemsize)
    except OSError:
        return NO_PROGRAM
    (program,) = np.frombuffer(found, CUDA_PROGRAM)
    known = program["uuid_known"]
    return CudaProgram(
        int(program["born_ns"]),
        int(program["watched"]) == Watched.BEGIN,
        {
            ordinal: str(uuid.UUID(bytes=program["uuids"][ordinal].tobytes()))
            for ordinal in range(PROGRAM_DEVICES)
            if known[ordinal]
        },
    )


class DriverUsers:
    """Finds the processes that have CUDA's driver mapped."""

    def __init__(self) -> None:
        self._costly: dict[int, float] = {}
        """Processes with too many mappings, each with the monotonic time until which they are not read
        again."""

    def now(self) -> set[int]:
        """Returns the processes that have the driver mapped, and those with too many mappings to know."""
        clock = time.monotonic()
        self._costly = {pid: until for pid, until in self._costly.items() if until > clock}
        found = set(self._costly)
        for pid in pids():
            if pid in found:
                continue
            with contextlib.suppress(OSError):
                mapped = mapped_by(pid)
                if not mapped.complete:
                    self._costly[pid] = clock + COSTLY_SECONDS
                if not mapped.complete or any(DRIVER in mapping.layers for mapping in mapped.libraries):
                    found.add(pid)
        return found


def tell_older(programs: Programs, tgids: Iterable[int]) -> None:
    """Marks processes that may have initialized CUDA, and chosen devices, before they were watched. Raises
    OSError."""
    for tgid in tgids:
        with contextlib.suppress(FileExistsError):
            put(programs.older_programs, np.uint32(tgid).tobytes(), np.uint32(1).tobytes(), new=True)
            programs.turnovers["added"][Evicting.OLDER_PROGRAMS] += 1
