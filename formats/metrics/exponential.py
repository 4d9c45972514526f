"""Buckets of OTLP's exponential histograms, and of Prometheus' native ones: bucket i has the durations above
2^(i / 32) s, up to 2^((i + 1) / 32) s (scale 5), so that a bucket is 2.2 % wide.

An HDR counter is at most 0.8 % wide (1/128), and most lie inside one bucket. A counter across an edge counts
in the bucket of its middle. So a call may count on the other side of an edge only if its duration is within
0.4 % of the edge. Sums and numbers of calls are exact.

Source: https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stalltop.formats.metrics.buckets import Buckets
from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_OF_INDEX, lowest_ns

SCALE: Final = 5
"""The base of the buckets is 2^(2^-SCALE). Prometheus keeps histograms up to scale 8."""
BASE: Final = 2.0 ** (2.0**-SCALE)
"""Ratio of a bucket's edges: 1.022."""
_MIDDLE_SECONDS: Final = (lowest_ns(np.arange(1, COUNTERS)) + HIGHEST_OF_INDEX[1:]) / 2e9
_NUMBERS: Final = np.ceil(np.log2(_MIDDLE_SECONDS) * 2**SCALE).astype(np.int64) - 1
"""Number of the bucket of each HDR counter but the first, which counts durations of 0 ns."""
OFFSET: Final = int(_NUMBERS[0])
"""Number of the bucket with the durations of 1 ns, the first one."""
ZERO_COLUMN: Final = 0
"""Column of the calls of 0 ns, in front of those of the buckets."""
EXPONENTIAL: Final = Buckets(
    np.concatenate((np.array([ZERO_COLUMN]), _NUMBERS - OFFSET + 1)), int(_NUMBERS[-1]) - OFFSET + 2
)
"""The column of the calls of 0 ns, and those of all buckets from 1 ns to 137 s: 1,186 columns."""
