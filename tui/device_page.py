"""The page of one GPU: every figure with its unit, its past, who holds memory on it. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from model.device import Device
from model.packing import Packed
from model.window import Window
from outputs import figures
from outputs.chain_text import name_of
from tui.sections import LABEL, Frame, Section, duration_text, heading, more, note, pair
from widgets.page import PageLine
from widgets.sparkline import sparkline

MOST_LISTED = 16
"""Processes that are listed; how many more there are is said."""
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1_800, 3_600)
"""Seconds that a column of the past may stand for."""
_FIGURES = 27
"""Cells right of a line of the past: now, least and most."""
_HOT_CELSIUS = 85.0
"""From here on a temperature is marked: data-centre cards begin to slow down at 83 to 90 C (their boards tell
each its own limit, which is not read)."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure of a device that is true at a moment."""

    name: str
    value: Callable[[Device], float | None]
    most: Callable[[Device], float | None]
    """The end of its scale: what there is of it; None where that is not known."""
    text: Callable[[float | None, Frame], str]
    asked: tuple[str, ...]
    """What the notes of a device call it, where it could not be read."""
    about: str = ""
    """What it means, where the name does not say it."""


def _share(used: float | None, whole: float | None) -> float | None:
    return 100.0 * used / whole if used is not None and whole else None


def _unit(unit: str) -> Callable[[float | None, Frame], str]:
    return lambda value, frame: frame.missing() if value is None else f"{value:.0f}{unit}"


def _percent(value: float | None, frame: Frame) -> str:
    return _unit("%")(value, frame)


def _memory(value: float | None, frame: Frame) -> str:
    return figures.memory(value, unicode=frame.unicode).strip()


def _hundred(device: Device) -> float | None:
    return 100.0


GAUGES: Final = (
    Gauge(
        "busy",
        lambda device: device.utilization_percent,
        _hundred,
        _percent,
        ("utilization",),
        "time in which any kernel ran",
    ),
    Gauge(
        "memory",
        lambda device: device.memory_used_bytes,
        lambda device: device.memory_total_bytes,
        _memory,
        ("memory",),
    ),
    Gauge(
        "memory busy",
        lambda device: device.memory_utilization_percent,
        _hundred,
        _percent,
        ("utilization",),
        "time in which memory was read or written",
    ),
    Gauge(
        "power",
        lambda device: device.power_watts,
        lambda device: device.power_limit_watts,
        _unit("W"),
        ("power", "power limit"),
    ),
    Gauge("temperature", lambda device: device.temperature_celsius, _hundred, _unit("C"), ("temperature",)),
    Gauge(
        "SM clock",
        lambda device: device.sm_clock_mhz,
        lambda device: device.sm_clock_max_mhz,
        _unit("MHz"),
        ("SM clock", "highest SM clock"),
    ),
)
"""All of them, in the order of the page."""


def title(device: Device) -> Section:
    """Which device it is."""
    lines = [
        PageLine(
            (
                (f"GPU {device.index} ", "head"),
                (device.name, "text"),
                (f"  {device.uuid}", "dim"),
            ),
            indent=4,
        )
    ]
    if device.lost:
        lines.append(note("it no longer answers: " + "; ".join(device.notes), "bad"))
    return Section("title", tuple(lines))


def now(device: Device, window: Window, frame: Frame) -> Section:
    """Every figure at the end of the window, and what was counted within it."""
    lines = [heading("Now")]
    for gauge in GAUGES:
        value, most = gauge.value(device), gauge.most(device)
        if value is None:
            lines.append(pair(gauge.name, _why(device, frame, *gauge.asked), "dim"))
            continue
        said = gauge.text(value, frame)
        if gauge.most is not _hundred:
            share = _share(value, most)
            said += f" of {gauge.text(most, frame)}" + (f" ({share:.0f}%)" if share is not None else "")
        hot = gauge.name == "temperature" and value >= _HOT_CELSIUS
        lines.append(pair(gauge.name, said, "warn" if hot else "text"))
        if gauge.about:
            lines[-1] = PageLine((*lines[-1].parts, ("  " + gauge.about, "dim")), lines[-1].indent)
    return Section(
        "now",
        (
            *lines,
            *_held(device, frame),
            *_link(device, frame),
            *_errors(device, frame),
            pair("driver", window.devices.driver or f"{frame.missing()}  not told"),
        ),
    )


