"""The message that Prometheus scrapes for native histograms: its protobuf format, one length-delimited
MetricFamily after the other. Histograms have the exponential buckets of scale 5, which Prometheus calls
schema.

Source: https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto. Tests read
the message with a real Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.formats.metrics.catalogue import HostMetric
from stalltop.formats.metrics.exponential import OFFSET, SCALE, ZERO_COLUMN
from stalltop.formats.protobuf import Field, encoded, varint, zigzag

PROTOBUF: Final = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)
"""Content type."""
MEDIA_TYPE: Final = PROTOBUF.partition(";")[0]
_COUNTER, _GAUGE, _HISTOGRAM = 0, 1, 4
"""Values of MetricType."""
_ZERO_THRESHOLD: Final = 2.0**-128
"""The default of Prometheus' own client library: a duration of 0 ns counts as zero, and no other does."""
_FIRST: Final = OFFSET + 1
"""Number of the first bucket. Prometheus numbers a bucket by its upper edge, OTLP by its lower one."""


class NativeExposition:
    """A ``MetricSink`` that writes the protobuf format. Histograms have the buckets ``EXPONENTIAL``."""

    def __init__(self) -> None:
        self._families: dict[str, list[bytes]] = {}

    def add(self, metric: HostMetric, labels: Mapping[str, str], value: float, created: float = 0.0) -> None:
        """Writes the value of a gauge, an info or, with the Unix time at which it was 0, a counter."""
        parts: list[Field] = [(1, float(value))]
        if metric.kind == "counter":
            kind, field = _COUNTER, 3
            parts.append((3, _timestamp(created)))
        else:
            kind, field = _GAUGE, 2
        self._family(metric.series, metric, kind).append(_metric(labels, field, parts))

    def add_histogram(
        self,
        metric: HostMetric,
        labels: Mapping[str, str],
        counts: NDArray[np.uint64],
        seconds: float,
        created: float,
    ) -> None:
        """Writes a histogram: the calls of each bucket, and the sum of their durations."""
        parts: list[Field] = [
            (1, int(counts.sum())),
            (2, seconds),
            (5, zigzag(SCALE)),
            (6, _ZERO_THRESHOLD),
            (7, int(counts[ZERO_COLUMN])),
            *_buckets(counts[ZERO_COLUMN + 1 :].astype(np.int64)),
            (15, _timestamp(created)),
        ]
        self._family(metric.name, metric, _HISTOGRAM).append(_metric(labels, 7, parts))

    def content(self) -> bytes:
        """Returns everything that was added."""
        families = (b"".join(family) for family in self._families.values())
        return b"".join(varint(len(family)) + family for family in families)

    def _family(self, name: str, metric: HostMetric, kind: int) -> list[bytes]:
        found = self._families.get(name)
        if found is None:
            found = self._families[name] = [encoded([(1, name), (2, f"{metric.about}."), (3, kind)])]
        return found


def _metric(labels: Mapping[str, str], field: int, parts: list[Field]) -> bytes:
    pairs: list[Field] = [(1, encoded(((1, name), (2, value)))) for name, value in labels.items()]
    return encoded([(4, encoded([*pairs, (field, encoded(parts))]))])


def _buckets(counts: NDArray[np.int64]) -> Iterator[Field]:
    """Yields the spans of buckets that are not empty, and the differences of their counts."""
    filled = np.flatnonzero(counts)
    if not len(filled):
        return
    runs = np.split(filled, np.flatnonzero(np.diff(filled) > 1) + 1)
    end = -_FIRST  # The first span begins at the number of its bucket, each further one after a gap.
    for run in runs:
        yield 12, encoded([(1, zigzag(int(run[0]) - end)), (2, len(run))])
        end = int(run[-1]) + 1
    yield 13, [zigzag(one) for one in np.diff(counts[filled], prepend=0).tolist()]


def _timestamp(seconds: float) -> bytes:
    whole = int(seconds)
    return encoded([(1, whole), (2, int((seconds - whole) * 1e9))])
