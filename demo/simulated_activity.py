"""Simulates when tenants were active on devices: distributes their own calls over the time.

Programs work in steps: they launch and copy, then they wait for all of it, and then they do something else. A
thread makes one call at a time; a process whose calls take more time than the window has several threads.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.model.devices.activity import ToldActivity, told_activity
from stalltop.model.window import Rows
from stalltop.probes.maps.activity import TICK_NS
from stalltop.probes.operations import FUNCTIONS

_USE_DEVICE: Final = frozenset(function.symbol for function in FUNCTIONS if function.uses_device)
_MOST_CALLS: Final = 2000
"""Maximum number of calls of a row that are distributed."""
_CALLS_A_STEP: Final = 50
"""Number of calls per step of programs that do not wait."""
_END: Final = 2.0
"""Position of a waiting call in its step; the positions of other calls are 0 to 1."""


def simulated_activity(rows: Rows, seconds: float, random: np.random.Generator) -> ToldActivity:
    """Returns the activity of the ``rows`` of a window of ``seconds``."""
    ticks = max(int(seconds * 1e9) // TICK_NS, 1)
    processes: dict[tuple[str, str, int], list[tuple[str, int, float]]] = {}
    for key, calls, total_ns in zip(rows.keys, rows.calls.tolist(), rows.total_ns.tolist(), strict=True):
        if calls and key.outermost and key.operation.partition(" ")[0] in _USE_DEVICE:
            whose = key.device, key.tenant, key.pid
            processes.setdefault(whose, []).append((key.operation, calls, total_ns / calls / TICK_NS))
    active: dict[tuple[str, str], NDArray[np.bool_]] = {}
    for (device, tenant, _), own in processes.items():
        found = active.setdefault((device, tenant), np.zeros(ticks, np.bool_))
        found |= _one_behind_the_other(own, ticks, random)
    return told_activity({whose: _number(own) for whose, own in active.items()}, TICK_NS)


def _one_behind_the_other(
    own: list[tuple[str, int, float]], ticks: int, random: np.random.Generator
) -> NDArray[np.bool_]:
    """Returns in which of ``ticks`` a process was active with calls (name, number, ticks that one takes)."""
    waits = max((calls for name, calls, _ in own if "Synchronize" in name), default=0)
    steps = min(waits or 1 + max(calls for _, calls, _ in own) // _CALLS_A_STEP, _MOST_CALLS)
    of_step, place, length = [], [], []
    for name, calls, ticks_each in own:
        laid = min(calls, _MOST_CALLS)
        of_step.append(np.arange(laid) * steps // laid)
        place.append(np.full(laid, _END) if "Synchronize" in name else random.uniform(0, 1, laid))
        length.append(np.full(laid, min(ticks_each * calls / laid, ticks)))
    order = np.lexsort((np.concatenate(place), np.concatenate(of_step)))
    lengths, step = np.concatenate(length)[order], np.concatenate(of_step)[order]
    busy = float(lengths.sum())
    threads = max(int(np.ceil(busy / ticks)), 1)
    pauses = random.exponential(1.0, steps + 1)  # Pauses before each step, and after the last one.
    pauses *= (threads * ticks - busy) / pauses.sum()
    begin = np.cumsum(pauses)[step] + np.cumsum(lengths) - lengths
    return _laid_out(begin % ticks, lengths, ticks)


def _laid_out(begin: NDArray[np.float64], length: NDArray[np.float64], ticks: int) -> NDArray[np.bool_]:
    """Returns which of ``ticks`` are touched by calls that begin then and take ``length`` ticks."""
    begin = np.minimum(begin, ticks - 0.5)
    end = np.minimum(begin + length, ticks - 0.5)
    edges = np.bincount(begin.astype(np.int64), minlength=ticks + 1)
    edges -= np.bincount(end.astype(np.int64) + 1, minlength=ticks + 1)
    found: NDArray[np.bool_] = np.cumsum(edges[:ticks]) > 0
    return found


def _number(ticks: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(ticks, bitorder="little").tobytes(), "little")
