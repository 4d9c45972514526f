"""Arrays of unsigned integers in a message: each in the smallest type that holds its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.merge.packing import smallest

U64 = NDArray[np.uint64]

_KINDS: Final[dict[str, np.dtype[Any]]] = {
    "u1": np.dtype("u1"),
    "u2": np.dtype("<u2"),
    "u4": np.dtype("<u4"),
    "u8": np.dtype("<u8"),
}
"""Types of the elements, by name: unsigned integers of 1, 2, 4 and 8 bytes, little endian."""


def packed(arrays: Mapping[str, NDArray[np.integer]]) -> tuple[list[list[Any]], list[bytes]]:
    """Return the description of ``arrays``, a list of [name, type, number of elements], and their bytes, in
    the same order."""
    told: list[list[Any]] = []
    parts: list[bytes] = []
    for name, values in arrays.items():
        small = smallest(values)
        kind = f"u{small.dtype.itemsize}"
        told.append([name, kind, len(small)])
        parts.append(small.astype(_KINDS[kind], copy=False).tobytes())
    return told, parts


def unpacked(told: object, content: memoryview) -> dict[str, U64]:
    """Return the arrays that ``packed`` described as ``told``, by name. Raises ValueError if ``content`` is
    not as long as they are."""
    if not isinstance(told, list):
        raise ValueError("arrays is not a list")
    found: dict[str, U64] = {}
    at = 0
    for one in told:
        if not isinstance(one, list) or len(one) != 3:
            raise ValueError("arrays: an element is not [name, type, number]")
        name, kind, count = one
        if kind not in _KINDS or type(count) is not int or not 0 <= count <= len(content):
            raise ValueError("arrays: a type or a number of elements is not allowed")
        end = at + count * _KINDS[kind].itemsize
        if end > len(content):
            raise ValueError("arrays: the message is truncated")
        found[name] = np.frombuffer(content[at:end], _KINDS[kind]).astype(np.uint64)
        at = end
    if at != len(content):
        raise ValueError("arrays: the message is longer than they are")
    return found
