"""The figures that graphs can show: title, scale, and the value in one window of the past."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from stalltop.model.devices.device import DEVICE_FIGURE, Device
from stalltop.model.merge.packing import Packed
from stalltop.model.network_ports import throughput
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.tui.views.outermost import outermost
from stalltop.tui.views.path import PathStep, below, decided
from stalltop.widgets.table_data import Role

Path = tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a graph is about, if its figure is not that of the whole host."""

    device: str = ""
    """UUID of a GPU; empty: all GPUs."""
    path: Path = ()
    """The path to a row of a table, with the row as its last step; empty: no row."""
    name: str = ""
    """The name of the GPU or row."""


EVERYTHING = Subject()
Value = Callable[[Packed, Subject], float | None]
Text = Callable[[float | None, Glyphs], str]


@dataclass(frozen=True, slots=True)
class GraphFigure:
    """A figure that a graph can show."""

    id: str
    title: str
    about: str
    """One sentence for the list of figures."""
    value: Value
    """Returns the value in one window; None if it is not known."""
    text: Text
    """Formats a value in at most seven cells."""
    end: Value = lambda part, subject: None
    """Returns the value at the top of the scale, from the newest window; None: a round number above the
    largest value."""
    least: float = 1.0
    """The least value at the top of the scale; used only if ``end`` returns None."""
    peak: bool = False
    """Whether a column shows the largest of its values, not their mean."""
    of: str = ""
    """What its subject is: ``device``, ``row`` or nothing."""
    role: Role = "meter"
    """The style of its columns: that of the part of a call's time that it is about, where there is one."""


def _devices(part: Packed, subject: Subject) -> list[Device]:
    devices = part.window.devices.devices
    return [one for one in devices if not subject.device or one.uuid == subject.device]


