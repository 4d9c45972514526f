"""What the kernel saw of the devices of a program that uses CUDA: see ``bpf/selection.h``."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from probes.bpf_calls import get
from probes.layout import CUDA_PROGRAM, PROGRAM_DEVICES, Watched


class CudaProgram(NamedTuple):
    """A program, and the devices that it sees."""

    born_ns: int
    """Tells it from others that its process runs."""
    watched: bool
    """Whether it was watched when it made CUDA ready: all that its threads chose is known."""
    uuids: Mapping[int, str]
    """UUIDs of devices that it asked for, by ordinal: as `uuid.UUID` writes them."""


NO_PROGRAM: Final = CudaProgram(0, False, {})


def cuda_program(programs: int, tgid: int) -> CudaProgram:
    """That of process ``tgid``, from the map ``cuda_programs``; ``NO_PROGRAM`` where there is none."""
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
