"""The figures of this process, under the names that the client libraries of Prometheus use:
https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics."""

from __future__ import annotations

import resource
from typing import Final

import psutil

from stalltop.formats.metrics.catalogue import HostMetric
from stalltop.formats.metrics.points import MetricSink

_CPU: Final = HostMetric("process_cpu_seconds", "counter", "CPU time of this process")
_RESIDENT: Final = HostMetric("process_resident_memory_bytes", "gauge", "Resident memory of this process")
_VIRTUAL: Final = HostMetric("process_virtual_memory_bytes", "gauge", "Virtual memory of this process")
_START: Final = HostMetric(
    "process_start_time_seconds", "gauge", "Unix time at which this process was started"
)
_OPEN: Final = HostMetric("process_open_fds", "gauge", "Open file descriptors of this process")
_MOST_OPEN: Final = HostMetric("process_max_fds", "gauge", "Limit of its open file descriptors")


def pass_on_process(sink: MetricSink) -> None:
    """Passes the figures of this process to ``sink``."""
    process = psutil.Process()
    began = process.create_time()
    with process.oneshot():
        times, memory = process.cpu_times(), process.memory_info()
        sink.add(_CPU, {}, times.user + times.system, began)
        sink.add(_RESIDENT, {}, memory.rss)
        sink.add(_VIRTUAL, {}, memory.vms)
        sink.add(_START, {}, began)
        sink.add(_OPEN, {}, process.num_fds())
        sink.add(_MOST_OPEN, {}, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
