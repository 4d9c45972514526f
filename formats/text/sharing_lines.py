"""Writes lines about the tenants that share devices, for ``once``, ``explain`` and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.formats.text import mig_lines, sharing_table, sharing_text
from stalltop.model.sharing.sharing import Sharing, sharings
from stalltop.model.text.figures import printable
from stalltop.model.text.style import BOLD, DIM, YELLOW, Style
from stalltop.model.window import Window

MOST_TENANTS: Final = 20
"""Maximum number of tenants that are listed for a device. A line says how many more there are."""
MOST_GIVEN: Final = 20


def sharing_lines(window: Window, style: Style) -> list[list[str]]:
    """Return a list of lines for each device whose sharing is reported (``sharing_text.worth_telling``), and
    one for the tenants whose calls ran on an unknown GPU, if there are any. The first line of a list is its
    title."""
    devices = sharings(window)
    told = [_device(one, window, style) for one in devices if sharing_text.worth_telling(one, window)]
    others = _unplaced(devices, window, style)
    return [*told, others] if others else told


def _unplaced(devices: Sequence[Sharing], window: Window, style: Style) -> list[str]:
    """Return a title and the tenants whose calls ran on an unknown GPU; [] if there are no such tenants."""
    found = list({one.tenant: one for device in devices for one in device.unplaced}.values())
    if not found:
        return []
    lines = [style.paint("who worked on a GPU that is not known", BOLD)]
    for one in found[:MOST_TENANTS]:
        lines += style.folded("  ", printable(sharing_text.did(one, window)))
    return [*lines, *_more(len(found) - MOST_TENANTS)]


def _device(one: Sharing, window: Window, style: Style) -> list[str]:
    lines = [style.paint(f"who shares GPU {one.label}", BOLD)]
    lines += style.folded("", printable(sharing_text.statement(one, window, style.glyphs)))
    lines += _tenants(one, window, style)
    for holding in one.holdings[:MOST_GIVEN]:
        what, use = sharing_text.given(holding, one)
        lines += style.folded("given to ", printable(f"{what}: {use}"), "  ")
    return [*lines, *_more(len(one.holdings) - MOST_GIVEN)]


def _tenants(one: Sharing, window: Window, style: Style) -> list[str]:
    """Return lines for the tenants of a device, or of each of its MIG instances."""
    if not (one.sharers or one.parts):
        return []
    layout = sharing_table.layout(style.width, one)
    lines = [style.paint(layout.head, BOLD)]
    for part in one.parts or (one,):
        where = f"{part.label} " if one.parts else ""
        if one.parts and (size := mig_lines.told(part, window, style.glyphs)):
            lines += style.folded("", size, "  ")
        if one.parts and part.shared:
            said = sharing_text.statement(part, window, style.glyphs)
            lines += [style.paint(line, DIM) for line in style.folded("", printable(said))]
        for sharer in part.sharers[:MOST_TENANTS]:
            name, shown = sharing_table.cells(sharer, window, layout, where=where, glyphs=style.glyphs)
            lines.append(name + shown)
            for text, wrong in sharing_table.notes(sharer, part, window, style.glyphs):
                code = YELLOW if wrong else DIM
                lines += [style.paint(line, code) for line in style.folded("  ", printable(text))]
        lines += _more(len(part.sharers) - MOST_TENANTS)
    traced = any(user.memory_traced for user in one.sharers)
    return [*lines, *(style.folded("", sharing_table.TRACED) if traced else [])]


def _more(number: int) -> list[str]:
    return [f"and {number} more"] if number > 0 else []
