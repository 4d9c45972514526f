"""Maps the octaves of histograms, and adds blocks of octaves while few are free.

The memory of a map is allocated when the map is created. So the octaves are in several maps, the blocks, of
which there are only as many as calls have needed.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.layout import BLOCK, OCTAVES, PER_OCTAVE, Pool
from stalltop.probes.programs.bpf_calls import create_map, map_into, put, reserve_memory
from stalltop.probes.programs.pools import Pools

OCTAVE_BYTES: Final = 4 * PER_OCTAVE
BLOCK_BYTES: Final = BLOCK * OCTAVE_BYTES
"""Size of a block: 16 MiB. Each block that is added takes the Linux kernel some 20 ms, because it waits for
all programs that run (maybe_wait_bpf_programs)."""
AHEAD: Final = 3 * BLOCK // 2
"""Number of octaves that are kept free, if there is memory: 24 MiB. At a start among hundreds of processes,
all their operations take octaves before the monitor reads for the first time."""
_ARRAY: Final = 2  # BPF_MAP_TYPE_ARRAY
_MMAPABLE: Final = 1 << 10  # BPF_F_MMAPABLE
_PIECE: Final = 2048
"""Number of octaves that are mapped at once: 1 MiB. A page of a map counts as resident once it is mapped."""


def most_blocks(slots: int, memory: int) -> int:
    """Returns how many blocks fit in ``memory`` bytes: one at least, and no more than ``slots`` can use."""
    return max(min(memory // BLOCK_BYTES, -(-slots * OCTAVES // BLOCK)), 1)


class OctaveBlocks:
    """The octaves of all histograms. ``counters`` has their counters, shape (n, PER_OCTAVE).

    Only octaves for which `reach` was called may be read or written: others are no memory, and to touch them
    ends the process.
    """

    def __init__(self, octaves: int, first: int, pools: Pools, left: NDArray[np.int64], most: int) -> None:
        """Takes over the descriptors ``octaves``, of the array of blocks, and ``first``, of the first block.
        ``left`` has the number of free records by pool, and ``most`` is the maximum number of blocks. Raises
        OSError."""
        self._octaves = octaves
        self._pools = pools
        self._left = left
        self._most = most
        self._blocks = list[int]()
        self._mapped = np.zeros(most * BLOCK // _PIECE, np.bool_)
        self._memory = reserve_memory(most * BLOCK_BYTES)
        self.counters: NDArray[np.uint32] = (
            np.ctypeslib.as_array(self._memory).view(np.uint32).reshape(-1, PER_OCTAVE)
        )
        self._add(first)
        self.grow()

    @property
    def bytes(self) -> int:
        """Returns the size of all blocks."""
        return len(self._blocks) * BLOCK_BYTES

    @property
    def all_in_use(self) -> bool:
        """Returns whether no octave is free and no block can be added."""
        return len(self._blocks) == self._most and int(self._left[Pool.OCTAVES]) <= 0

    def grow(self) -> None:
        """Adds blocks until `AHEAD` octaves are free or there are as many blocks as allowed. If the Linux
        kernel has no memory for a block, none is added any more."""
        while len(self._blocks) < self._most and int(self._left[Pool.OCTAVES]) < AHEAD and self._octaves >= 0:
            try:
                self._add(create_map("octave_block", _ARRAY, 4, OCTAVE_BYTES, BLOCK, _MMAPABLE))
            except OSError:
                self._most = len(self._blocks)

    def reach(self, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Makes the octaves with these numbers accessible. Returns which of them are: not all only once the
        blocks are closed. Raises OSError."""
        pieces = numbers // _PIECE
        new = np.unique(pieces[~self._mapped[pieces]])
        for piece in new.tolist() if self._octaves >= 0 else ():
            block, inside = divmod(piece * _PIECE, BLOCK)
            at, size = piece * _PIECE * OCTAVE_BYTES, _PIECE * OCTAVE_BYTES
            map_into(self._memory, self._blocks[block], at, size, of_map=inside * OCTAVE_BYTES)
            self._mapped[piece] = True
        return self._mapped[pieces]

    def close(self) -> None:
        """Closes all descriptors; ``counters`` stays readable as far as it was reached. May be called
        twice."""
        fds, self._octaves = [*self._blocks, self._octaves] if self._octaves >= 0 else [], -1
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _add(self, block: int) -> None:
        try:
            put(self._octaves, np.uint32(len(self._blocks)).tobytes(), np.uint32(block).tobytes())
        except OSError:
            os.close(block)
            raise
        self._blocks.append(block)
        self._pools.add(Pool.OCTAVES, BLOCK)
