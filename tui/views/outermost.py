"""Counts outermost calls: a call inside another traced call is part of that one."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from stalltop.model.row_key import RowKey
from stalltop.model.window import Window

_MASKS: deque[tuple[tuple[RowKey, ...], NDArray[np.bool_]]] = deque(maxlen=4)


def outermost(keys: tuple[RowKey, ...]) -> NDArray[np.bool_]:
    """Return which of ``keys`` are of outermost calls. The results for the latest tuples are kept, because
    all parts of the screen ask for the same ones, and consecutive windows mostly have the same rows."""
    for known, mask in _MASKS:
        if known == keys:
            return mask
    mask = np.fromiter((key.outermost for key in keys), np.bool_, len(keys))
    _MASKS.append((keys, mask))
    return mask


def outermost_ns(window: Window) -> int:
    """Return the time (ns) in outermost calls of ``window``, without the time between calls."""
    return int(window.rows.total_ns[outermost(window.rows.keys)].sum())


def calls_per_s(window: Window) -> float:
    """Return outermost calls per second: a runtime call with a driver call inside it counts once."""
    return float(window.rows.calls[outermost(window.rows.keys)].sum()) / (window.seconds or 1.0)
