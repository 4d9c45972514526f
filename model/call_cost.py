"""What calls of a library cost: how often, how long, how many failed. For the readiness check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallCost:
    """One function, over all the devices it was asked of."""

    name: str
    calls: int
    failures: int
    """Of these, those that gave no answer: not supported, not permitted, lost."""
    median_ns: int
    """Of the latest calls (``probes.nvml.asking.LATEST``), as the two that follow."""
    p99_ns: int
    max_ns: int
    every_seconds: float | None = None
    """How often it is asked of each device at this cost; 0: at each look. None: once, or as needed."""
