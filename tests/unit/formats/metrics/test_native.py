"""Tests the protobuf format with the library of protocol buffers: its messages are those of
io/prometheus/client/metrics.proto, as far as they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from stalltop.formats.metrics.catalogue import CALL_DURATION, CALLS, JOB, TRACING
from stalltop.formats.metrics.exponential import BASE, EXPONENTIAL, OFFSET
from stalltop.formats.metrics.native import NativeExposition

_TYPES = {
    "string": 9,
    "double": 1,
    "uint64": 4,
    "sint32": 17,
    "sint64": 18,
    "uint32": 13,
    "int64": 3,
    "int32": 5,
}
_MESSAGES = {
    "Time": "1 int64 seconds, 2 int32 nanos",
    "LabelPair": "1 string name, 2 string value",
    "Gauge": "1 double value",
    "Counter": "1 double value, 3 Time created_timestamp",
    "BucketSpan": "1 sint32 offset, 2 uint32 length",
    "Histogram": "1 uint64 sample_count, 2 double sample_sum, 5 sint32 schema, 6 double zero_threshold, "
    "7 uint64 zero_count, 12 *BucketSpan positive_span, 13 *sint64 positive_delta, 15 Time created_timestamp",
    "Metric": "1 *LabelPair label, 2 Gauge gauge, 3 Counter counter, 7 Histogram histogram",
    "MetricFamily": "1 string name, 2 string help, 3 int32 type, 4 *Metric metric",
}


def family_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="p", syntax="proto3")
    for name, fields in _MESSAGES.items():
        made = file.message_type.add(name=name)
        for one in fields.split(", "):
            number, kind, field = one.split()
            added = made.field.add(name=field, number=int(number), label=3 if kind.startswith("*") else 1)
            kind = kind.removeprefix("*")
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type, added.type_name = 11, f".p.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.MetricFamily"))


FAMILY = family_class()


def parsed(content: bytes) -> list[Any]:
    found = []
    while content:
        length = shift = at = 0
        while True:
            length |= (content[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if content[at - 1] < 0x80:
                break
        found.append(FAMILY.FromString(content[at : at + length]))
        content = content[at + length :]
    return found


def test_counters_gauges_and_infos_are_families_of_their_own() -> None:
    made = NativeExposition()
    made.add(CALLS, {"tenant": "a", "operation": "x"}, 7, 1_700_000_000.25)
    made.add(TRACING, {}, 1)
    made.add(CALLS, {"tenant": "b"}, 1 << 40, 1_700_000_000.0)
    made.add(JOB, {"hpc_job": "42"}, 1)
    calls, tracing, job = parsed(made.content())
    assert (calls.name, calls.type, calls.help[-1]) == ("stalltop_calls_total", 0, ".")
    first, second = calls.metric
    assert {one.name: one.value for one in first.label} == {"tenant": "a", "operation": "x"}
    assert (first.counter.value, second.counter.value) == (7, 1 << 40)
    created = first.counter.created_timestamp
    assert (created.seconds, created.nanos) == (1_700_000_000, 250_000_000)
    assert (tracing.name, tracing.type, tracing.metric[0].gauge.value) == ("stalltop_tracing", 1, 1)
    assert (job.name, job.type) == ("stalltop_hpc_job_info", 1)


@given(st.dictionaries(st.integers(0, EXPONENTIAL.number - 1), st.integers(1, 1 << 50), max_size=30))
def test_a_histogram_has_every_call_in_its_bucket(filled: dict[int, int]) -> None:
    counts = np.zeros(EXPONENTIAL.number, np.uint64)
    for column, count in filled.items():
        counts[column] = count
    made = NativeExposition()
    made.add_histogram(CALL_DURATION, {}, counts, 1.5, 0.0)
    (family,) = parsed(made.content())
    histogram = family.metric[0].histogram
    assert (family.name, family.type, histogram.schema) == ("stalltop_call_duration_seconds", 4, 5)
    assert (histogram.sample_count, histogram.sample_sum) == (sum(filled.values()), 1.5)
    assert histogram.zero_count == filled.pop(0, 0)
    buckets: dict[int, int] = {}
    number = count = 0
    deltas = iter(histogram.positive_delta)
    for span in histogram.positive_span:
        number += span.offset
        for _ in range(span.length):
            count += next(deltas)
            buckets[number] = count
            number += 1
    assert next(deltas, None) is None
    # Column 1 has the first bucket of OTLP, which is the next one of Prometheus.
    assert buckets == {column - 1 + OFFSET + 1: count for column, count in filled.items()}


def test_a_bucket_of_prometheus_ends_at_its_number() -> None:
    made = NativeExposition()
    counts = np.zeros(EXPONENTIAL.number, np.uint64)
    counts[int(EXPONENTIAL.of_index[1])] = 1  # calls of 1 ns
    made.add_histogram(CALL_DURATION, {}, counts, 1e-9, 0.0)
    (span,) = parsed(made.content())[0].metric[0].histogram.positive_span
    assert BASE ** (span.offset - 1) < 1e-9 <= BASE**span.offset == pytest.approx(1e-9, rel=0.022)
