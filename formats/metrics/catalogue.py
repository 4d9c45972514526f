"""All metrics: name, type, labels and meaning of each. The exposition and the table in docs/metrics.md are
made from this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from stalltop.formats.metrics.labels import OTHER, CulpritLabel, DeviceLabels, JobLabels, TenantLabels
from stalltop.model.devices.device import DEVICE_FIGURES, DeviceFigure

Kind = Literal["counter", "gauge", "histogram", "info"]

_TENANT: Final = TenantLabels._fields
_DEVICE: Final = DeviceLabels._fields
_BY: Final = CulpritLabel._fields


@dataclass(frozen=True, slots=True)
class HostMetric:
    """One metric."""

    name: str
    """Name of the family, as in its lines TYPE and HELP of OpenMetrics."""
    kind: Kind
    about: str
    """Meaning in one line, without a full stop."""
    labels: tuple[str, ...] = ()
    """Names of the labels that its series may have."""

    @property
    def unit(self) -> str:
        """Unit for OpenMetrics, which is the end of the name; '' if the metric has none."""
        return next((unit for unit in ("seconds", "bytes", "ratio") if self.name.endswith(f"_{unit}")), "")

    @property
    def series(self) -> str:
        """Name of the series, as in a query."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


CALL_DURATION: Final = HostMetric(
    "stalltop_call_duration_seconds",
    "histogram",
    "Duration of the outermost calls that returned",
    (*_TENANT, "operation"),
)
CALLS: Final = HostMetric(
    "stalltop_calls", "counter", "Outermost calls that returned", (*_TENANT, "operation")
)
ERRORS: Final = HostMetric(
    "stalltop_errors", "counter", "Outermost calls that returned an error", (*_TENANT, "operation")
)
BYTES: Final = HostMetric(
    "stalltop_call_bytes",
    "counter",
    "Bytes that calls copied, set, allocated or sent; without a series while there were none",
    (*_TENANT, "operation"),
)
TIME: Final = HostMetric(
    "stalltop_time_seconds",
    "counter",
    "Where the time of calls went, and the time between calls (operation host gap), by part; "
    "a part without time has no series",
    (*_TENANT, "operation", "part"),
)
LOST: Final = HostMetric(
    "stalltop_lost_seconds",
    "counter",
    "Time that threads of the tenant lost off the CPU, by culprit: who held the CPU (part runqueue), "
    "or who ended the wait (other parts)",
    (*_TENANT, "part", *_BY),
)
PROBLEM: Final = HostMetric(
    "stalltop_problem",
    "gauge",
    "Open problems: seconds that all threads together lose per second because of it; 0 if none was measured",
    ("cause", "severity", *_TENANT, *_BY),
)
PROBLEM_START: Final = HostMetric(
    "stalltop_problem_start_time_seconds",
    "gauge",
    "Unix time at which the open problem was first seen",
    ("cause", "severity", *_TENANT, *_BY),
)
JOB: Final = HostMetric(
    "stalltop_hpc_job", "info", "Slurm jobs of this host, for joins by hpc_job", JobLabels._fields
)
DEVICE: Final = HostMetric(
    "stalltop_device", "info", "GPUs, by the labels of dcgm-exporter", (*_DEVICE, "model", "driver")
)
DEVICE_ACTIVE: Final = HostMetric(
    "stalltop_device_active_seconds",
    "counter",
    "Time in which the tenant submitted work to the GPU or waited for it; that of several tenants overlaps",
    (*_DEVICE, *_TENANT),
)
XIDS: Final = HostMetric(
    "stalltop_device_xids", "counter", "XIDs (critical errors) that the driver reported", (*_DEVICE, "xid")
)
MISSED: Final = HostMetric(
    "stalltop_missed", "counter", "What was not, or not fully, counted (losses in docs/json.md)", ("reason",)
)
UNOBSERVED: Final = HostMetric(
    "stalltop_unobserved_seconds",
    "counter",
    "Time without any window: another stalltop became the tracer, or this one read too slowly",
)
WINDOW_END: Final = HostMetric(
    "stalltop_window_end_timestamp_seconds", "gauge", "Unix time at which the newest window ended"
)
TRACING: Final = HostMetric("stalltop_tracing", "gauge", "1 while calls are traced, else 0")
PROBES: Final = HostMetric("stalltop_attached_probes", "gauge", "Attached probes")
PROBE_CPU: Final = HostMetric(
    "stalltop_probe_cpu_seconds", "counter", "CPU time that the probes added to traced programs (own cost)"
)
REDUCED: Final = HostMetric(
    "stalltop_reduced_functions",
    "gauge",
    "Functions of which not all calls are counted or timed, so that probes stay within their budget",
)
UNTRACED: Final = HostMetric(
    "stalltop_untraced", "gauge", "Files, processes and tenants that should be traced and are not"
)
FOLDED: Final = HostMetric(
    "stalltop_folded_series",
    "gauge",
    f"Label sets of the newest window that have no series of their own, but are added up as {OTHER}",
    ("metric",),
)
BUILD: Final = HostMetric("stalltop_build", "info", "Version of this stalltop", ("version",))


@dataclass(frozen=True, slots=True)
class FigureMetric:
    """A figure of a GPU (``model.devices.device.DEVICE_FIGURES``) as a metric."""

    figure: DeviceFigure
    metric: HostMetric
    scale: float
    """What the figure is multiplied with to get the unit of the metric."""


_BASE_UNITS: Final = {
    "_percent": ("_ratio", 0.01),
    "_mhz": ("_hertz", 1e6),
    "_millijoules": ("_joules", 1e-3),
    "_ns": ("_seconds", 1e-9),
}
"""By suffix of a figure: suffix in the base unit of Prometheus, and the factor. Others are base units."""


def _figure_metric(figure: DeviceFigure) -> FigureMetric:
    suffix, scale = next((base for end, base in _BASE_UNITS.items() if figure.name.endswith(end)), ("", 1.0))
    stem = figure.name.rpartition("_")[0] if suffix else figure.name
    name = f"stalltop_device_{stem.removeprefix('device_')}{suffix}"
    about = figure.about[0].upper() + figure.about[1:]
    return FigureMetric(
        figure, HostMetric(name, "counter" if figure.counts else "gauge", about, _DEVICE), scale
    )


FIGURES: Final = tuple(_figure_metric(figure) for figure in DEVICE_FIGURES)
"""The metrics of figures of GPUs."""
METRICS: Final = (
    *(CALL_DURATION, CALLS, ERRORS, BYTES, TIME, LOST, PROBLEM, PROBLEM_START),
    *(JOB, DEVICE, DEVICE_ACTIVE, XIDS, *(one.metric for one in FIGURES)),
    *(MISSED, UNOBSERVED, WINDOW_END, TRACING, PROBES, PROBE_CPU, REDUCED, UNTRACED, FOLDED, BUILD),
)
"""All metrics, in the order of the document."""


def metrics_markdown(metrics: Sequence[HostMetric]) -> str:
    """Returns ``metrics`` as a table for docs/metrics.md."""
    lines = ["| metric | type | labels | what |", "|---|---|---|---|"]
    for one in metrics:
        labels = ", ".join(f"`{name}`" for name in one.labels)
        for part, meant in ((_TENANT, "*tenant*"), (_DEVICE, "*device*")):
            labels = labels.replace(", ".join(f"`{name}`" for name in part), meant)
        lines.append(f"| `{one.series}` | {one.kind} | {labels} | {one.about} |")
    return "\n".join(lines)
