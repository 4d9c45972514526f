"""When tenants had work on a device: what is measured of a GPU that several of them share.

The driver does not tell who used how much of a shared device. What is measured is in which milliseconds a
tenant gave it work (launches, copies, collectives) or waited for it, and which of these another one had, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

MOST_TENANTS: Final = 64
"""Tenants of a device whose overlaps are told: those that were active most."""


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """The time in which one tenant gave one device work or waited for it."""

    device: str
    """Its label (see ``model.devices.labels``); empty where it is not known which one."""
    tenant: str
    active_ns: int
    """As coarse as it is measured: a millisecond counts whole."""


@dataclass(frozen=True, slots=True)
class DeviceOverlap:
    """The time in which two tenants did so at once. One for each pair: ``tenant`` is below ``other``."""

    device: str
    tenant: str
    other: str
    ns: int
    """As coarse."""


def overlap(device: str, one: str, two: str, ns: int) -> DeviceOverlap:
    """That of two tenants, in whichever order they are named."""
    return DeviceOverlap(device, min(one, two), max(one, two), ns)


class ToldActivity(NamedTuple):
    """What is told of one stretch of time."""

    activity: tuple[DeviceActivity, ...]
    overlaps: tuple[DeviceOverlap, ...]
    left_out: Mapping[str, int]
    """By device, tenants whose overlaps are not told."""


def told_activity(active: Mapping[tuple[str, str], int], tick_ns: int) -> ToldActivity:
    """What is told where ``active`` says, by device and tenant, in which ticks it was active.

    A set of ticks is an integer whose bit n stands for the nth tick of ``tick_ns``. Where the device is not
    known, no overlaps are told: two tenants may mean two devices.
    """
    by_device: dict[str, list[tuple[int, str, int]]] = {}
    for (device, tenant), ticks in active.items():
        if ticks:
            by_device.setdefault(device, []).append((-ticks.bit_count(), tenant, ticks))
    activity, overlaps, left_out = [], [], {}
    for device, tenants in sorted(by_device.items()):
        tenants.sort()
        activity += [DeviceActivity(device, tenant, -count * tick_ns) for count, tenant, _ in tenants]
        if not device:
            continue
        if len(tenants) > MOST_TENANTS:
            left_out[device] = len(tenants) - MOST_TENANTS
        for (_, one, ticks), (_, two, others) in combinations(tenants[:MOST_TENANTS], 2):
            if both := (ticks & others).bit_count():
                overlaps.append(overlap(device, one, two, both * tick_ns))
    return ToldActivity(tuple(activity), tuple(overlaps), left_out)
