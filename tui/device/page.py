"""The sections of the page about one GPU: its figures, and the processes that hold memory. Pure functions.

``tui.device.past`` has the section about its past.
"""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.formats.text.chains import name_of
from stalltop.model.devices.device import DEVICE_GAUGES, Device, DeviceProcess
from stalltop.model.sharing.ways import is_mps
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.tui.device.parts import aged, facts, held
from stalltop.tui.pages.sections import Frame, Section, heading, more, note, pair
from stalltop.widgets.devices import is_hot
from stalltop.widgets.drawing.strips import printable
from stalltop.widgets.page import PageLine

MOST_LISTED = 16
"""The most processes that are listed."""
_NOT_GIVEN = "not reported by the driver"
"""Text shown for a missing figure if no note gives the reason."""


def title(device: Device) -> Section:
    """Return the section with the name, location and configuration of the device."""
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
    lines += facts(device)
    if device.lost:
        lines.append(note("it no longer answers: " + "; ".join(device.notes), "bad"))
    return Section("title", tuple(lines))


def now(device: Device, window: Window, frame: Frame) -> Section:
    """Return the section with the figures of the device at the end of the window, and with its counts within
    the window."""
    lines = [heading("Now")]
    for gauge in DEVICE_GAUGES:
        value = gauge.value(device)
        if value is None:
            lines.append(pair(gauge.label, _why(device, frame, *gauge.questions), "dim"))
            continue
        said = figures.with_unit(value, gauge.unit, frame.glyphs)
        limited = isinstance(gauge.most, str)
        if limited:
            limit = gauge.limit(device)
            said += f" of {figures.with_unit(limit, gauge.unit, frame.glyphs)}"
            said += f" ({100 * value / limit:.0f}%)" if limit else ""
        heat = gauge.name == "temperature_celsius"
        line = pair(gauge.label, said, "warn" if heat and is_hot(device) else "text")
        about = _limits(device) if heat else "" if limited else gauge.about
        if about:
            line = PageLine((*line.parts, ("  " + about, "dim")), line.indent)
        lines.append(aged(line, device, gauge.name))
    lines += [*_held(device, window, frame), *_link(device, frame), *_errors(device, frame)]
    driver = pair("driver", window.devices.driver or f"{frame.missing()}  not reported")
    return Section("now", (*_together(lines), driver))


def _limits(device: Device) -> str:
    """Return the temperatures at which the GPU slows down or shuts down."""
    limits = (("throttles at", device.slowdown_celsius), ("shuts down at", device.shutdown_celsius))
    return ", ".join(f"{what} {celsius:.0f}C" for what, celsius in limits if celsius)


def _together(lines: Sequence[PageLine]) -> list[PageLine]:
    """Replace the lines about figures that the driver does not report, if there are several, by one line that
    names these figures."""
    without = [line for line in lines if line.parts[-1][0].endswith(_NOT_GIVEN)]
    if len(without) < 2:
        return list(lines)
    names = [line.parts[0][0].strip() for line in without]
    names = [f"throttled {name}" if name.startswith("by ") else name for name in names]
    given = [line for line in lines if line not in without]
    return [*given, pair("not given", f"by the driver: {', '.join(names)}", "dim")]


def _why(device: Device, frame: Frame, *asked: str, field: str = "") -> str:
    """Return a dash and the reason why a figure is missing.

    ``asked``: the names that the device's notes may use for the figure. If the figure is a counter, ``field``
    is its field of ``Device``; otherwise ``field`` is empty.
    """
    age = dict(device.ages).get(field)
    if age is not None:
        return f"{frame.missing()}  not read for {age:.0f}s: the driver is slow to answer"
    for said in device.notes:
        whats, _, reason = said.partition(": ")
        if reason and any(what in whats.split(", ") for what in asked):
            return f"{frame.missing()}  {reason}"
    return f"{frame.missing()}  {_NOT_GIVEN}"


def _held(device: Device, window: Window, frame: Frame) -> list[PageLine]:
    """Return the lines about throttled clocks: the reasons, and the time for each reason."""
    reasons = ", ".join(device.throttle_reasons)
    lines = [
        pair("throttling", _why(device, frame, "throttle reasons"), "dim")
        if not device.throttle_told
        else pair("throttling", reasons or "none", "warn" if reasons else "text")
    ]
    for name, field, asked in (
        ("by power", "power_held_ns", "time held by power"),
        ("by heat", "thermal_held_ns", "time held by temperature"),
    ):
        ns = getattr(device, field)
        if ns is None:
            lines.append(pair("  " + name, _why(device, frame, asked, field=field), "dim"))
        else:
            # A slow or late reading also contains the throttling of earlier windows.
            of = "this window" if ns <= window.seconds * 1e9 else "this window and those before"
            lines.append(pair("  " + name, f"{frame.duration(ns)} of {of}", "warn" if ns else "text"))
    others = [f"{name} {frame.duration(ns)}" for name, ns in held(device, frame)]
    return [*lines, pair("  others", ", ".join(others), "warn")] if others else lines


