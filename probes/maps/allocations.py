"""Reads the device memory that processes hold, and forgets that of processes that have ended."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.layout import HEAPS, PIECE, Pool
from stalltop.probes.maps.raw import RawHeld
from stalltop.probes.programs.bpf_calls import delete, look_at_all
from stalltop.probes.programs.loading import Programs

PIECE_BYTES: Final = np.dtype([("bytes", "u8")])
"""Value that the map ``pieces`` holds for each allocation of device memory."""
_COUNTS: Final = ("allocations", "frees", "allocated_bytes", "freed_bytes")


class Allocations:
    """Reads the heaps of ``bpf/cuda/allocations.h``. Used from one thread at a time.

    A heap belongs to one program that a process runs. It ends when the process ends (``release``) or executes
    its next program, which the BPF programs report. Then the allocations that the heap still holds are
    forgotten, and its record is used again.
    """

    def __init__(self, programs: Programs) -> None:
        self._heaps = programs.heaps
        self._programs = programs
        self._heap_of = programs.heap_of
        self._pieces = programs.pieces
        self._pools = programs.pools
        self._seen = np.zeros((HEAPS, len(_COUNTS)), np.uint64)
        self._released = np.zeros(HEAPS, np.bool_)

    def read(self) -> list[RawHeld]:
        """Returns, for each process, its allocations and frees since the previous read, and the memory that
        it holds now. Processes that have none of these are left out."""
        used = np.flatnonzero(self._heaps["tgid"])
        # Which heaps have ended is read before the copy is made, so the copy has all their counts.
        over = used[(self._heaps["over"][used] != 0) | self._may_free(used)]
        heaps = self._heaps[used]
        counts = np.stack([heaps[name] for name in _COUNTS], axis=1) if len(used) else self._seen[:0]
        added = counts - self._seen[used]
        self._seen[used] = counts
        gone = np.isin(used, over) | self._released[used]
        # The BPF programs record an allocation before they add it to the counters, and another thread may
        # free it in between. So for a moment a counter may be negative, which counts as 0.
        held = np.where(gone, 0, np.maximum(heaps["held"].astype(np.int64), 0))
        held_bytes = np.where(held > 0, np.maximum(heaps["held_bytes"].astype(np.int64), 0), 0)
        told = np.flatnonzero(added.any(axis=1) | (held != 0))
        columns = (heaps["tgid"], heaps["cgroup_id"], *added.T, held, held_bytes)
        found = [RawHeld(*row) for row in zip(*(column[told].tolist() for column in columns), strict=True)]
        self._free(over)
        return found

    def tgids(self) -> set[int]:
        """Returns the processes with followed device memory that have not been released."""
        return set(self._heaps["tgid"][~self._released].tolist()) - {0}

    def release(self, *tgids: int) -> None:
        """Forgets the memory of processes that have ended; the next read returns their last counts."""
        for index in np.flatnonzero(np.isin(self._heaps["tgid"], tgids)).tolist():
            if not self._heaps["over"][index]:
                delete(self._heap_of, self._heaps["tgid"][index].tobytes())
            self._released[index] = True

    def _may_free(self, used: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Returns which of the heaps ``used`` were released and have no writers left, because all threads of
        their process have ended."""
        released = self._released[used]
        if not released.any():
            return released
        return released & ~np.isin(self._heaps["tgid"][used], self._programs.threads["tgid"])

    def _free(self, heaps: NDArray[np.intp]) -> None:
        if not len(heaps):
            return
        held = self._heaps["held"][heaps]
        tgids, cgroup_ids = self._heaps["tgid"][heaps], self._heaps["account_cgroup_id"][heaps]
        if held.any():
            self._forget_pieces(heaps[held != 0])
            self._pools.free(Pool.PIECES, held.tolist(), tgids.tolist(), cgroup_ids.tolist())
        self._heaps[heaps] = np.zeros(1, self._heaps.dtype)
        self._seen[heaps] = 0
        self._released[heaps] = False
        self._pools.free(Pool.HEAPS, heaps.tolist(), tgids.tolist(), cgroup_ids.tolist())

    def _forget_pieces(self, heaps: NDArray[np.intp]) -> None:
        pieces, _ = look_at_all(self._pieces, PIECE, PIECE_BYTES)
        for piece in pieces[np.isin(pieces["heap"], heaps)]:
            delete(self._pieces, piece.tobytes())