def _gauge(name: str, *, total: bool = False) -> tuple[Value, Text, Value]:
    """Return the functions for the value, the text and the end of the scale of a figure of GPUs: the mean of
    all GPUs, or with ``total`` their sum."""
    gauge = DEVICE_FIGURE[name]

    def joined(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return (sum(known) if total else sum(known) / len(known)) if known else None

    def value(part: Packed, subject: Subject) -> float | None:
        return joined([gauge.value(one) for one in _devices(part, subject)])

    def end(part: Packed, subject: Subject) -> float | None:
        return joined([gauge.end(one) for one in _devices(part, subject)])

    def text(value: float | None, glyphs: Glyphs) -> str:
        return figures.with_unit(value, gauge.unit, glyphs).strip()

    return value, text, end


def _calls(part: Packed, subject: Subject) -> float:
    """Return the outermost calls per second."""
    return float(part.call_counts[outermost(part.keys)].sum()) / (part.window.seconds or 1.0)


def _p99(part: Packed, subject: Subject) -> float | None:
    """Return the p99 (ns) of the row that the graph is about."""
    if not subject.path:
        return None
    inside = below(subject.path, part.window)
    all_calls = decided(subject.path)
    kept = [at for at, key in enumerate(part.keys) if (all_calls or key.outermost) and inside(key)]
    if not kept:
        return None
    rows = part.rows().take(np.array(kept, np.int64))
    merged = rows.histograms.grouped(np.zeros(len(kept), np.int64), 1)
    if not int(merged.totals()[0]):
        return None
    # The upper edge of a counter of the histogram may be above the longest call.
    return float(min(int(merged.percentiles((99.0,))[0, 0]), int(rows.max_ns.max())))


def _waiting(part: Packed, subject: Subject) -> float | None:
    """Return the share of time in which a task waited for a CPU, in percent. Without PSI: by how much the
    load per CPU is above 1, in percent, at most 100."""
    system = part.window.system
    if system is None:
        return None
    if system.cpu_pressure_percent is not None:
        return system.cpu_pressure_percent
    return min(100.0 * max(system.load[0] / max(system.cpus, 1) - 1.0, 0.0), 100.0)


def _network(part: Packed, subject: Subject) -> float | None:
    """Return the bytes received and sent per second; None if no port was read."""
    moved = throughput(part.glance.network_ports, part.window.seconds)
    return None if moved is None else moved.rx_bytes + moved.tx_bytes


def _disk_bytes(part: Packed, subject: Subject) -> float | None:
    """Return the bytes read and written per second on block devices; None if that is not traced."""
    if part.window.coverage.tracing:
        return None
    return part.glance.disk_bytes / (part.window.seconds or 1.0)


def _lateness(part: Packed, subject: Subject) -> float | None:
    """Return by how many ns the latest rank is late for a collective, on average; None without ranks that
    were compared."""
    return part.glance.late_ns


def _system(name: str) -> Value:
    def value(part: Packed, subject: Subject) -> float | None:
        system = part.window.system
        return None if system is None else getattr(system, name)

    return value


def _per_s(value: float | None, glyphs: Glyphs) -> str:
    if value is None:
        return figures.missing(1, glyphs)
    return figures.duration(value * 1e6, glyphs).strip() + "/s"


def _duration(value: float | None, glyphs: Glyphs) -> str:
    return figures.duration(value, glyphs).strip()


def _rate(value: float | None, glyphs: Glyphs) -> str:
    return figures.rate(value, glyphs).strip()


def _unit(unit: str) -> Text:
    return lambda value, glyphs: figures.with_unit(value, unit, glyphs).strip()


def _hundred(part: Packed, subject: Subject) -> float:
    return 100.0


_BUSY, _MEMORY = _gauge("utilization_percent"), _gauge("memory_used_bytes", total=True)
_POWER, _CLOCK = _gauge("power_watts", total=True), _gauge("sm_clock_mhz")

FIGURES: Final = (
    GraphFigure(
        "problems",
        "problem time",
        "Time that problems cost, per second",
        lambda part, _: part.peak.lost_ms_per_s,
        _per_s,
        least=10.0,
        peak=True,
    ),
    GraphFigure(
        "p99",
        "p99",
        "99th percentile of the row under the cursor",
        _p99,
        _duration,
        least=1e3,
        peak=True,
        of="row",
    ),
    GraphFigure("calls", "calls/s", "Traced calls per second", _calls, _rate, least=10.0),
    GraphFigure(
        "gpu", "GPU busy", "Share of time in which a CUDA kernel ran", *_BUSY, of="device", role="gpu_line"
    ),
    GraphFigure(
        "gpu_memory",
        "GPU memory",
        "Memory of the GPUs that is in use",
        *_MEMORY,
        of="device",
        role="gpu_line",
    ),
    GraphFigure("power", "GPU power", "Power that the GPUs draw", *_POWER, of="device", role="gpu_line"),
    GraphFigure("clocks", "SM clock", "Clock of the SMs of the GPUs", *_CLOCK, of="device", role="gpu_line"),
    GraphFigure("cpu", "CPU", "Share of the CPUs that is busy", _system("cpu_percent"), _unit("%"), _hundred),
    GraphFigure(
        "run_queue",
        "waiting for a CPU",
        "Share of time in which a task waited for a CPU",
        _waiting,
        _unit("%"),
        _hundred,
        peak=True,
        role="runqueue_line",
    ),
    GraphFigure(
        "disk",
        "waiting for a disk",
        "Share of time in which a task waited for a disk",
        _system("io_pressure_percent"),
        _unit("%"),
        _hundred,
        peak=True,
        role="disk_line",
    ),
    GraphFigure(
        "disk_bytes",
        "disk bytes/s",
        "Bytes that are read from block devices and written to them",
        _disk_bytes,
        lambda value, glyphs: figures.size(value, glyphs).strip(),
        least=1e3,
        role="disk_line",
    ),
    GraphFigure(
        "late_rank",
        "lateness of the last rank",
        "Mean time by which the latest rank of a job is late for collectives",
        _lateness,
        _duration,
        least=1e3,
        peak=True,
    ),
    GraphFigure(
        "network",
        "network bytes/s",
        "Bytes that the host receives and sends over its network, RDMA too",
        _network,
        lambda value, glyphs: figures.size(value, glyphs).strip(),
        least=1e3,
        role="network_line",
    ),
)
"""All figures, in the order of the list in which the user chooses."""
BY_ID: Final[Mapping[str, GraphFigure]] = MappingProxyType({one.id: one for one in FIGURES})
IDS: Final = tuple(BY_ID)
MOST: Final = 3
"""The most graphs on the screen."""


def high_of(values: float, least: float) -> float:
    """Return the top of a scale for values up to ``values``: 1, 2 or 5 times a power of ten."""
    wanted = max(values, least)
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= wanted * (1 - 1e-9))