def _link(device: Device, frame: Frame) -> list[PageLine]:
    """Return the state of the PCIe link."""
    if device.pcie_generation is None and device.pcie_width is None:
        lines = [pair("PCIe", _why(device, frame, "PCIe generation", "PCIe width"), "dim")]
    else:
        said = f"generation {_of(device.pcie_generation, device.pcie_generation_max, frame)}, "
        said += f"{_of(device.pcie_width, device.pcie_width_max, frame)} lanes"
        # An idle link lowers its generation to save power; it never lowers its number of lanes.
        slow = bool(device.pcie_width and device.pcie_width_max and device.pcie_width < device.pcie_width_max)
        lines = [pair("PCIe", said, "warn" if slow else "text")]
    return [*lines, _counted("  replays", "pcie_replays", device, frame, "PCIe replays")]


def _of(value: int | None, most: int | None, frame: Frame) -> str:
    said = frame.missing() if value is None else str(value)
    return f"{said} of {most}" if most is not None else said


def _errors(device: Device, frame: Frame) -> list[PageLine]:
    """Return the lines about errors within the window, such as ECC errors."""
    if device.remap_pending is None:
        pending = pair("remapped", _why(device, frame, "remapped rows"), "dim")
    elif device.remap_pending:
        pending = pair("remapped", "rows of memory will be replaced at the next reset of the device", "warn")
    else:
        pending = pair("remapped", "no row of memory waits to be replaced")
    xids = ", ".join(str(xid) for xid in device.xids)
    unread = any("XIDs" in said.partition(": ")[0].split(", ") for said in device.notes)
    return [
        _counted("ECC fixed", "ecc_corrected", device, frame, "corrected ECC errors"),
        _counted("ECC lost", "ecc_uncorrected", device, frame, "uncorrected ECC errors", "bad"),
        pending,
        pair("XIDs", _why(device, frame, "XIDs"), "dim")
        if unread and not xids
        else pair(
            "XIDs",
            f"{xids}: critical errors the driver reported" if xids else "none",
            "bad" if xids else "text",
        ),
    ]


def _counted(name: str, field: str, device: Device, frame: Frame, asked: str, role: str = "warn") -> PageLine:
    number = getattr(device, field)
    if number is None:
        return pair(name, _why(device, frame, asked, field=field), "dim")
    return pair(name, f"{number:,} within this window", role if number else "text")


# ---- processes


def processes(device: Device, window: Window, frame: Frame) -> Section:
    """Return the section about the processes that hold a context on the device, with the memory of each."""
    lines = [
        heading(
            f"Processes: {len(device.processes)}",
            "with a context on the GPU; the busy time of each is not known",
        )
    ]
    names = {(use.tenant, use.pid): use.process for use in window.evidence.processes}
    names.update({(key.tenant, key.pid): key.process for key in window.rows.keys})
    unread = any("processes" in said.partition(": ")[0] for said in device.notes)
    if not device.processes:
        why = _why(device, frame, "compute processes", "graphics processes").lstrip(frame.missing()).strip()
        return Section("processes", (*lines, note(f"not known: {why}" if unread else "none")))
    sampled = any(one.sample_age_seconds is not None for one in device.processes)
    head = f"  {'PID':>7} {'KIND':5} {'MEMORY':>7} " + (f"{'SAMPLE':>12} " if sampled else "")
    parts_of = {one.pid: part.label for part in device.instances for one in part.processes}
    head += f"{'MIG':>5} " if parts_of else ""
    lines.append(PageLine(((f"{head} NAME AND TENANT", "dim"),)))
    order = sorted(device.processes, key=lambda one: (-(one.memory_bytes or 0), one.pid))
    for one in order[:MOST_LISTED]:
        front = f"  {one.pid:>7} {one.kind.ljust(5)} "
        front += figures.memory(one.memory_bytes, frame.glyphs) + " "
        front += f"{_sample(one, frame):>12} " if sampled else ""
        front += f"{parts_of.get(one.pid, frame.missing()):>5} " if parts_of else ""
        name = names.get((one.tenant, one.pid), "")
        tenant = name_of(one.tenant, window) if one.tenant else "tenant not known"
        if is_mps(one):
            name = "MPS server" if "server" in one.process else printable(one.process)
        told = f"{name or _untraced(one)}  "
        lines.append(
            PageLine(((f"{front} ", "text"), (told, "text" if name else "dim"), (tenant, "label")), indent=4)
        )
    return Section("processes", (*lines, *more(len(order) - MOST_LISTED)))


def _untraced(process: DeviceProcess) -> str:
    """Return the name of a process whose calls are not traced."""
    return f"{printable(process.process)}, not traced" if process.process else "not traced"


def _sample(process: DeviceProcess, frame: Frame) -> str:
    """Return the driver's last utilization sample of the process, and its age."""
    if process.sample_age_seconds is None or process.sm_percent is None:
        return frame.missing()
    return f"{process.sm_percent:.0f}% {process.sample_age_seconds:.0f}s ago"


def unread(device: Device) -> Section:
    """Return the section about what the driver could not report, and why."""
    if not device.notes:
        return Section("unread", ())
    return Section("unread", (heading("What could not be read"), *(note(said) for said in device.notes)))


def none(window: Window) -> Section:
    """Return the section that replaces the page if there is no device."""
    why = window.devices.unavailable or "none found"
    return Section(
        "none",
        (
            heading("GPU"),
            note(f"no GPU can be read: {why}", "text"),
            note("calls are traced nevertheless; `stalltop check` says what is needed to read GPUs"),
        ),
    )
