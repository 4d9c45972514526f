"""Who shares a GPU: the section of its page. Pure functions."""

from __future__ import annotations

from typing import Final

from model.device import Device
from model.sharing import Sharer, Sharing, sharing_of
from model.window import Window
from outputs import figures, sharing_text
from tui.sections import Frame, Section, heading, more, note
from widgets.page import PageLine

MOST_LISTED: Final = 12
"""Tenants that are listed of each device; how many more there are is said."""
MOST_GIVEN: Final = 12
_NAME: Final = (14, 32)
"""Cells of a tenant's name, at least and at most."""
_COLUMNS: Final = (
    ("CALLS/S", 7),
    ("LAUNCH/S", 8),
    ("WAITED/S", 8),
    ("COPIED/S", 8),
    ("MEMORY", 8),
    ("ACTIVE", 6),
)


def sharers(device: Device, window: Window, frame: Frame) -> Section:
    """How the device is shared and by whom, with what was measured of each; and what a scheduler gave."""
    sharing = sharing_of(window, device)
    lines = [
        heading("Who shares it", sharing_text.WORDS[sharing.way]),
        note(sharing_text.statement(sharing, window, unicode=frame.unicode), "text"),
    ]
    told = sharing_text.help_text(sharing)
    lines += [note(told)] if told else []
    if sharing.parts:
        for part in sharing.parts:
            lines += _instance(part, window, frame)
    elif sharing.sharers:
        lines += _table(sharing, window, frame)
    return Section("sharers", (*lines, *_given(sharing)))


def _instance(part: Sharing, window: Window, frame: Frame) -> list[PageLine]:
    """One MIG instance, and who is on it."""
    told = "nobody uses it" if not part.sharers else ""
    head = PageLine(
        (
            (f"  MIG {part.label} ", "label"),
            (part.profile, "text"),
            (f"  {part.uuid}", "dim"),
            (f"  {told}" if told else "", "dim"),
        ),
        indent=4,
    )
    lines = [head]
    if part.shared:
        lines.append(note(sharing_text.statement(part, window, unicode=frame.unicode), "text"))
    return [*lines, *(_table(part, window, frame) if part.sharers else [])]


def _table(sharing: Sharing, window: Window, frame: Frame) -> list[PageLine]:
    least, most = _NAME
    room = frame.width - 3 - sum(width + 1 for _, width in _COLUMNS)
    width = min(max(room, least), most)
    head = "TENANT".ljust(width) + "".join(f" {name.rjust(cells)}" for name, cells in _COLUMNS)
    lines = [PageLine(((f"  {head}", "dim"),))]
    listed = sharing.sharers[:MOST_LISTED]
    for one in listed:
        lines += _sharer(one, sharing, window, frame, width)
    lines += more(len(sharing.sharers) - len(listed))
    if any(one.memory_traced for one in listed):
        lines.append(note("*: as it was allocated while it was traced; the driver does not tell it"))
    return lines


def _sharer(one: Sharer, sharing: Sharing, window: Window, frame: Frame, width: int) -> list[PageLine]:
    """Its figures; and below them with whom it was on the device at once, where that was measured."""
    unicode, seconds = frame.unicode, window.seconds or 1.0
    called = one.calls > 0 or bool(one.tenant)
    memory = figures.memory(one.memory_bytes, unicode=unicode).strip() + ("*" if one.memory_traced else "")
    active = None if one.active_ns is None else min(100.0 * one.active_ns / seconds / 1e9, 100.0)
    cells = (
        figures.rate(one.calls / seconds if called else None, unicode=unicode),
        figures.rate(one.launches / seconds if called else None, unicode=unicode),
        figures.duration(None if one.waited_ns is None else one.waited_ns / seconds, unicode=unicode),
        figures.size(one.copied_bytes / seconds if called else None, unicode=unicode),
        memory,
        figures.percent(active, unicode=unicode),
    )
    name = figures.fit(figures.printable(sharing_text.who(one.tenant, window)), width, unicode=unicode)
    row = "".join(f" {cell.strip().rjust(size)}" for cell, (_, size) in zip(cells, _COLUMNS, strict=True))
    lines = [PageLine(((f"  {name}", "label"), (row, "text")))]
    for text, role in _notes(one, sharing, window, frame):
        lines.append(PageLine(((f"    {text}", role),), indent=6))
    return lines


def _notes(one: Sharer, sharing: Sharing, window: Window, frame: Frame) -> list[tuple[str, str]]:
    """What there is to say of a tenant besides its figures, with its role."""
    said = []
    others = sharing_text.overlaps(one, window, unicode=frame.unicode)
    if others:
        said.append((f"of its active time, active as well: {others}", "dim"))
    elif one.active_ns and sharing.shared:
        said.append(("of its active time, no other was active", "dim"))
    if not one.calls and one.in_flight:
        calls = "a call that has" if one.in_flight == 1 else f"{one.in_flight} calls that have"
        said.append((f"in {calls} not returned", "text"))
    if one.also:
        said.append((f"some of these calls may have run on GPU {', '.join(one.also)}", "dim"))
    if one.sample_percent is not None:
        sample = f"by a sample of the driver, {one.sample_age_seconds or 0.0:.0f}s old"
        said.append((f"its kernels ran {one.sample_percent:.0f}% of the time, {sample}", "dim"))
    if one.given is False:
        said.append(("no scheduler gave it this device", "warn"))
    return said


def _given(sharing: Sharing) -> list[PageLine]:
    """What Kubernetes gave to whom, beside what becomes of it."""
    if not sharing.holdings:
        return []
    lines = [PageLine((("  given by Kubernetes", "dim"),))]
    for holding in sharing.holdings[:MOST_GIVEN]:
        what, use = sharing_text.given(holding)
        role = "warn" if holding.use in ("idle", "absent") else "dim"
        lines.append(PageLine(((f"    {what}: ", "text"), (use, role)), indent=6))
    return [*lines, *more(len(sharing.holdings) - MOST_GIVEN)]
