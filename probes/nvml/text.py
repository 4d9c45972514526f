"""Formats what is read of each GPU as the table of docs/devices.md."""

from __future__ import annotations

from stalltop.model.devices.device import DEVICE_FIGURE
from stalltop.probes.nvml.readings import EACH_LOOK, READINGS, STEADY

_OTHERS = (
    ("XIDs", "`xids`", "as they happen", ""),
    (
        "MIG devices",
        "`mig`, `instances`",
        "every 10 s; memory and processes of each MIG device at each sample",
        f"`{DEVICE_FIGURE['mig'].smi[0]}`",
    ),
    ("processes: compute, graphics, MPS clients", "`processes`", "each sample", ""),
    ("process samples", "`processes[].sm_percent` …", "each sample, but not with MIG", ""),
    (
        "context switches, from the driver's log",
        "`context_switches`, `processes[].resident_ns`",
        "each sample while several processes share the GPU; not with MIG, not for MPS clients",
        "",
    ),
    (
        "GPM, from Hopper on",
        "`sm_active_percent`, `sm_occupancy_percent`, `tensor_percent`, `dram_percent`, PCIe throughput",
        "each sample",
        "",
    ),
)
"""Figures that are not in ``READINGS``."""


def markdown() -> str:
    """Returns the table, one line for each question."""
    lines = ["| question | fields (docs/json.md) | asked | in `nvidia-smi -q -x` |", "|---|---|---|---|"]
    for reading in READINGS:
        fields = ", ".join(f"`{figure.field}`" for figure in reading.figures)
        paths = ", ".join(
            f"`{DEVICE_FIGURE[figure.field].smi[0]}`"
            for figure in reading.figures
            if figure.field in DEVICE_FIGURE and DEVICE_FIGURE[figure.field].smi
        )
        lines.append(f"| {reading.name} | {fields} | {_rhythm(reading.every_seconds)} | {paths} |")
    return "\n".join([*lines, *(f"| {' | '.join(line)} |" for line in _OTHERS)])


def _rhythm(seconds: float) -> str:
    if seconds == EACH_LOOK:
        return "each sample"
    return "each minute" if seconds == STEADY else f"every {seconds:.0f} s"
