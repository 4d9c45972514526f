"""How often and for how long one library function was called, for ``stalltop check --verbose``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallCost:
    """Statistics of the calls to one library function, for all devices together."""

    name: str
    calls: int
    failures: int
    """Number of ``calls`` that returned no value (not supported, not permitted, or device lost)."""
    median_ns: int
    """Median duration of the latest calls (``probes.nvml.asking.LATEST``); ``p99_ns`` and ``max_ns`` cover
    the same calls."""
    p99_ns: int
    max_ns: int
    every_seconds: float | None = None
    """Seconds between two calls for the same device; 0 if the function is called in each sample; None if it
    is called once, or only when needed."""