def _why(device: Device, frame: Frame, *asked: str) -> str:
    """A dash, and why there is no figure."""
    for said in device.notes:
        whats, _, reason = said.partition(": ")
        if reason and any(what in whats.split(", ") for what in asked):
            return f"{frame.missing()}  {reason}"
    return f"{frame.missing()}  the driver gives none"


def _held(device: Device, frame: Frame) -> list[PageLine]:
    """What holds the clocks down."""
    reasons = ", ".join(device.throttle_reasons)
    unread = any("throttle reasons" in said.partition(": ")[0].split(", ") for said in device.notes)
    lines = [
        pair("held down", _why(device, frame, "throttle reasons"), "dim")
        if unread
        else pair("held down", reasons or "by nothing", "warn" if reasons else "text")
    ]
    for name, ns, asked in (
        ("by power", device.power_held_ns, "time held by power"),
        ("by heat", device.thermal_held_ns, "time held by temperature"),
    ):
        if ns is None:
            lines.append(pair("  " + name, _why(device, frame, asked), "dim"))
        else:
            lines.append(pair("  " + name, f"{frame.duration(ns)} of this window", "warn" if ns else "text"))
    return lines


def _link(device: Device, frame: Frame) -> list[PageLine]:
    """The link to the host."""
    if device.pcie_generation is None and device.pcie_width is None:
        lines = [pair("PCIe", _why(device, frame, "PCIe generation", "PCIe width"), "dim")]
    else:
        said = f"generation {_of(device.pcie_generation, device.pcie_generation_max, frame)}, "
        said += f"{_of(device.pcie_width, device.pcie_width_max, frame)} lanes"
        # A link that is idle saves power by a lower generation; lanes never go for that.
        slow = bool(device.pcie_width and device.pcie_width_max and device.pcie_width < device.pcie_width_max)
        lines = [pair("PCIe", said, "warn" if slow else "text")]
    return [*lines, _counted("  replays", device.pcie_replays, device, frame, "PCIe replays")]


def _of(value: int | None, most: int | None, frame: Frame) -> str:
    said = frame.missing() if value is None else str(value)
    return f"{said} of {most}" if most is not None else said


def _errors(device: Device, frame: Frame) -> list[PageLine]:
    """What went wrong within the window."""
    if device.remap_pending is None:
        pending = pair("remapped", _why(device, frame, "remapped rows"), "dim")
    elif device.remap_pending:
        pending = pair("remapped", "rows of memory wait for a reset of the device to be replaced", "warn")
    else:
        pending = pair("remapped", "no row of memory waits to be replaced")
    xids = ", ".join(str(xid) for xid in device.xids)
    unread = any("XIDs" in said.partition(": ")[0].split(", ") for said in device.notes)
    return [
        _counted("ECC fixed", device.ecc_corrected, device, frame, "corrected ECC errors"),
        _counted("ECC lost", device.ecc_uncorrected, device, frame, "uncorrected ECC errors", "bad"),
        pending,
        pair("XIDs", _why(device, frame, "XIDs"), "dim")
        if unread and not xids
        else pair(
            "XIDs",
            f"{xids}: critical errors the driver reported" if xids else "none",
            "bad" if xids else "text",
        ),
    ]


def _counted(
    name: str, number: int | None, device: Device, frame: Frame, asked: str, role: str = "warn"
) -> PageLine:
    if number is None:
        return pair(name, _why(device, frame, asked), "dim")
    return pair(name, f"{number:,} within this window", role if number else "text")


