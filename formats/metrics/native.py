"""The message that Prometheus scrapes for native histograms: its protobuf format, one length-delimited
MetricFamily after the other. Histograms have the exponential buckets of scale 5, which Prometheus calls
schema.

Source: https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto. Tests read
the message with a real Prometheus.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.formats.metrics.catalogue import HostMetric
from stalltop.formats.metrics.exponential import OFFSET, SCALE, ZERO_COLUMN

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
        if metric.kind == "counter":
            kind, field, content = _COUNTER, 3, _double(1, value) + _message(3, _timestamp(created))
        else:
            kind, field, content = _GAUGE, 2, _double(1, value)
        self._family(metric.series, metric, kind).append(_metric(labels, field, content))

    def add_histogram(
        self,
        metric: HostMetric,
        labels: Mapping[str, str],
        counts: NDArray[np.uint64],
        seconds: float,
        created: float,
    ) -> None:
        """Writes a histogram: the calls of each bucket, and the sum of their durations."""
        content = b"".join(
            (
                _number(1, int(counts.sum())),
                _double(2, seconds),
                _number(5, _zigzag(SCALE)),
                _double(6, _ZERO_THRESHOLD),
                _number(7, int(counts[ZERO_COLUMN])),
                *_buckets(counts[ZERO_COLUMN + 1 :].astype(np.int64)),
                _message(15, _timestamp(created)),
            )
        )
        self._family(metric.name, metric, _HISTOGRAM).append(_metric(labels, 7, content))

    def content(self) -> bytes:
        """Returns everything that was added."""
        families = (b"".join(family) for family in self._families.values())
        return b"".join(_varint(len(family)) + family for family in families)

    def _family(self, name: str, metric: HostMetric, kind: int) -> list[bytes]:
        found = self._families.get(name)
        if found is None:
            head = _text(1, name) + _text(2, f"{metric.about}.") + _number(3, kind)
            found = self._families[name] = [head]
        return found


def _metric(labels: Mapping[str, str], field: int, content: bytes) -> bytes:
    pairs = (_message(1, _text(1, name) + _text(2, value)) for name, value in labels.items())
    return _message(4, b"".join(pairs) + _message(field, content))


def _buckets(counts: NDArray[np.int64]) -> Iterator[bytes]:
    """Yields the spans of buckets that are not empty, and the differences of their counts."""
    filled = np.flatnonzero(counts)
    if not len(filled):
        return
    runs = np.split(filled, np.flatnonzero(np.diff(filled) > 1) + 1)
    end = -_FIRST  # The first span begins at the number of its bucket, each further one after a gap.
    for run in runs:
        yield _message(12, _number(1, _zigzag(int(run[0]) - end)) + _number(2, len(run)))
        end = int(run[-1]) + 1
    yield _message(13, _packed(_zigzag(one) for one in np.diff(counts[filled], prepend=0).tolist()))


def _timestamp(seconds: float) -> bytes:
    whole = int(seconds)
    return _number(1, whole) + _number(2, int((seconds - whole) * 1e9))


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _packed(values: Iterable[int]) -> bytes:
    return b"".join(map(_varint, values))


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    """Returns a number that is not negative as a protobuf varint."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
