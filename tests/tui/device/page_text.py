"""Reads the text of the page of a device."""

from __future__ import annotations

from stalltop.model.devices.device import Device
from stalltop.tui.pages.sections import Frame, Section

FRAME = Frame(width=78, height=24)
BARE = Device(
    0, "GPU-0", "Bare", notes=("utilization, power: not supported", "compute processes: no permission")
)


def text(section: Section) -> list[str]:
    return ["".join(part for part, _ in line.parts) for line in section.lines]


def said(section: Section, name: str) -> str:
    """Return the rest of the line that begins with ``name``."""
    return next(line.strip()[len(name) :].strip() for line in text(section) if line.strip().startswith(name))
