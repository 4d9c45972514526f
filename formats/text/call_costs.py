"""How long NVML's calls take on this host, as text and JSON, for ``stalltop check --verbose``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from stalltop.model.call_cost import CallCost
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs

_HEAD: Final = "  MEDIAN     P99     MAX  CALLS FAILED  ASKED      FUNCTION"
_ABOUT: Final = (
    "NVML's functions, over all GPUs, the slowest first. A function that takes more than 5 ms is called only"
    " every 10 s, one that takes more than 50 ms every minute. A function that a board does not support is"
    " called again after a minute."
)


def document(costs: Sequence[CallCost]) -> list[dict[str, object]]:
    """Return ``costs`` as dicts with name, calls, failures, median_ns, p99_ns, max_ns and every_seconds (0:
    called at each sample; None: called once, or as needed)."""
    return [asdict(cost) for cost in costs]


def text(costs: Sequence[CallCost], *, width: int = 80, glyphs: Glyphs = UNICODE) -> str:
    """Return ``costs`` as a table with an introduction. If there are no costs, return one line that says
    so."""
    if not costs:
        return "\nNo GPU answered NVML, so no costs were measured.\n"
    lines = ["", *textwrap.wrap(_ABOUT, max(width, 40)), "", _HEAD]
    for cost in costs:
        all_ns = (cost.median_ns, cost.p99_ns, cost.max_ns)
        took = [figures.duration(ns, glyphs).rjust(8) for ns in all_ns]
        lines.append(
            f"{''.join(took)} {cost.calls:>6} {cost.failures or '-':>6}  {_asked(cost).ljust(10)} {cost.name}"
        )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _asked(cost: CallCost) -> str:
    if cost.every_seconds is None:
        return "as needed"
    return f"every {cost.every_seconds:.0f}s" if cost.every_seconds else "per sample"
