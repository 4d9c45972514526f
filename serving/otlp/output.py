"""Turns windows into requests: the totals at intervals, and changes of problems at once."""

from __future__ import annotations

from collections.abc import Mapping

from stalltop.formats.metrics.exponential import EXPONENTIAL
from stalltop.formats.metrics.totals import HostTotals
from stalltop.formats.otlp.logs import ProblemLog
from stalltop.formats.otlp.metrics import OtlpMetrics
from stalltop.model.window import Window
from stalltop.serving.otlp.exporter import OtlpExporter


class OtlpOutput:
    """Takes windows in order, in one thread."""

    def __init__(
        self, exporter: OtlpExporter, version: str, given: Mapping[str, str], *, series: int, seconds: float
    ) -> None:
        """``given``: further attributes of the host. ``series``: the most combinations of tenant and
        operation with series of their own. ``seconds``: time from one request with metrics to the next."""
        self._exporter = exporter
        self._totals = HostTotals(series, EXPONENTIAL)
        self._metrics = OtlpMetrics(self._totals, version, given)
        self._problems = ProblemLog(version, given)
        self._seconds = seconds
        self._due = 0.0
        self._sent = 0.0

    def take(self, window: Window) -> None:
        """Adds a window, and puts what is due into the queue."""
        self._totals.add(window)
        self._exporter.put("logs", self._problems.request(window))
        if window.end > self._due - window.seconds / 2:
            self._due = window.end + self._seconds
            self._put_metrics(window.end)

    def finish(self) -> None:
        """Puts the last totals into the queue."""
        window = self._totals.window
        if window is not None and window.end > self._sent:
            self._put_metrics(window.end)

    def _put_metrics(self, end: float) -> None:
        self._sent = end
        self._exporter.put("metrics", self._metrics.request())