# ---- the past


def past(device: Device, parts: Sequence[Packed], frame: Frame) -> Section:
    """Each gauge over all that is kept, one column for as many seconds as that takes."""
    seen = [
        (part.window.end, one)
        for part in parts
        for one in part.window.devices.devices
        if (one.uuid, one.index) == (device.uuid, device.index)
    ]
    if len(seen) < 2:
        return Section("past", (heading("Over time"), note("only this moment is known, nothing before it")))
    room = max(frame.width - LABEL - 3 - _FIGURES, 8)
    end = seen[-1][0]
    span = end - seen[0][0]
    step = next((step for step in STEPS if span / step <= room - 1), STEPS[-1])
    about = f"the last {duration_text(span)}, a column {duration_text(step)}; "
    about += "at the right: the latest, the least, the most"
    lines = [heading("Over time", about)]
    # Columns are counted in whole steps of the clock: a value stays in its column as time goes on.
    last = int(end // step)
    for gauge in GAUGES:
        values = [(last - int(at // step), gauge.value(one)) for at, one in seen]
        known = [(back, value) for back, value in values if value is not None and back < room]
        if not known:
            continue
        sums = [[0.0, 0.0] for _ in range(room)]
        for back, value in known:
            sums[room - 1 - back][0] += value
            sums[room - 1 - back][1] += 1
        means = [total / number if number else None for total, number in sums]
        plain = [value for _, value in known]
        top = gauge.most(device) or max(plain)
        drawn = sparkline(means, high=top, unicode=frame.unicode)
        ends = " ".join(
            gauge.text(value, frame).rjust(8) for value in (gauge.value(device), min(plain), max(plain))
        )
        lines.append(
            PageLine(((f"  {gauge.name.ljust(LABEL)} ", "label"), (drawn, "accent"), (" " + ends, "text")))
        )
    return Section("past", tuple(lines))


# ---- processes


def processes(device: Device, window: Window, frame: Frame) -> Section:
    """Who holds a context on it, and how much memory."""
    lines = [heading(f"Processes: {len(device.processes)}", "with a context on it; time is not told apart")]
    names = {(use.tenant, use.pid): use.process for use in window.evidence.processes}
    names.update({(key.tenant, key.pid): key.process for key in window.rows.keys})
    unread = any("processes" in said.partition(": ")[0] for said in device.notes)
    if not device.processes:
        why = _why(device, frame, "compute processes", "graphics processes").lstrip(frame.missing()).strip()
        return Section("processes", (*lines, note(f"not known: {why}" if unread else "none")))
    lines.append(PageLine(((f"  {'PID':>7} {'KIND':5} {'MEMORY':>7}  NAME AND TENANT", "dim"),)))
    order = sorted(device.processes, key=lambda one: (-(one.memory_bytes or 0), one.pid))
    for one in order[:MOST_LISTED]:
        front = (
            f"  {one.pid:>7} {one.kind.ljust(5)} {figures.memory(one.memory_bytes, unicode=frame.unicode)}  "
        )
        name = names.get((one.tenant, one.pid), "")
        tenant = name_of(one.tenant, window) if one.tenant else "tenant not known"
        told = f"{name or 'not traced'}  "
        lines.append(
            PageLine(((front, "text"), (told, "text" if name else "dim"), (tenant, "label")), indent=4)
        )
    return Section("processes", (*lines, *more(len(order) - MOST_LISTED)))


def unread(device: Device) -> Section:
    """What the driver could not tell, and why."""
    if not device.notes:
        return Section("unread", ())
    return Section("unread", (heading("What could not be read"), *(note(said) for said in device.notes)))


def none(window: Window) -> Section:
    """In place of a device."""
    why = window.devices.unavailable or "none found"
    return Section(
        "none",
        (
            heading("GPU"),
            note(f"no GPU can be read: {why}", "text"),
            note("calls are traced all the same; stalltop check says what is needed"),
        ),
    )
