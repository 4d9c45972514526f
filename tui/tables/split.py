"""Where the time of calls went, as a bar of a few cells, and what its colours and letters mean."""

from __future__ import annotations

from typing import cast

import numpy as np

from stalltop.model.text import figures
from stalltop.model.window import SPLITS, U64
from stalltop.widgets.table import Role

CELLS = 10
"""Length of the bar."""
LETTERS = dict(zip(SPLITS, "Rqdmlgnpso", strict=True))
"""Tells parts apart without a colour."""
_SHORT = ("run", "queue", "disk", "mem", "lock", "gpu", "net", "proc", "sleep", "other")
MEANINGS = {
    "running": "on the CPU; in a spinning synchronize: waiting for the device",
    "runqueue": "ready, but others had the CPU",
    "disk": "waiting for reads and writes",
    "memory": "page faults and reclaim",
    "lock": "waiting for another thread (futex)",
    "gpu": "waiting for the device",
    "network": "waiting for sockets",
    "process": "waiting for another process (pipe, wait)",
    "sleep": "sleeping on purpose",
    "other": "off the CPU for any other reason",
}
"""For the help."""

Pieces = tuple[tuple[str, Role], ...]


def cells(parts_ns: U64, most: int = CELLS) -> list[int]:
    """Cells of each part, ``most`` together, by the largest remainders; all 0 where there is no time."""
    whole = sum(parts_ns.tolist())  # as whole numbers of Python: a file may hold parts that overflow
    if not whole:
        return [0] * len(parts_ns)
    exact = parts_ns.astype(np.float64) * (most / whole)
    full = np.floor(exact).astype(np.int64)
    # Equal remainders go to the first, so that the same figures always give the same bar.
    for at in np.argsort(full - exact, kind="stable")[: most - int(full.sum())]:
        full[at] += 1
    return [int(number) for number in full]


def bar(parts_ns: U64 | None, *, unicode: bool, letters: bool, most: int = CELLS) -> Pieces:
    """The bar of one row, shape (len(SPLITS),); None where it was not measured.

    Each part begins with its letter; with ``letters`` it consists of them, for where there are no colours.
    """
    if parts_ns is None:
        return ((figures.missing(1, unicode=unicode).ljust(most), "dim"),)
    pieces: list[tuple[str, Role]] = []
    for name, length in zip(SPLITS, cells(parts_ns, most), strict=True):
        if length:
            text = LETTERS[name] * length if letters else LETTERS[name].ljust(length)
            pieces.append((text, "text" if letters else cast(Role, name)))
    return tuple(pieces) or ((" " * most, "text"),)


def legend(*, letters: bool) -> Pieces:
    """What the parts of a bar mean, in one line."""
    pieces: list[tuple[str, Role]] = []
    for name, short in zip(SPLITS, _SHORT, strict=True):
        blanks = "  " if pieces else ""
        pieces += [
            (blanks, "text"),
            (LETTERS[name], "text" if letters else cast(Role, name)),
            (f" {short}", "dim"),
        ]
    return (*pieces, (" ", "text"))
