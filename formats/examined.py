"""Says what ``stalltop explain`` examined in a window, and whether anything is wrong there."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.model.chain import Chain
from stalltop.model.window import Window


def is_healthy(window: Window, chains: Sequence[Chain]) -> bool | None:
    """Return False if one of ``chains`` is a fault, else True; None if the window has neither rows nor
    chains."""
    if any(chain.severity != "info" for chain in chains):
        return False
    return True if len(window.rows) or chains else None


def examined(window: Window) -> dict[str, int]:
    """Return how many outermost calls the window has, how many operations, processes and tenants these calls
    belong to, and the number of devices."""
    keys = [key for key in window.rows.keys if key.outermost]
    calls = sum(
        int(calls) for key, calls in zip(window.rows.keys, window.rows.calls, strict=True) if key.outermost
    )
    return {
        "calls": calls,
        "operations": len({(key.layer, key.operation) for key in keys}),
        "processes": len({(key.host, key.pid) for key in keys}),
        "tenants": len({key.tenant for key in keys}),
        "devices": len(window.devices.devices),
    }
