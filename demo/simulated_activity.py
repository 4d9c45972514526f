"""When simulated tenants were active on devices: their own calls, laid out at random over the time.

Programs work in steps: they launch and copy, and then they wait for all of it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from model.activity import ToldActivity, told_activity
from model.window import Rows
from probes.activity import TICK_NS
from probes.operations import FUNCTIONS

_USE_DEVICE: Final = frozenset(function.symbol for function in FUNCTIONS if function.uses_device)
_MOST_CALLS: Final = 2000
"""Of a row, which are laid out."""
_CALLS_A_STEP: Final = 50
"""Of programs that do not wait."""
_SPREAD_TICKS: Final = 0.7
"""How long after the beginning of its step a call begins, on average."""


def simulated_activity(rows: Rows, seconds: float, random: np.random.Generator) -> ToldActivity:
    """That of the ``rows`` of a window of ``seconds``."""
    ticks = max(int(seconds * 1e9) // TICK_NS, 1)
    processes: dict[tuple[str, str, int], list[tuple[str, int, float]]] = {}
    for key, calls, total_ns in zip(rows.keys, rows.calls.tolist(), rows.total_ns.tolist(), strict=True):
        if calls and key.outermost and key.operation.partition(" ")[0] in _USE_DEVICE:
            whose = key.device, key.tenant, key.pid
            processes.setdefault(whose, []).append((key.operation, calls, total_ns / calls / TICK_NS))
    active: dict[tuple[str, str], NDArray[np.bool_]] = {}
    for (device, tenant, _), own in processes.items():
        found = active.setdefault((device, tenant), np.zeros(ticks, np.bool_))
        waits = max((calls for name, calls, _ in own if "Synchronize" in name), default=0)
        steps = random.uniform(0, ticks, waits or 1 + max(calls for _, calls, _ in own) // _CALLS_A_STEP)
        for _, calls, length in own:
            begin = random.choice(steps, min(calls, _MOST_CALLS))
            found |= _laid_out(begin + random.exponential(_SPREAD_TICKS, len(begin)), length, ticks)
    return told_activity({whose: _number(own) for whose, own in active.items()}, TICK_NS)


def _laid_out(begin: NDArray[np.float64], length: float, ticks: int) -> NDArray[np.bool_]:
    """Which of ``ticks`` calls touch that begin then and take ``length`` ticks each."""
    begin = np.minimum(begin, ticks - 0.5)
    end = np.minimum(begin + length, ticks - 0.5)
    edges = np.bincount(begin.astype(np.int64), minlength=ticks + 1)
    edges -= np.bincount(end.astype(np.int64) + 1, minlength=ticks + 1)
    found: NDArray[np.bool_] = np.cumsum(edges[:ticks]) > 0
    return found


def _number(ticks: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(ticks, bitorder="little").tobytes(), "little")
