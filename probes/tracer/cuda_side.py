"""Reads the records of the BPF programs about CUDA programs: their devices, and the CUDA kernels that they
launch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.histograms import Histograms
from stalltop.probes.maps.access import MapAccess
from stalltop.probes.maps.cuda_programs import NO_PROGRAM, CudaProgram, cuda_program
from stalltop.probes.maps.launches import Kernels, RawKernel, inherited_name, runs_program
from stalltop.probes.programs.loading import Programs


class CudaSide:
    """Reads devices and launches of CUDA programs. May be used from several threads."""

    def __init__(self, programs: Programs, access: MapAccess) -> None:
        self._programs = programs
        self._access = access
        self._kernels = Kernels(programs)
        self._launches: list[RawKernel] = []
        """Launches that were read and not yet returned."""
        self._choices_seen = np.zeros(len(programs.thread_records), np.uint32)
        """For each record of a thread: its number in ``choices`` (``struct thread``) at the last call of the
        method `choices`."""

    def read(self, risen: tuple[NDArray[np.intp], Histograms]) -> None:
        """Reads launches, which `launches` then returns. ``risen`` is as for `Kernels.read`. Called while the
        lock of the maps is held."""
        self._launches += self._kernels.read(risen)

    def let_go(self, slots: NDArray[np.intp]) -> None:
        """Frees the records of CUDA kernels that belong to ``slots``. These slots are about to be freed.
        Called while the lock of the maps is held."""
        self._kernels.let_go(slots)

    def launches(self) -> list[RawKernel]:
        """Returns the launches that `read` has found and that were not returned before, by CUDA kernel. Only
        outermost calls are included."""
        with self._access:
            launches, self._launches = self._launches, []
            return launches

    def program_of(self, tgid: int) -> CudaProgram:
        """Returns what is known of the devices of the program that process ``tgid`` runs, or ran when it
        ended."""
        with self._access as is_open:
            return cuda_program(self._programs.cuda_programs, tgid) if is_open else NO_PROGRAM

    def choices(self) -> int:
        """Returns the number of calls that have returned since this method was last called, to functions
        from which stalltop learns a thread's device (``enum choosing``). These calls are probed, but have no
        rows."""
        total = self._programs.threads["choices"].copy()
        seen = self._choices_seen[: len(total)]
        new = int((total - seen).sum(dtype=np.uint64))
        seen[:] = total
        return new

    def inherited_name(self, tgid: int, function: int) -> int:
        """Returns the address of a function's name in the memory of process ``tgid``, if the parent of the
        process registered the function; otherwise 0.

        A program that forks first and then launches has registered its CUDA kernels before the fork.
        """
        with self._access as is_open:
            return inherited_name(self._programs, tgid, function) if is_open else 0

    def runs_program(self, tgid: int, born_ns: int) -> bool:
        """Returns whether process ``tgid`` still runs the program whose ``RawKernel.born_ns`` is
        ``born_ns``."""
        with self._access as is_open:
            return is_open and runs_program(self._programs, tgid, born_ns)
