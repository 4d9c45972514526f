"""One line for each GPU, or one that says why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from stalltop.model.devices.device import Device, Devices
from stalltop.model.devices.ways import Way, unlisted, unnamed, users_of, way_of
from stalltop.model.text import figures
from stalltop.widgets.bar import bar
from stalltop.widgets.lines import Lines
from stalltop.widgets.palette import Palette
from stalltop.widgets.sparkline import sparkline
from stalltop.widgets.strips import Part, printable, strip_of

PAST_CELLS = 40
"""Cells of how busy a device was, at the end of its line: one for each window before."""


FULL_PERCENT = 97.0
"""Part of a device's memory in use from which allocations fail or wait for others to free some."""
HOT_CELSIUS = 85.0
"""From here on a temperature is marked, where the board does not tell its own limit: data-centre cards begin
to slow down at 83 to 90 C."""
_NEAR_CELSIUS = 3.0
"""The same, below the board's own limit."""
_USERS_FROM: Final = 110
"""Cells from which the number of processes is told, too, where nobody shares the device."""
_LEAST_SAID: Final = 12
"""Cells of what is cut."""
_LEAST_PAST: Final = 12
"""Cells below which a past says nothing."""
_SHOWN = frozenset(("utilization_percent", "memory_used_bytes", "power_watts", "temperature_celsius"))
"""Fields of a device whose age its line tells."""
_SHARED: Final[Mapping[Way, str]] = {"mps": "by MPS", "time-sliced": "in turns"}
"""How several tenants share a device, behind their number."""
_HELD = (("thermal", "heat"), ("power", "power"), ("hardware", "hardware"))
"""What holds clocks down in a word, by a part of the reason's name."""


def is_hot(device: Device) -> bool:
    """Whether its temperature is near what slows it down."""
    limit = HOT_CELSIUS if device.slowdown_celsius is None else device.slowdown_celsius - _NEAR_CELSIUS
    return device.temperature_celsius is not None and device.temperature_celsius >= limit


def held_by(reasons: Sequence[str]) -> str:
    """What holds clocks down, each thing once and in a word where there is one: ``heat, power``."""
    words = (next((word for part, word in _HELD if part in reason), reason) for reason in reasons)
    return ", ".join(dict.fromkeys(words))


def age(device: Device) -> str:
    """How old the figures of its line are: ``12s``; empty where they are of now."""
    seconds = max((seconds for name, seconds in device.ages if name in _SHOWN), default=0.0)
    if not seconds:
        return ""
    return f"{seconds:.0f}s" if seconds < 100 else f"{seconds / 60:.0f}m"


def _users(device: Device) -> tuple[str, bool]:
    """Who shares it, or how many processes or MIG devices are on it; and whether it is shared."""
    if device.mig:
        count = len(device.instances)
        return f"{count} MIG device{'' if count == 1 else 's'}", True
    how = _SHARED.get(way_of(device), "")
    users = users_of(device)
    if how and users > 1 and not unnamed(device):
        return f"{users} {how}", True
    count = len(device.processes)
    if not count and unlisted(device):
        return "processes not listed", False
    return f"{count} process{'' if count == 1 else 'es'}", False


def _whole(value: float | None, width: int, unit: str, *, unicode: bool) -> str:
    text = figures.missing(width, unicode=unicode) if value is None else f"{value:.0f}".rjust(width)
    return text + unit


