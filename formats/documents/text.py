"""Formats the generated parts of docs/json.md."""

from __future__ import annotations

from typing import Final

from stalltop.model.devices.device import DEVICE_FIGURES, DeviceFigure
from stalltop.model.network_ports import PORT_COUNTERS
from stalltop.model.stacks.stack import REASONS
from stalltop.model.window import LOSSES, PARTS, UNCOUNTED

_TYPES: Final = {"float": "number", "int": "integer", "bool": "boolean"}
"""JSON's name of each Python type."""


def figures_markdown() -> str:
    """Return the table of the figures of a GPU."""
    lines = ["| figure | type | meaning |", "|---|---|---|"]
    return "\n".join([*lines, *map(_line, DEVICE_FIGURES)])


def ports_markdown() -> str:
    """Return the table of the counters of a network port."""
    lines = ["| counter | sort | meaning |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{one.name}` | {one.sort} | {one.about} |" for one in PORT_COUNTERS)])


def parts_markdown() -> str:
    """Return the table of the parts of a call's time."""
    lines = ["| part | what the calling thread did |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {part.thread} |" for name, part in PARTS.items())])


def reasons_markdown() -> str:
    """Return the table of the reasons of stacks."""
    lines = ["| reason | what the call or the thread did |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{reason}` | {about} |" for reason, about in REASONS.items())])


def losses_markdown() -> str:
    """Return the table of the kinds of losses."""
    lines = ["| kind | meaning | calls in no row |", "|---|---|---|"]
    for name, meaning in LOSSES.items():
        lines.append(f"| `{name}` | {meaning} | {'yes' if name in UNCOUNTED else ''} |")
    return "\n".join(lines)


def _line(figure: DeviceFigure) -> str:
    # Files and SQL store 1 where JSON has true, so the descriptions say 1.
    about = f"true: {figure.about[3:]}" if figure.about.startswith("1: ") else figure.about_in_window
    return f"| `{figure.name}` | {_TYPES[figure.kind]} | {about} |"
