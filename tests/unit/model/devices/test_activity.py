"""Tests active time and overlaps of tenants on a device, computed from sets of ticks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.devices.activity import MOST_TENANTS, DeviceActivity, DeviceOverlap, reported_activity

TICK_NS = 1 << 20
TICKS = st.frozensets(st.integers(0, 300))
ACTIVE = st.dictionaries(st.tuples(st.sampled_from(["", "0", "0:3", "1"]), st.sampled_from("abcd")), TICKS)


def bits(ticks: frozenset[int]) -> int:
    return sum(1 << tick for tick in ticks)


@given(ACTIVE)
def test_times_and_overlaps_equal_those_of_the_ticks(active: dict[tuple[str, str], frozenset[int]]) -> None:
    told = reported_activity({key: bits(ticks) for key, ticks in active.items()}, TICK_NS)
    assert {(each.device, each.tenant): each.active_ns for each in told.activity} == {
        key: len(ticks) * TICK_NS for key, ticks in active.items() if ticks
    }
    assert {(each.device, each.tenant, each.other): each.ns for each in told.overlaps} == {
        (device, one, two): len(ticks & others) * TICK_NS
        for (device, one), ticks in active.items()
        for (where, two), others in active.items()
        if device == where and device and one < two and ticks & others
    }
    assert len(told.overlaps) == len(set(told.overlaps))
    assert not told.left_out


def test_overlaps_are_given_for_the_most_active_tenants() -> None:
    tenants = MOST_TENANTS + 6
    active = {("0", f"t{n:03}"): (1 << n + 1) - 1 for n in range(tenants)}
    told = reported_activity(active, 10)
    assert told.left_out == {"0": 6}
    assert len(told.activity) == tenants
    assert told.activity[0] == DeviceActivity("0", f"t{tenants - 1:03}", 10 * tenants)
    assert len(told.overlaps) == MOST_TENANTS * (MOST_TENANTS - 1) // 2
    assert DeviceOverlap("0", "t006", "t007", 70) in told.overlaps
    assert not any(each.tenant < "t006" for each in told.overlaps)
