"""Reads the devices of CUDA programs, as recorded by the BPF programs (``bpf/cuda/selection.h``)."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from stalltop.probes.layout import CUDA_PROGRAM, PROGRAM_DEVICES, Evicting, Watched
from stalltop.probes.operations import DRIVER
from stalltop.probes.process_maps import libraries_of, pids
from stalltop.probes.programs.bpf_calls import get, put
from stalltop.probes.programs.loading import Programs


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


def users_of_driver() -> set[int]:
    """Returns the processes that have CUDA's driver mapped."""
    found = set()
    for pid in pids():
        with contextlib.suppress(OSError):
            if any(DRIVER in mapping.layers for mapping in libraries_of(pid)):
                found.add(pid)
    return found


def tell_older(programs: Programs, tgids: Iterable[int]) -> None:
    """Marks processes that may have initialized CUDA, and chosen devices, before they were watched. Raises
    OSError."""
    for tgid in tgids:
        with contextlib.suppress(FileExistsError):
            put(programs.older_programs, np.uint32(tgid).tobytes(), np.uint32(1).tobytes(), new=True)
            programs.turnovers["added"][Evicting.OLDER_PROGRAMS] += 1
