"""The section about the tenants that share a GPU. Pure functions."""

from __future__ import annotations

from typing import Final

from stalltop.formats.text import mig_lines, sharing_table, sharing_text
from stalltop.model.devices.device import Device
from stalltop.model.sharing.sharing import Sharing, sharing_of
from stalltop.model.window import Window
from stalltop.tui.pages.sections import Frame, Section, heading, more, note
from stalltop.widgets.page import PageLine

MOST_LISTED: Final = 12
"""The most tenants that are listed for each device."""
MOST_GIVEN: Final = 12


def sharers(device: Device, window: Window, frame: Frame) -> Section:
    """Return the section about how tenants share the device: the figures of each tenant, and what Kubernetes
    gave to each container."""
    sharing = sharing_of(window, device)
    lines = [
        heading("Who shares it", sharing_text.WORDS[sharing.way]),
        note(sharing_text.statement(sharing, window, frame.glyphs), "text"),
    ]
    told = sharing_text.help_text(sharing)
    lines += [note(told)] if told else []
    lines += _tenants(sharing, window, frame) if sharing.sharers or sharing.parts else []
    return Section("sharers", (*lines, *_given(sharing, window)))


def _tenants(sharing: Sharing, window: Window, frame: Frame) -> list[PageLine]:
    """Return the tenants of the device, or of each MIG device on it."""
    layout = sharing_table.layout(frame.width - 3, sharing)
    lines = [PageLine(((f"  {layout.head.upper()}", "dim"),))]
    for part in sharing.parts or (sharing,):
        where = f"{part.label} " if sharing.parts else ""
        if sharing.parts and (size := mig_lines.told(part, window, frame.glyphs)):
            lines.append(PageLine(((f"  {size}", "text" if part.sharers else "dim"),), indent=4))
        if sharing.parts and part.shared:
            lines.append(note(sharing_text.statement(part, window, frame.glyphs)))
        for one in part.sharers[:MOST_LISTED]:
            name, figures = sharing_table.cells(one, window, layout, where=where, glyphs=frame.glyphs)
            lines.append(PageLine(((f"  {name}", "label"), (figures, "text"))))
            for text, wrong in sharing_table.notes(one, part, window, frame.glyphs):
                lines.append(PageLine(((f"    {text}", "warn" if wrong else "dim"),), indent=6))
        lines += more(len(part.sharers) - MOST_LISTED)
    if any(one.memory_traced for one in sharing.sharers):
        lines.append(note(sharing_table.TRACED))
    return lines


def _given(sharing: Sharing, window: Window) -> list[PageLine]:
    """Return a line for each container to which Kubernetes gave the device or parts of it. The line shows
    whether the container uses them."""
    if not sharing.holdings:
        return []
    lines = [PageLine((("  given by Kubernetes", "dim"),))]
    for holding in sharing.holdings[:MOST_GIVEN]:
        what, use = sharing_text.given(holding, sharing)
        role = "warn" if sharing_text.is_wasted(holding, window) else "dim"
        lines.append(PageLine(((f"    {what}: ", "text"), (use, role)), indent=6))
    return [*lines, *more(len(sharing.holdings) - MOST_GIVEN)]
