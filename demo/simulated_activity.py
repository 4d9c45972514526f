"""When simulated tenants were active on devices: their own calls, laid out at random over the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from model.activity import ToldActivity, told_activity
from model.window import RowKey, Rows
from probes.activity import TICK_NS
from probes.operations import FUNCTIONS

_USE_DEVICE: Final = frozenset(function.symbol for function in FUNCTIONS if function.uses_device)
_MOST_CALLS: Final = 2000
"""Of a row, which are laid out: above that they fill a second anyway, or nearly so."""


def simulated_activity(
    rows: Rows, seconds: float, device_of: Callable[[RowKey], str], random: np.random.Generator
) -> ToldActivity:
    """That of the ``rows`` of a window of ``seconds``; ``device_of`` gives the label of a row's device."""
    ticks = max(int(seconds * 1e9) // TICK_NS, 1)
    active: dict[tuple[str, str], NDArray[np.bool_]] = {}
    for key, calls, total_ns in zip(rows.keys, rows.calls.tolist(), rows.total_ns.tolist(), strict=True):
        if calls and key.outermost and key.operation.partition(" ")[0] in _USE_DEVICE:
            own = active.setdefault((device_of(key), key.tenant), np.zeros(ticks, np.bool_))
            own |= _laid_out(calls, total_ns / calls / TICK_NS, ticks, random)
    return told_activity({whose: _number(own) for whose, own in active.items()}, TICK_NS)


def _laid_out(calls: int, length: float, ticks: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Which of ``ticks`` so many calls touch that take ``length`` ticks each and begin at any time."""
    begin = random.uniform(0, ticks, min(calls, _MOST_CALLS))
    end = np.minimum(begin + length, ticks - 0.5)
    edges = np.bincount(begin.astype(np.int64), minlength=ticks + 1)
    edges -= np.bincount(end.astype(np.int64) + 1, minlength=ticks + 1)
    found: NDArray[np.bool_] = np.cumsum(edges[:ticks]) > 0
    return found


def _number(ticks: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(ticks, bitorder="little").tobytes(), "little")
