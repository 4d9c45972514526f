"""Tests that the figures of the last minutes are bounded, and that no tenant keeps others from being
followed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis import series as series_module
from stalltop.diagnosis.series import LENGTH_SECONDS, MOST_SERIES, Series
from stalltop.model.evidence import Evidence, ProcessUse
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window

GREEDY, MODEST = "docker:aa", "cri:bb"


def second(number: int, tenants: dict[str, range]) -> Window:
    """Returns a window in which these processes of tenants hold device memory and make a call."""
    processes = [
        ProcessUse(tenant, pid, "python3", held_bytes=pid) for tenant, pids in tenants.items() for pid in pids
    ]
    calls = [Calls(key(tenant=tenant, pid=pid), (5,)) for tenant, pids in tenants.items() for pid in pids]
    made = window(calls, start=1_000.0 + number)
    return replace(made, evidence=Evidence(processes=tuple(processes)))


def test_a_tenant_with_many_processes_leaves_room_for_others() -> None:
    series = Series()
    series.add(second(0, {GREEDY: range(1, MOST_SERIES + 500)}))
    assert len(series.points) == len(series.longest_ns) == MOST_SERIES
    for number in range(1, 7):
        series.add(second(number, {GREEDY: range(1, MOST_SERIES + 500), MODEST: range(9_000, 9_010)}))
        assert len(series.points) <= MOST_SERIES
        assert len(series.longest_ns) <= MOST_SERIES
        for pid in range(9_000, 9_010):
            assert ("held_bytes", MODEST, pid) in series.points
            assert key(tenant=MODEST, pid=pid) in series.longest_ns
    first, *_, last = series.points["held_bytes", MODEST, 9_000]
    assert last[0] - first[0] == pytest.approx(4.0), "it is followed all the time"


def test_two_tenants_with_very_many_processes_do_not_take_turns() -> None:
    series = Series()
    both = {GREEDY: range(1, 1_101), MODEST: range(5_001, 6_001)}
    for number in range(7):
        series.add(second(number, both))
    lengths = [len(points) for key, points in series.points.items()]
    assert len(lengths) == MOST_SERIES
    assert min(lengths) == max(lengths) == 4


def test_processes_that_have_ended_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that starts ever new processes is followed, too: the oldest ones of the largest tenant go."""
    monkeypatch.setattr(series_module, "MOST_SERIES", 64)
    monkeypatch.setattr(series_module, "_AT_ONCE", 4)
    series = Series()
    for number in range(200):
        series.add(second(number, {f"docker:{number}": range(number, number + 1)}))
        assert len(series.points) <= 64
        assert ("held_bytes", f"docker:{number}", number) in series.points, "ended ones gave room"
    series.add(second(200 + int(LENGTH_SECONDS), {}))
    assert not series.points
    assert not series.longest_ns
