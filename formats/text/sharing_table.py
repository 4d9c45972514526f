"""Writes one line for each tenant of a device. The columns are the same on the screen and in printed text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stalltop.formats.text import sharing_text
from stalltop.model.sharing.sharing import Sharer, Sharing
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import Window

COLUMNS: Final[Mapping[str, int]] = {
    "calls/s": 7,
    "launch/s": 8,
    "waited/s": 8,
    "copied/s": 8,
    "memory": 8,
    "active": 6,
    "on GPU": 6,
}
"""Heads of the columns, and their widths in cells.

``waited/s`` is the time per second that threads of the tenant wait for the device. ``active`` is the share of
time in which the tenant gave the device work or waited for the device. ``on GPU`` is the share of time in
which the tenant had the device, known only while tenants take turns.
"""
_OF_TURNS: Final = "on GPU"
"""Column that only a device has whose tenants take turns."""
_FIRST_TO_GO: Final = ("copied/s", "calls/s", "memory", "active")
"""Columns that are dropped if the table is too wide, in the order in which they are dropped."""
_NAME: Final = (14, 32)
"""Least and largest width of a tenant's name, in cells."""
TRACED: Final = "*: sum of the allocations that were traced; the driver does not report the memory"


@dataclass(frozen=True, slots=True)
class SharingLayout:
    """The columns for which there is room, and the width of the names."""

    names: int
    """Width of a tenant's name, in cells."""
    columns: tuple[str, ...]

    @property
    def head(self) -> str:
        """The line of heads."""
        return "tenant".ljust(self.names) + "".join(f" {name.rjust(COLUMNS[name])}" for name in self.columns)


def layout(width: int, sharing: Sharing) -> SharingLayout:
    """Return the layout for the table of a device, in ``width`` cells."""
    least, most = _NAME
    turns = sharing.switches_per_second is not None
    columns = [name for name in COLUMNS if turns or name != _OF_TURNS]

    def room() -> int:
        return width - sum(COLUMNS[name] + 1 for name in columns)

    for name in _FIRST_TO_GO:
        if room() < least:
            columns.remove(name)
    return SharingLayout(min(max(room(), least), most), tuple(columns))


def cells(
    one: Sharer, window: Window, layout: SharingLayout, *, where: str = "", glyphs: Glyphs = UNICODE
) -> tuple[str, str]:
    """Return the name and the figures of a tenant as two texts. The text ``where``, such as a MIG instance,
    is put before the name."""
    seconds = window.seconds if window.seconds > 0 else 1.0
    # There are no counts if the tenant is not known, or if its calls are not traced.
    traced = bool(one.tenant) and (one.at_work or not one.untraced)
    active = None if one.active_ns is None else min(100.0 * one.active_ns / seconds / 1e9, 100.0)
    shown = {
        "calls/s": figures.rate(one.calls / seconds if traced else None, glyphs),
        "launch/s": figures.rate(one.launches / seconds if traced else None, glyphs),
        "waited/s": figures.duration(
            one.waited_ns / seconds if traced and one.waited_ns is not None else None, glyphs
        ),
        "copied/s": figures.size(one.copied_bytes / seconds if traced else None, glyphs),
        "memory": figures.memory(one.memory_bytes, glyphs) + ("*" if one.memory_traced else ""),
        "active": figures.percent(active, glyphs),
        "on GPU": figures.percent(one.resident_percent, glyphs),
    }
    name = figures.printable(where + sharing_text.who(one.tenant, window))
    row = "".join(f" {shown[column].strip().rjust(COLUMNS[column])}" for column in layout.columns)
    return figures.fit(name, layout.names, glyphs), row


def _alone(one: Sharer) -> str:
    """Return a note for a tenant of a shared device if no other tenant is known to have been active at the
    same time."""
    if one.active_ns:
        sure = "at no time together with another tenant"
        return sure if one.overlaps_sure else "which tenants were active at the same time was not measured"
    if one.active_ns is None and (one.at_work or one.untraced or not one.tenant):
        return "when it was active here was not measured"
    return "not active in this window"


def notes(one: Sharer, sharing: Sharing, window: Window, glyphs: Glyphs = UNICODE) -> list[tuple[str, bool]]:
    """Return notes that explain the figures of a tenant: (text, True if the note is a warning)."""
    said: list[tuple[str, bool]] = []
    others = sharing_text.overlaps(one, window)
    if others:
        least = "" if one.overlaps_sure else "at least "
        said.append((f"of that, {least}together with {others}", False))
    elif sharing.shared and any(user.active_ns for user in sharing.sharers):
        # Every tenant gets this line, also a tenant without overlaps. So the lines below do not move on the
        # screen.
        said.append((_alone(one), False))
    if one.untraced and not one.at_work:
        said.append((f"what it does here is not traced: {one.untraced}", True))
    if not one.calls and one.in_flight:
        calls = "a call that has" if one.in_flight == 1 else f"{one.in_flight} calls that have"
        said.append((f"in {calls} not returned", False))
    if one.also:
        said.append((f"some of these calls may have run on GPU {', '.join(one.also)}", False))
    if one.sample_percent is not None:
        sample = f"by a sample of the driver, {one.sample_age_seconds or 0.0:.0f}s old"
        said.append((f"its kernels ran {one.sample_percent:.0f}% of the time, {sample}", False))
    if one.given is False:
        said.append(("no scheduler gave it this device", True))
    return said
