"""A list of GPUs, one line each; or one line that says why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.cells import cell_len

from stalltop.model.devices.device import DEVICE_FIGURE, Device, Devices
from stalltop.model.sharing.ways import Way, unlisted, unnamed, users_of, way_of
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.words import numbered
from stalltop.widgets.drawing.bar import bar
from stalltop.widgets.drawing.frame import FrameEdge, titled
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.sparkline import sparkline
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable

PAST_CELLS = 40
"""Cells of the history of utilization at the end of a line, one cell for each window."""


FULL_PERCENT = 97.0
"""The memory of a device is marked if at least this percentage is in use, because at this level allocations
begin to fail or to wait for free memory."""
HOT_CELSIUS = 85.0
"""A GPU at this temperature or above is marked if NVML does not report its slowdown temperature. Data-centre
GPUs begin to slow down at 83 to 90 C."""
_NEAR_CELSIUS = 3.0
"""A GPU is marked if its temperature is at most this many degrees below the slowdown temperature that NVML
reports."""
_USERS_FROM: Final = 110
"""Least width in cells at which a line also shows the number of processes of a device that is not shared."""
_LEAST_SAID: Final = 12
"""If a text does not fit, it is cut, but not to fewer than this many cells. With less room it is left out."""
_LEAST_PAST: Final = 12
"""With room for fewer cells than this, the history is left out."""
_SHOWN = frozenset(("utilization_percent", "memory_used_bytes", "power_watts", "temperature_celsius"))
"""Figures on the line of a device: if some of these are old, the line shows the age of the oldest one. The
age of the clock does not count."""
_SHARED: Final[Mapping[Way, str]] = {"mps": "via MPS", "time-sliced": "time-sliced"}
"""How several tenants share a device, as words that follow the number of tenants: ``3 via MPS``."""
_HELD = ("thermal", "power", "hardware")
"""Parts of the names in ``Device.throttle_reasons``, which the screen shows in their place."""


def is_hot(device: Device) -> bool:
    """Return whether the GPU's temperature is near its slowdown temperature."""
    limit = HOT_CELSIUS if device.slowdown_celsius is None else device.slowdown_celsius - _NEAR_CELSIUS
    return device.temperature_celsius is not None and device.temperature_celsius >= limit


def held_by(reasons: Sequence[str]) -> str:
    """Return the words for throttle ``reasons``, each once: ``thermal, power``."""
    words = (next((word for word in _HELD if word in reason), reason) for reason in reasons)
    return ", ".join(dict.fromkeys(words))


def age(device: Device) -> str:
    """Return the age of the oldest figure on the device's line: ``12s``; empty if all are current."""
    seconds = max((seconds for name, seconds in device.ages if name in _SHOWN), default=0.0)
    if not seconds:
        return ""
    return f"{seconds:.0f}s" if seconds < 100 else f"{seconds / 60:.0f}m"


def _users(device: Device) -> tuple[str, bool]:
    """Return (text, shared): how many tenants or processes use the device, or how many MIG devices it has;
    and whether it is shared."""
    if device.mig:
        count = len(device.instances)
        return numbered(count, "MIG device"), True
    how = _SHARED.get(way_of(device), "")
    users = users_of(device)
    if how and users > 1 and not unnamed(device):
        return f"{users} {how}", True
    count = len(device.processes)
    if not count and unlisted(device):
        return "processes not listed", False
    return numbered(count, "process", "processes"), False


def _whole(device: Device, name: str, width: int, glyphs: Glyphs) -> str:
    figure = DEVICE_FIGURE[name]
    value = figure.value(device)
    text = figures.missing(width, glyphs) if value is None else f"{value:.0f}".rjust(width)
    return text + figure.unit