class DeviceRows(Lines):
    """Shows a ``Devices``. Figures that the driver does not give are dashes, never a missing row."""

    def __init__(self, widget_id: str | None = None, *, unicode: bool = True) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._devices: Devices | None = None
        self._past: dict[str, list[float | None]] = {}

    def show(self, devices: Devices, most: int, past: Sequence[Devices] = ()) -> None:
        """Show ``devices`` in at most ``most`` lines, and how busy they were in ``past``, oldest first."""
        self._devices = devices
        newest = past[-PAST_CELLS:]
        busy = [{one.uuid: one.utilization_percent for one in before.devices} for before in newest]
        self._past = {device.uuid: [one.get(device.uuid) for one in busy] for device in devices.devices}
        wanted = min(max(len(devices.devices), 1), max(most, 1))
        height = self.styles.height
        if height is None or height.value != wanted:
            self.styles.height = wanted
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """As many devices as there is room for; the last line says how many more there are."""
        if self._devices is None:
            return [strip_of([(" GPU ", paint.label), ("not looked for yet", paint.dim)], width)]
        devices = self._devices.devices
        if not devices:
            why = printable(self._devices.unavailable or "none found")
            return [strip_of([(" GPU ", paint.label), (why, paint.dim)], width)]
        shown = devices if len(devices) <= height else devices[: height - 1]
        lines = [strip_of(self._device(device, width, paint), width) for device in shown]
        if len(shown) < len(devices):
            rest = devices[len(shown) :]
            known = [d.utilization_percent for d in rest if d.utilization_percent is not None]
            mean = f", {sum(known) / len(known):.0f}% busy on average" if known else ""
            text = f"{len(rest)} more{mean}" if shown else f"{len(rest)} devices{mean}"
            lines.append(strip_of([(" GPU ", paint.label), (text, paint.dim if shown else None)], width))
        return lines

    def _device(self, device: Device, width: int, paint: Palette) -> list[Part]:
        unicode = self.unicode
        used, total = device.memory_used_bytes, device.memory_total_bytes
        share = 100.0 * used / total if used is not None and total else None
        wide = max(min((width - 72) // 3, 24), 4) if self.pictures else 0
        name = printable(device.name).removeprefix("NVIDIA ")
        room = min(max(width - 76 - 2 * (wide - 4), 0), 18)
        parts: list[Part] = [(f" GPU{device.index:<2}", paint.label)]
        if room >= 5:
            parts.append((figures.fit(name, room, unicode=unicode) + " ", paint.dim))
        # A busy GPU is what one wants: only memory that is all but full is marked, and clocks held back.
        parts += bar(device.utilization_percent, wide, paint, unicode=unicode, style=paint.accent)
        parts.append((_whole(device.utilization_percent, 4, "%", unicode=unicode), None))
        parts.append(("  mem ", paint.label))
        full = share is not None and share >= FULL_PERCENT
        parts += bar(share, wide, paint, unicode=unicode, style=paint.warn if full else paint.accent)
        parts.append((" " + figures.memory(used, unicode=unicode), None))
        parts.append(("/" + figures.memory(total, unicode=unicode).strip(), paint.dim))
        parts.append((_whole(device.power_watts, 5, "W", unicode=unicode), None))
        hot = is_hot(device)
        parts.append(
            (_whole(device.temperature_celsius, 4, "C", unicode=unicode), paint.warn if hot else None)
        )
        old = age(device)
        held = bool(device.throttle_reasons)
        parts.append((_whole(device.sm_clock_mhz, 5, "MHz", unicode=unicode), paint.warn if held else None))
        past = self._past.get(device.uuid, [])
        drawn = sparkline(past, high=100.0, unicode=unicode).rjust(PAST_CELLS) if len(past) > 1 else ""
        users, shared = _users(device)
        said: list[Part] = [
            (printable("held by " + held_by(device.throttle_reasons)) if held else "", paint.warn),
            (f"{old} old" if old else "", paint.warn),
            (users if shared or width >= _USERS_FROM else "", paint.dim),
        ]
        for text, style in said:
            room = width - 3 - sum(cell_len(before) for before, _ in parts)
            if text and room >= min(cell_len(text), _LEAST_SAID):
                fitted = figures.fit(text, min(room, cell_len(text)), unicode=unicode)
                parts.append((f"  {fitted}", style))
        room = width - 2 - sum(cell_len(text) for text, _ in parts)
        if drawn and room >= _LEAST_PAST:
            parts.append((drawn[-room:].rjust(room + 1), paint.accent))
        return parts
