"""Adds up everything in the windows of a monitor."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor


@dataclass
class WindowTotals:
    """Sums of everything in a monitor's windows."""

    monitor: Monitor
    calls: dict[RowKey, int] = field(default_factory=lambda: defaultdict(int))
    bytes: dict[RowKey, int] = field(default_factory=lambda: defaultdict(int))
    histograms: dict[RowKey, list[Histograms]] = field(default_factory=lambda: defaultdict(list))
    loss: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def read(self) -> Window:
        window = self.monitor.read()
        rows = window.rows
        assert rows.calls.tolist() == rows.histograms.totals().tolist()
        assert (rows.errors <= rows.calls).all()
        if len(rows):
            assert rows.split_ns is not None
            assert rows.split_ns.sum(axis=1).tolist() == rows.total_ns.tolist()
        for place, key in enumerate(rows.keys):
            self.calls[key] += int(rows.calls[place])
            self.bytes[key] += int(rows.bytes[place])
            self.histograms[key].append(rows.histograms.take(np.array([place])))
        for name, count in window.loss.items():
            self.loss[name] += count
        return window
