"""Activity of tenants on devices: how long each tenant, and each pair of tenants, had work on a device.

The driver does not report how much of a shared device each tenant uses. stalltop therefore measures the
milliseconds in which a tenant submits work (launches, copies, collectives) to a device or waits for the
device, and the milliseconds in which two tenants do so at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

MOST_TENANTS: Final = 64
"""Maximum number of tenants per device whose overlaps are reported. If there are more tenants, those with the
most active time are taken."""


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """Time in which one tenant submitted work to one device or waited for the device."""

    device: str
    """Label of the device (see ``model.devices.labels``); '' if unknown."""
    tenant: str
    active_ns: int
    """Active time in ns, in whole ticks of the measurement (about a millisecond each)."""


@dataclass(frozen=True, slots=True)
class DeviceOverlap:
    """Time in which two tenants were active on one device at once.

    Each pair has one record, in which ``tenant`` sorts before ``other``.
    """

    device: str
    tenant: str
    other: str
    ns: int
    """Time in ns in which both tenants were active, in whole ticks of the measurement (about a
    millisecond each)."""


def overlap(device: str, one: str, two: str, ns: int) -> DeviceOverlap:
    """Makes the record of the tenants ``one`` and ``two``, which may be given in either order."""
    return DeviceOverlap(device, min(one, two), max(one, two), ns)


class ReportedActivity(NamedTuple):
    """Activity and overlaps of all tenants in one window."""

    activity: tuple[DeviceActivity, ...]
    overlaps: tuple[DeviceOverlap, ...]
    left_out: Mapping[str, int]
    """By device: the number of tenants whose overlaps are left out (see ``MOST_TENANTS``)."""


def reported_activity(active: Mapping[tuple[str, str], int], tick_ns: int) -> ReportedActivity:
    """Computes activity and overlaps from ``active``, which has the active ticks by (device, tenant).

    The ticks are given as an integer: bit n is set if the tenant was active in tick n, which lasts
    ``tick_ns``. No overlaps are computed for the unknown device (''), because two tenants on unknown devices
    may be on different devices.
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
    return ReportedActivity(tuple(activity), tuple(overlaps), left_out)
