"""The text that Prometheus scrapes: OpenMetrics 1.0, or its older text format.

Sources: https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md and
https://prometheus.io/docs/instrumenting/exposition_formats/. Tests read the text with the parsers of
prometheus_client and with promtool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stalltop.formats.metrics.buckets import EDGES
from stalltop.formats.metrics.catalogue import HostMetric

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content types of the two formats."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Exposition:
    """A ``MetricSink`` that writes text. Histograms have the buckets ``POWERS``."""

    def __init__(self, *, openmetrics: bool) -> None:
        """``openmetrics``: write OpenMetrics, which also says when each counter began; else the older text
        format."""
        self._openmetrics = openmetrics
        self._lines: dict[str, list[str]] = {}
        """The lines of each family: those of a family must follow each other."""

    def add(self, metric: HostMetric, labels: Mapping[str, str], value: float, created: float = 0.0) -> None:
        """Writes the value of a gauge, an info or, with the Unix time at which it was 0, a counter."""
        lines, series = self._family(metric), _braced(_rendered(labels))
        lines.append(f"{metric.series}{series} {value!r}")
        if self._openmetrics and metric.kind == "counter":
            lines.append(f"{metric.name}_created{series} {created!r}")

    def add_histogram(
        self,
        metric: HostMetric,
        labels: Mapping[str, str],
        counts: NDArray[np.uint64],
        seconds: float,
        created: float,
    ) -> None:
        """Writes a histogram: the calls of each bucket, and the sum of their durations."""
        lines, rendered = self._family(metric), _rendered(labels)
        begin = f'{metric.name}_bucket{{{rendered}{"," if rendered else ""}le="'
        below = np.cumsum(counts).tolist()
        lines += [f'{begin}{edge}"}} {count}' for edge, count in zip(EDGES, below, strict=True)]
        series = _braced(rendered)
        lines.append(f"{metric.name}_count{series} {below[-1]}")
        lines.append(f"{metric.name}_sum{series} {seconds!r}")
        if self._openmetrics:
            lines.append(f"{metric.name}_created{series} {created!r}")

    def text(self) -> str:
        """Returns everything that was added."""
        lines = [line for family in self._lines.values() for line in family]
        return "\n".join([*lines, "# EOF", ""] if self._openmetrics else [*lines, ""])

    def _family(self, metric: HostMetric) -> list[str]:
        found = self._lines.get(metric.name)
        if found is None:
            name, kind = metric.name, metric.kind
            if not self._openmetrics and kind in ("counter", "info"):
                name, kind = metric.series, "counter" if kind == "counter" else "gauge"
            found = self._lines[metric.name] = [f"# HELP {name} {metric.about}.", f"# TYPE {name} {kind}"]
            if self._openmetrics and metric.unit:
                found.append(f"# UNIT {name} {metric.unit}")
        return found


def _rendered(labels: Mapping[str, str]) -> str:
    return ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()])


def _braced(rendered: str) -> str:
    return f"{{{rendered}}}" if rendered else ""
