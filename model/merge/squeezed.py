"""Holds the histograms and splits of the rows of a past window, which take most of its memory, and compresses
them once they are hardly read any more."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.histograms.histograms import Histograms
from stalltop.model.window import U64

_LEAST_BYTES = 8192
"""Arrays with fewer bytes are not compressed: the objects around them take as much."""
_LEVEL = 1
"""Level of zlib: it takes 1 ms for 400 rows, and leaves a fifth of the bytes. Higher levels leave hardly
less."""


class _Arrays(NamedTuple):
    starts: NDArray[Any]
    """``start`` of the histograms, in the smallest type that fits."""
    counts: NDArray[Any]
    """``count`` of the histograms, in the smallest type that fits."""
    indices: NDArray[np.uint16]
    split_ns: U64 | None


class _Compressed(NamedTuple):
    content: bytes
    form: tuple[tuple[np.dtype[Any], tuple[int, ...]], ...]
    """Type and shape of each array."""


class RowArrays:
    """Histograms and splits of the rows of one window. Any thread may read them while one squeezes them."""

    __slots__ = ("_held",)

    def __init__(
        self, starts: NDArray[Any], counts: NDArray[Any], indices: NDArray[np.uint16], split_ns: U64 | None
    ) -> None:
        self._held: _Arrays | _Compressed = _Arrays(starts, counts, indices, split_ns)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        held = self._held
        if isinstance(held, _Compressed):
            return len(held.content)
        return sum(array.nbytes for array in held if array is not None)

    def squeeze(self) -> int:
        """Compresses the arrays. Returns how many bytes of memory that saves. May be called twice."""
        held = self._held
        before = self.nbytes
        if isinstance(held, _Compressed) or before < _LEAST_BYTES:
            return 0
        # Counters of a histogram lie close together, so differences of their numbers fit into a byte.
        steps = np.diff(held.indices, prepend=np.uint16(0))
        arrays = [array for array in (held.starts, held.counts, steps, held.split_ns) if array is not None]
        content = zlib.compress(b"".join(map(_planes, arrays)), _LEVEL)
        self._held = _Compressed(content, tuple((array.dtype, array.shape) for array in arrays))
        return before - self.nbytes

    def read(self) -> tuple[Histograms, U64 | None]:
        """Returns the histograms and the splits."""
        held = self._held
        starts, counts, indices, split_ns = _unpacked(held) if isinstance(held, _Compressed) else held
        return Histograms(starts.astype(np.int64), indices, counts.astype(np.uint64)), split_ns


def _planes(array: NDArray[Any]) -> bytes:
    """Returns the first byte of all elements, then the second one, and so on: most high bytes are 0."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T.tobytes()


def _unpacked(held: _Compressed) -> _Arrays:
    content, at, arrays = zlib.decompress(held.content), 0, []
    for kind, shape in held.form:
        size = kind.itemsize * int(np.prod(shape))
        planes = np.frombuffer(content, np.uint8, size, at).reshape(kind.itemsize, -1)
        arrays.append(np.ascontiguousarray(planes.T).view(kind).reshape(shape))
        at += size
    starts, counts, steps, *split_ns = arrays
    return _Arrays(starts, counts, np.cumsum(steps, dtype=np.uint16), split_ns[0] if split_ns else None)
