"""When tenants had work on a device: what is measured of a GPU that several of them share.

The driver does not tell who used how much of a shared device. What is measured is in which milliseconds a
tenant gave it work (launches, copies, collectives) or waited for it, and which of these another one had, too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """The time in which one tenant gave one device work or waited for it."""

    device: str
    """Its label (see ``model.device_label``); empty where it is not known which one."""
    tenant: str
    active_ns: int
    """In whole milliseconds."""


@dataclass(frozen=True, slots=True)
class DeviceOverlap:
    """The time in which two tenants did so at once. One for each pair: ``tenant`` is below ``other``."""

    device: str
    tenant: str
    other: str
    ns: int
    """In whole milliseconds."""


def overlap(device: str, one: str, two: str, ns: int) -> DeviceOverlap:
    """That of two tenants, in whichever order they are named."""
    return DeviceOverlap(device, min(one, two), max(one, two), ns)