class DeviceRows(Lines):
    """Shows one line for each GPU of a ``Devices``. A figure that the driver does not report is a dash."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self.title: tuple[str, str, str] = ("", "", "")
        """The texts on the frame: the badge before the title, the title, and the keys after it."""
        self._devices: Devices | None = None
        self._past: dict[str, list[float | None]] = {}

    def show(self, devices: Devices, past: Sequence[Devices] = ()) -> None:
        """Show ``devices``, with the history of their utilization from ``past``, oldest first."""
        self._devices = devices
        newest = past[-PAST_CELLS:]
        busy = [{one.uuid: one.utilization_percent for one in before.devices} for before in newest]
        self._past = {device.uuid: [one.get(device.uuid) for one in busy] for device in devices.devices}
        self.redraw()

    def edges(self, paint: Palette) -> tuple[FrameEdge, FrameEdge]:
        """Return the title and the keys on the top edge of the frame."""
        return titled(*self.title, paint), FrameEdge()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return a line for each device that fits. If some do not fit, the last line shows their number."""
        if self._devices is None:
            return [line_of([(" GPU ", paint.label), ("not read yet", paint.dim)], width)]
        devices = self._devices.devices
        if not devices:
            why = printable(self._devices.unavailable or "none found")
            return [line_of([(" GPU ", paint.label), (why, paint.dim)], width)]
        shown = devices if len(devices) <= height else devices[: height - 1]
        lines = [line_of(self._device(device, width, paint), width) for device in shown]
        if len(shown) < len(devices):
            rest = devices[len(shown) :]
            known = [d.utilization_percent for d in rest if d.utilization_percent is not None]
            mean = f", {sum(known) / len(known):.0f}% busy on average" if known else ""
            text = f"{len(rest)} more{mean}" if shown else f"{numbered(len(rest), 'device')}{mean}"
            lines.append(line_of([(" GPU ", paint.label), (text, paint.dim if shown else None)], width))
        return lines

    def _device(self, device: Device, width: int, paint: Palette) -> list[Part]:
        glyphs = self.glyphs
        used, total = device.memory_used_bytes, device.memory_total_bytes
        share = 100.0 * used / total if used is not None and total else None
        wide = max(min((width - 79) // 3, 24), 4) if self.pictures else 0
        name = printable(device.name).removeprefix("NVIDIA ")
        room = min(max(width - 79 - 2 * (wide - 4), 0), 18)
        parts: list[Part] = [(f" GPU{device.index:<2}", paint.label)]
        if room >= 5:
            parts.append((figures.fit(name, room, glyphs) + " ", paint.dim))
        # A busy GPU is no problem: only memory that is almost full, heat and throttled clocks are marked.
        parts += bar(device.utilization_percent, wide, paint, glyphs=glyphs, style=paint.gpu_line)
        parts.append((_whole(device, "utilization_percent", 4, glyphs), None))
        parts.append(("  mem ", paint.label))
        full = share is not None and share >= FULL_PERCENT
        parts += bar(share, wide, paint, glyphs=glyphs, style=paint.warn if full else paint.memory_line)
        parts.append((" " + figures.memory(used, glyphs), None))
        parts.append(("/" + figures.memory(total, glyphs).strip(), paint.dim))
        parts.append((_whole(device, "power_watts", 5, glyphs), None))
        hot = is_hot(device)
        parts.append((_whole(device, "temperature_celsius", 4, glyphs), paint.warn if hot else None))
        old = age(device)
        held = bool(device.throttle_reasons)
        parts.append((_whole(device, "sm_clock_mhz", 5, glyphs), paint.warn if held else None))
        past = self._past.get(device.uuid, [])
        drawn = sparkline(past, high=100.0, glyphs=glyphs).rjust(PAST_CELLS) if len(past) > 1 else ""
        users, shared = _users(device)
        throttled = f"throttled: {printable(held_by(device.throttle_reasons))}" if held else ""
        said: list[Part] = [
            (f"{old} old" if old else "", paint.warn),
            (throttled, paint.warn),
            (users if shared or width >= _USERS_FROM else "", paint.dim),
        ]
        for text, style in said:
            room = width - 3 - sum(cell_len(before) for before, _ in parts)
            if text and room >= min(cell_len(text), _LEAST_SAID):
                fitted = figures.fit(text, min(room, cell_len(text)), glyphs)
                parts.append((f"  {fitted}", style))
        room = width - 2 - sum(cell_len(text) for text, _ in parts)
        if drawn and room >= _LEAST_PAST:
            label = "busy " if room >= PAST_CELLS + 6 else ""
            parts += [(label.rjust(room + 1 - PAST_CELLS), paint.dim)] if label else []
            parts.append((drawn[-room:].rjust(PAST_CELLS if label else room + 1), paint.gpu_line))
        return parts
