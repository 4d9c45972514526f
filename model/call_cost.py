"""Counts and durations of the calls to one library function, for ``stalltop check --verbose``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallCost:
    """Statistics of one function, over all devices that it was called for."""

    name: str
    calls: int
    failures: int
    """How many of ``calls`` returned no value: not supported, not permitted, or device lost."""
    median_ns: int
    """Median duration of the latest calls (``probes.nvml.asking.LATEST``); ``p99_ns`` and ``max_ns`` cover
    the same calls."""
    p99_ns: int
    max_ns: int
    every_seconds: float | None = None
    """Seconds between two calls for a device; 0: one call in each sample. None: called once, or when
    needed."""
