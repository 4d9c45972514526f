"""What the kernel saw of the devices of a program that uses CUDA: see ``bpf/selection.h``."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from stalltop.probes.layout import CUDA_PROGRAM, PROGRAM_DEVICES, Watched
from stalltop.probes.operations import DRIVER
from stalltop.probes.process_maps import libraries_of, pids
from stalltop.probes.programs.bpf_calls import get, put


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


def users_of_driver() -> set[int]:
    """Processes that have CUDA's driver in their memory."""
    found = set()
    for pid in pids():
        with contextlib.suppress(OSError):
            if any(DRIVER in mapping.layers for mapping in libraries_of(pid)):
                found.add(pid)
    return found


def tell_older(older_programs: int, tgids: Iterable[int]) -> None:
    """Of these processes nobody knows what they did with CUDA before. Raises OSError."""
    for tgid in tgids:
        put(older_programs, np.uint32(tgid).tobytes(), np.uint32(1).tobytes())
