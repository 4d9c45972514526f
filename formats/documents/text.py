"""Formats the figures of a GPU as the table of docs/json.md."""

from __future__ import annotations

from typing import Final

from stalltop.model.devices.device import DEVICE_FIGURES, DeviceFigure

_TYPES: Final = {"float": "number", "int": "integer", "bool": "boolean"}
"""Names of JSON's types by those of Python."""


def figures_markdown() -> str:
    """Return the table, one line for each figure."""
    lines = ["| figure | type | meaning |", "|---|---|---|"]
    return "\n".join([*lines, *map(_line, DEVICE_FIGURES)])


def _line(figure: DeviceFigure) -> str:
    # Descriptions say 1, as in files and SQL, where JSON has true.
    about = f"true: {figure.about[3:]}" if figure.about.startswith("1: ") else figure.about_in_window
    return f"| `{figure.name}` | {_TYPES[figure.kind]} | {about} |"
