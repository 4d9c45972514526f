"""The lines about parts of a GPU: engines, clocks, links, fans, retired memory. Pure functions.

Only the parts that the device has are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from stalltop.model.devices.device import DEVICE_COUNTERS, DEVICE_FIGURE, DEVICE_FIGURES, Device, DeviceFigure
from stalltop.model.text import figures
from stalltop.model.text.words import numbered
from stalltop.model.window import Window
from stalltop.tui.pages.sections import Frame, Section, heading, pair
from stalltop.widgets.page import PageLine

Said = tuple[str, str]
"""A text and its role."""


def facts(device: Device) -> list[PageLine]:
    """Return one line with the location and configuration of the device; empty if neither is known."""
    said = [
        device.pci_bus_id,
        f"/dev/nvidia{device.minor}" if device.minor is not None else "",
        f"P{device.performance_state}" if device.performance_state is not None else "",
        f"compute mode {device.compute_mode}" if device.compute_mode else "",
        {True: "persistence on", False: "persistence off", None: ""}[device.persistence],
        "divided by MIG" if device.mig else "",
        device.virtualization if device.virtualization not in ("", "none") else "",
    ]
    line = ", ".join(text for text in said if text)
    return [PageLine(((f"  {line}", "dim"),), indent=4)] if line else []


def age(device: Device, *fields: str) -> Said | None:
    """Return the age of the oldest of the figures ``fields``; None if all are as new as the rest of the
    page."""
    ages = [seconds for name, seconds in device.ages if name in fields]
    return (f"  {figures.whole_seconds(max(ages))} old", "dim") if ages else None


def aged(line: PageLine, device: Device, *fields: str) -> PageLine:
    """Add to ``line`` the age of the figures ``fields``, unless they are as new as the rest of the page."""
    said = age(device, *fields)
    return PageLine((*line.parts, said), line.indent) if said else line


def parts(device: Device, window: Window, frame: Frame) -> Section:
    """Return one line for each part of the device that reports figures."""
    lines = []
    for name, fields, told in (*_LINES, *_OTHERS):
        said = told(device, window, frame)
        if said is None and any(field in DEVICE_COUNTERS for field, _ in device.ages if field in fields):
            # The driver takes so long for this reading that stalltop does not ask for it in each window.
            said = f"{frame.missing()}  not read in this window", "dim"
        if said is not None:
            lines.append(aged(pair(name, *said), device, *fields))
    return Section("parts", (heading("Its parts"), *lines) if lines else ())


def _sms(device: Device, window: Window, frame: Frame) -> Said | None:
    if device.sm_active_percent is None:
        return None
    said = f"{device.sm_active_percent:.0f}% had work"
    if device.sm_occupancy_percent is not None:
        said += f", {device.sm_occupancy_percent:.0f}% of their warps resident"
    return said, "text"


def _energy(device: Device, window: Window, frame: Frame) -> Said | None:
    if device.energy_millijoules is None:
        return None
    joules = device.energy_millijoules / 1000
    return (f"{joules / 1000:.1f}kJ" if joules >= 1000 else f"{joules:.0f}J") + " in this window", "text"


def _pcie(device: Device, window: Window, frame: Frame) -> Said | None:
    came, went = device.pcie_rx_bytes_per_second, device.pcie_tx_bytes_per_second
    if came is None and went is None:
        return None
    rates = (f"{figures.size(rate, frame.glyphs).strip()}/s" for rate in (came, went))
    return "{} from the host, {} to it".format(*rates), "text"


def _links(device: Device, window: Window, frame: Frame) -> Said | None:
    if device.nvlinks is None:
        return None
    up = device.nvlinks_active
    if up is None:
        return numbered(device.nvlinks, "link"), "text"
    return f"{up} of {numbered(device.nvlinks, 'link')} up", "warn" if 0 < up < device.nvlinks else "text"


def _link_traffic(device: Device, window: Window, frame: Frame) -> Said | None:
    came, went = device.nvlink_rx_bytes, device.nvlink_tx_bytes
    if came is None and went is None:
        return None
    sizes = (figures.size(value, frame.glyphs).strip() for value in (came, went))
    return "{} received, {} sent in this window".format(*sizes), "text"


def _link_errors(device: Device, window: Window, frame: Frame) -> Said | None:
    errors = device.nvlink_errors
    return None if errors is None else (f"{errors:,} in this window", "warn" if errors else "text")


def _ecc(device: Device, window: Window, frame: Frame) -> Said | None:
    if device.ecc is False:
        return "off: errors of memory go unnoticed", "warn"
    corrected, lost = device.ecc_corrected_lifetime, device.ecc_uncorrected_lifetime
    if corrected is None and lost is None:
        return None if device.ecc is None else ("on", "text")
    numbers = (frame.missing() if number is None else f"{number:,}" for number in (corrected, lost))
    return "{} corrected and {} uncorrected, over the lifetime of the GPU".format(
        *numbers
    ), "warn" if lost else "text"


def _retired(device: Device, window: Window, frame: Frame) -> Said | None:
    if device.retired_pages is None and device.retirement_pending is None:
        return None
    said = f"{device.retired_pages or 0:,} pages"
    if device.retirement_pending:
        return said + ", more wait for a reset of the device", "warn"
    return said, "warn" if device.retired_pages else "text"


def _rows(device: Device, window: Window, frame: Frame) -> Said | None:
    if device.remap_failed:
        return "a row could not be replaced: have the board exchanged", "bad"
    fixed, lost = device.remapped_corrected, device.remapped_uncorrected
    if fixed is None and lost is None:
        return None
    said = f"{fixed or 0:,} after corrected errors, {lost or 0:,} after uncorrected ones"
    return said, "warn" if lost else "text"


Part = tuple[str, tuple[str, ...], Callable[[Device, Window, Frame], Said | None]]
"""A line of the page: its name, the fields of ``Device`` that it shows, and the function that returns its
text."""


def _part(figure: DeviceFigure) -> Part:
    """Return the line that shows ``figure``. If the device reports the largest possible value of the figure,
    the line shows that too."""

    def told(device: Device, window: Window, frame: Frame) -> Said | None:
        value, limit = figure.value(device), figure.limit(device)
        if value is None:
            return None
        said = figures.with_unit(value, figure.unit, frame.glyphs)
        said += f" of {figures.with_unit(limit, figure.unit, frame.glyphs)}" if limit else ""
        return f"{said} {'in this window' if figure.counts else figure.phrase}".rstrip(), "text"

    return figure.label, (figure.name,), told


_LINES: Final[tuple[Part, ...]] = (
    ("SMs", ("sm_active_percent", "sm_occupancy_percent"), _sms),
    *(
        _part(DEVICE_FIGURE[name])
        for name in (
            "tensor_percent",
            "dram_percent",
            "encoder_percent",
            "decoder_percent",
            "jpeg_percent",
            "memory_clock_mhz",
            "video_clock_mhz",
            "memory_temperature_celsius",
            "fan_percent",
            "bar1_used_bytes",
        )
    ),
    ("energy", ("energy_millijoules",), _energy),
    ("PCIe traffic", ("pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second"), _pcie),
    ("NVLink", ("nvlinks_active",), _links),
    ("  traffic", ("nvlink_rx_bytes", "nvlink_tx_bytes"), _link_traffic),
    ("  errors", ("nvlink_errors",), _link_errors),
    ("ECC", ("ecc_corrected_lifetime", "ecc_uncorrected_lifetime"), _ecc),
    ("pages retired", ("retired_pages",), _retired),
    ("rows replaced", ("remapped_corrected", "remapped_uncorrected"), _rows),
)
"""The first lines of the section, in this order."""
_SHOWN: Final = {field for _, fields, _ in _LINES for field in fields}
_OTHERS: Final = tuple(
    _part(one) for one in DEVICE_FIGURES if one.label and not one.gauge and one.name not in _SHOWN
)
"""The lines after ``_LINES``: one for each other figure that has a label."""


def held(device: Device, frame: Frame) -> Iterator[tuple[str, int]]:
    """Yield (name, ns) for each reason without a line of its own: how long it throttled clocks in the
    window."""
    for name, ns in (
        ("sync boost", device.sync_boost_held_ns),
        ("board limit", device.board_limit_held_ns),
        ("reliability", device.reliability_held_ns),
        ("thermal, driver", device.software_thermal_held_ns),
        ("thermal, chip", device.hardware_thermal_held_ns),
        ("power brake", device.power_brake_held_ns),
    ):
        if ns:
            yield name, ns
