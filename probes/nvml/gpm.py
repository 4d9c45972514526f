"""Reads GPU performance monitoring (GPM): how busy the parts of a GPU were between two samples. Only Hopper
and later GPUs have GPM."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Final

from stalltop.probes.nvml.asking import Asking, NvmlCallError

METRICS: Final = (
    (2, "sm_active_percent", 1.0, 100.0),
    (3, "sm_occupancy_percent", 1.0, 100.0),
    (5, "tensor_percent", 1.0, 100.0),
    (10, "dram_percent", 1.0, 100.0),
    (21, "pcie_rx_bytes_per_second", 2.0**20, 2.0**50),
    (20, "pcie_tx_bytes_per_second", 2.0**20, 2.0**50),
)
"""For each metric: its number in nvml.h (NVML_GPM_METRIC_*), the field of ``Device``, the factor that
converts NVML's value to the unit of that field, and the highest plausible value."""
_SLACK: Final = 1.01
"""Tolerance for values that the driver rounds up: 100.3 % counts as 100 %."""


class Gpm:
    """Two GPM samples of one GPU, which are taken alternately. Holds memory of the driver until it is
    closed."""

    def __init__(self, ask: Asking, gpu: Any) -> None:
        """Allocates the two samples. Raises NvmlCallError if this board has no GPM."""
        self._ask = ask
        self._samples: list[Any] = []
        self._taken = 0
        support = ask("nvmlGpmQueryDeviceSupport", gpu)
        if not support.isSupportedDevice:
            raise NvmlCallError("not supported", lasting=True, unsupported=True)
        self._samples.append(ask("nvmlGpmSampleAlloc"))
        self._samples.append(ask("nvmlGpmSampleAlloc"))

    def read(self, gpu: Any) -> dict[str, float | int]:
        """Returns fields of ``Device`` for the time since the previous read; the first read returns none.
        Raises what ``Asking`` raises."""
        ask = self._ask
        newest, before = self._samples[self._taken % 2], self._samples[(self._taken + 1) % 2]
        ask("nvmlGpmSampleGet", gpu, newest)
        self._taken += 1
        if self._taken < 2:
            return {}
        wanted = ask.nvml.c_nvmlGpmMetricsGet_t()
        wanted.version = ask.nvml.NVML_GPM_METRICS_GET_VERSION
        wanted.numMetrics = len(METRICS)
        wanted.sample1, wanted.sample2 = before, newest
        for place, (number, *_) in enumerate(METRICS):
            wanted.metrics[place].metricId = number
        told = ask("nvmlGpmMetricsGet", wanted)
        found: dict[str, float | int] = {}
        for place, (_, field, unit, most) in enumerate(METRICS):
            metric = told.metrics[place]
            value = float(metric.value) * unit
            if metric.nvmlReturn == 0 and math.isfinite(value) and 0.0 <= value <= most * _SLACK:
                found[field] = min(value, most) if field.endswith("_percent") else int(value)
        return found

    def close(self) -> None:
        """Frees the driver's memory."""
        for sample in self._samples:
            with contextlib.suppress(Exception):
                self._ask("nvmlGpmSampleFree", sample)
        self._samples.clear()
