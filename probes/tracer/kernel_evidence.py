"""Reads what the BPF programs measure in addition to calls: charges, waits, device memory, ranks,
activity."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from stalltop.probes.maps.access import MapAccess
from stalltop.probes.maps.activity import Activities
from stalltop.probes.maps.allocations import Allocations
from stalltop.probes.maps.charges import Charges
from stalltop.probes.maps.communicators import Communicators, OldRank
from stalltop.probes.maps.raw import (
    RawActivities,
    RawCharge,
    RawHeld,
    RawPlaced,
    RawRank,
    RawWait,
    RawWork,
)
from stalltop.probes.maps.slots import Slots
from stalltop.probes.maps.works import Works
from stalltop.probes.nccl_ras.reader import RasReader
from stalltop.probes.operations import Function
from stalltop.probes.programs.loading import Programs


class KernelEvidence:
    """Reads the evidence that is measured in the Linux kernel. May be used from several threads.

    ``slots`` are the histograms of calls, and ``functions`` are the traced functions. Once the maps of
    ``access`` are closed, the methods return no evidence.
    """

    def __init__(
        self, programs: Programs, slots: Slots, access: MapAccess, functions: Sequence[Function]
    ) -> None:
        self._slots = slots
        self._access = access
        self._programs = programs
        self._charges = _charges(programs)
        self._works = _works(programs)
        self._allocations = Allocations(programs)
        self._communicators = Communicators(programs)
        self.ras = RasReader(self._old_ranks)
        """Asks NCCL's RAS."""
        self._activities = Activities(programs, functions)

    def charges(self) -> list[RawCharge]:
        """Returns which processes took time from calls, from host gaps, and from followed threads, since this
        method was last called."""
        with self._access as is_open:
            return self._charges.read() if is_open and self._charges is not None else []

    def waits(self) -> list[RawWait]:
        """Returns which thread waited, and which thread ended the wait, for the charges that `charges`
        returned last."""
        with self._access as is_open:
            return self._charges.waits() if is_open and self._charges is not None else []

    def works(self) -> list[RawWork]:
        """Returns what each thread that makes calls or is followed did since this method was last called."""
        with self._access as is_open:
            return self._works.read(time.monotonic_ns()) if is_open and self._works is not None else []

    def placed(self) -> list[RawPlaced]:
        """Returns on which CPUs threads were, in the samples that `look` took since this method was last
        called."""
        with self._access as is_open:
            return self._works.placed() if is_open and self._works is not None else []

    def links(self) -> dict[int, int]:
        """Returns the link of each traced process: 0 if it makes calls, 1 if it wakes such a process, n if it
        wakes a process of link n - 1."""
        threads = self._programs.threads
        used = np.flatnonzero(threads["tid"])
        found: dict[int, int] = {}
        for tgid, link in zip(threads["tgid"][used].tolist(), threads["link"][used].tolist(), strict=True):
            if tgid:
                found[tgid] = min(link, found.get(tgid, link))
        return found

    def held(self) -> list[RawHeld]:
        """Returns the device memory of processes that hold some, or that have allocated or freed some since
        the previous call."""
        with self._access as is_open:
            return self._allocations.read() if is_open else []

    def ranks(self) -> list[RawRank]:
        """Returns the ranks on this host of every NCCL communicator that was made while it was traced, and of
        others of which NCCL's RAS has told."""
        known = self.ras.look(time.monotonic())
        with self._access as is_open:
            if not is_open:
                return []
            for old, adoption in known.items():
                self._communicators.adopt(old, adoption)
            return self._communicators.read()

    def _old_ranks(self) -> dict[OldRank, int]:
        with self._access as is_open:
            return self._communicators.old() if is_open else {}

    def unknown_communicators(self) -> set[int]:
        """Returns the processes that enter collectives of communicators older than the probes. Such
        communicators are not compared."""
        return self._communicators.unknown()

    def activities(self) -> RawActivities:
        """Returns when processes were active on devices, since this method was last called."""
        with self._access as is_open:
            return self._activities.read() if is_open else RawActivities(0, 0, [])

    def look(self) -> None:
        """Takes a sample of what the BPF programs keep only for a short time. It has to be called more often
        than the other methods."""
        with self._access as is_open:
            if not is_open:
                return
            if self._works is not None:
                self._works.look()
            if self._activities.due:
                self._activities.look()

    def tgids(self) -> set[int]:
        """Returns processes that own histograms, device memory, ranks or records of activity."""
        return (
            self._slots.tgids()
            | self._allocations.tgids()
            | self._communicators.tgids()
            | self._activities.tgids()
        )

    def release(self, *tgids: int) -> None:
        """Frees everything that the processes ``tgids`` owned, except their histograms. To be called once
        they have ended and their evidence was read."""
        with self._access as is_open:
            if not is_open:
                return
            if self._charges is not None:
                self._charges.release(*tgids)
            self._communicators.release(*tgids)
            self._activities.release(*tgids)
            self._allocations.release(*tgids)

    def leave_splits_out(self) -> None:
        """From now on, reads neither charges nor the times of threads. Called, while the lock of the maps is
        held, if it turns out that the BPF programs cannot measure them."""
        self._charges = self._works = None


def _charges(programs: Programs) -> Charges | None:
    if programs.charges is None:
        return None
    return Charges(programs.charges, programs.charge_of, programs.pools)


def _works(programs: Programs) -> Works | None:
    if programs.off_cpu is None:
        return None
    off_cpu = programs.off_cpu
    return Works(off_cpu.array, lambda: programs.threads, time.monotonic_ns(), reach=off_cpu.reach)
