"""Describes each MIG instance of a GPU in one line: its size, its memory, and whether it has users."""

from __future__ import annotations

from typing import Final

from stalltop.model.sharing.sharing import Sharing
from stalltop.model.text import figures
from stalltop.model.text.figures import printable
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import Window

_NOBODY: Final = "nobody"
_NOT_KNOWN: Final = "who uses it is not known"


def told(part: Sharing, window: Window, glyphs: Glyphs = UNICODE) -> str:
    """Return a line for a MIG instance, such as ``1:2 3g.40gb, 3.00GiB of 40.0GiB: nobody``. Figures that are
    not known are left out.

    Returns '' if the instance has users and only its label is known, because the line would say nothing new.
    """
    said = printable(f"{part.label} {part.profile}".rstrip())
    for device in window.devices.devices:
        for instance in device.instances:
            if instance.uuid == part.uuid and instance.memory_total_bytes:
                used, total = (
                    figures.memory(value, glyphs).strip()
                    for value in (instance.memory_used_bytes, instance.memory_total_bytes)
                )
                said += f", {used} of {total}"
    if part.sharers:
        return said if said != part.label else ""
    return f"{said}: {_NOT_KNOWN if part.way == 'unknown' else _NOBODY}"
