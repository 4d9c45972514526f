"""Tests reading the activity that the BPF programs store: each tick counts once, and lost ticks are
reported."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stalltop.probes import layout
from stalltop.probes.layout import SPAN, TICKS
from stalltop.probes.maps import activity
from stalltop.probes.maps.activity import MOST_TICKS, TICK_NS, Activities, active_ticks, ticks_between
from stalltop.probes.operations import Function
from stalltop.probes.programs.loading import Programs

FUNCTIONS = (
    Function(7, "cuLaunchKernel", 70, "driver", uses_device=True),
    Function(8, "cuMemAlloc", 80, "driver"),
)
FIRST = 10 * TICKS + 4000
"""A tick shortly before the end of a lap; a lap has ``TICKS`` ticks."""


LAPS_BEFORE_THEY_REPEAT = TICKS * layout.LAP
"""Number of ticks (39 hours) after which lap numbers repeat, because they are stored in few bits."""


def mark(record: np.void, start: int, last: int) -> None:
    """Marks the ticks from ``start`` to ``last`` as active, as bpf/cuda/activity.h does when a call
    returns."""
    tick = max(start, last - (TICKS - 1))
    while tick <= last:
        if tick % SPAN == 0 and last - tick >= SPAN - 1:
            record["spans"][tick // SPAN % (TICKS // SPAN)] = layout.LAP | tick // TICKS % layout.LAP
            tick += SPAN
        else:
            record["laps"][tick % TICKS] = layout.LAP | tick // TICKS % layout.LAP
            tick += 1


def ticks_of(bits: int, first: int = 0) -> set[int]:
    return {first + n for n in range(bits.bit_length()) if bits >> n & 1}


@dataclass
class ActivityMaps:
    """Holds the BPF maps in memory, and a clock in ticks."""

    tick: int = FIRST
    programs: Any = None
    queue: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.programs = SimpleNamespace(
            activities=np.zeros(layout.ACTIVITIES, layout.ACTIVITY),
            threads=np.zeros(8, layout.THREAD),
            activity_of=-1,
            pools=SimpleNamespace(free=lambda pool, records, tgids, cgroup_ids: None),
        )

    def reader(self) -> Activities:
        return Activities(
            cast(Programs, self.programs), FUNCTIONS, clock=lambda: self.tick * TICK_NS + TICK_NS // 2
        )

    def record(self, number: int, tgid: int, device: int = 1) -> np.void:
        record = self.programs.activities[number : number + 1]
        record["tgid"], record["device"], record["cgroup_id"] = tgid, device, 5
        return cast(np.void, record[0])

    def thread(self, number: int, tgid: int, start: int | None, function: int = 7, device: int = 1) -> None:
        """Sets a thread to be in a call since tick ``start``; in no call if None."""
        thread = self.programs.threads[number : number + 1]
        thread["tid"], thread["tgid"], thread["cgroup_id"] = 100 + number, tgid, 5
        thread["depth"] = start is not None
        if start is not None:
            frames = thread["frames"]
            frames["start_ns"][0, 0] = start * TICK_NS
            frames["function"][0, 0] = function
            frames["operation"][0, 0] = 70 | device << layout.DEVICE_SHIFT

    def end_thread(self, number: int) -> None:
        thread = self.programs.threads[number : number + 1]
        thread["ended_tgid"], thread["ended_ns"] = thread["tgid"], self.tick * TICK_NS
        thread["tid"] = thread["tgid"] = 0


@pytest.fixture(autouse=True)
def maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "delete_all", lambda fd, keys: None)


@given(
    st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 5000)), max_size=12),
    st.integers(0, 1 << 26),
)
@settings(max_examples=60)
def test_the_last_ticks_are_kept_after_any_earlier_calls(calls: list[tuple[int, int]], base: int) -> None:
    records = np.zeros(1, layout.ACTIVITY)
    expected = set()
    ended = sorted((base + begin + length, base + begin) for begin, length in calls)
    for last, start in ended:
        mark(records[0], start, last)
        expected |= set(range(max(start, last - TICKS + 1), last + 1))
    now = ended[-1][0] if ended else base
    first = max(now - TICKS + 1, 0)
    (bits,) = active_ticks(records, first, now + 1)
    assert ticks_of(bits, first) == {tick for tick in expected if tick >= first}


def test_every_tick_is_counted_once_at_any_interval_of_reading() -> None:
    chosen = random.Random(3)
    kernel = ActivityMaps()
    reader = kernel.reader()
    record = kernel.record(0, 42)
    expected: set[int] = set()
    found: set[int] = set()
    busy_since: int | None = None
    end = FIRST
    for _ in range(2500):
        kernel.tick += chosen.choice([0, 1, 1, 2, 7, 40])
        if busy_since is None:
            if chosen.random() < 0.5:
                busy_since = kernel.tick
                kernel.thread(0, 42, busy_since)
        elif chosen.random() < 0.2:
            mark(record, busy_since, kernel.tick)
            expected |= set(range(busy_since, kernel.tick + 1))
            kernel.thread(0, 42, None)
            busy_since = None
        if chosen.random() < 0.05:
            told = reader.read()
            assert told.first_tick == end
            assert not told.late_ns
            end = told.end_tick
            for active in told.active:
                assert active[:3] == (42, 5, 1)
                new = ticks_of(active.ticks, told.first_tick)
                assert not new & found
                assert all(told.first_tick <= tick < end for tick in new)
                found |= new
    if busy_since is not None:
        expected |= set(range(busy_since, kernel.tick + 1))
    assert found == {tick for tick in expected if tick < end}


def test_calls_that_do_not_use_the_device_are_not_activity() -> None:
    kernel = ActivityMaps()
    reader = kernel.reader()
    kernel.thread(0, 42, FIRST, function=8)
    kernel.tick += 100
    assert not reader.read().active


def test_a_thread_that_ended_in_a_call_was_active_until_then_and_not_after() -> None:
    kernel = ActivityMaps()
    reader = kernel.reader()
    kernel.thread(0, 42, FIRST, device=3)
    kernel.tick += 100
    first = reader.read()
    kernel.tick += 20
    kernel.end_thread(0)
    kernel.tick += 200
    second = reader.read()
    kernel.tick += 200
    assert [active[:3] for told in (first, second) for active in told.active] == [(42, 5, 3)] * 2
    assert ticks_of(first.active[0].ticks) | ticks_of(
        second.active[0].ticks, second.first_tick - FIRST
    ) == set(range(121))
    assert not reader.read().active


def test_overwritten_ticks_are_reported_as_late() -> None:
    kernel = ActivityMaps()
    reader = kernel.reader()
    record = kernel.record(0, 42)
    for tick in range(FIRST, FIRST + TICKS + 1000):
        mark(record, tick, tick)
    kernel.tick = FIRST + TICKS + 999
    told = reader.read()
    assert told.late_ns == 1000 * TICK_NS
    (active,) = told.active
    assert ticks_of(active.ticks) == set(range(1000, told.end_tick - FIRST))


def test_samples_between_reads_lose_nothing() -> None:
    kernel = ActivityMaps()
    reader = kernel.reader()
    record = kernel.record(0, 42)
    assert not reader.due
    for tick in range(FIRST, FIRST + 3 * TICKS, 2):
        kernel.tick = tick
        mark(record, tick, tick)
        if reader.due:
            reader.look()
    told = reader.read()
    assert not told.late_ns
    assert ticks_of(told.active[0].ticks) == set(range(0, told.end_tick - FIRST, 2))


def test_ticks_stored_between_reads_are_bounded() -> None:
    kernel = ActivityMaps()
    reader = kernel.reader()
    kernel.thread(0, 42, FIRST)
    for _ in range(MOST_TICKS // 2000 + 10):
        kernel.tick += 2000
        reader.look()
    told = reader.read()
    assert told.end_tick - told.first_tick == MOST_TICKS
    assert told.late_ns == (told.first_tick - FIRST) * TICK_NS
    assert told.active[0].ticks == ticks_between(0, MOST_TICKS)


def test_old_ticks_do_not_return_when_lap_numbers_repeat() -> None:
    kernel = ActivityMaps(tick=LAPS_BEFORE_THEY_REPEAT)
    reader = kernel.reader()
    record = kernel.record(2, tgid=70)
    mark(record, kernel.tick, kernel.tick + 500)
    kernel.tick += 502
    assert [ticks_of(each.ticks) for each in reader.read().active] == [set(range(501))]
    again = kernel.tick + LAPS_BEFORE_THEY_REPEAT
    while kernel.tick < again:
        kernel.tick = min(kernel.tick + activity.FORGET_TICKS // 2, again)
        assert reader.read().active == []


def test_clearing_old_ticks_keeps_the_recent_ones() -> None:
    kernel = ActivityMaps()
    record = kernel.record(0, tgid=70)
    mark(record, FIRST - TICKS + 1, FIRST - 1)
    activity.forget_before(kernel.programs.activities[:1], FIRST)
    (bits,) = active_ticks(kernel.programs.activities[:1], FIRST - TICKS + 1, FIRST)
    assert bits.bit_count() == TICKS - 1


def test_records_of_an_ended_process_are_released_empty() -> None:
    kernel = ActivityMaps()
    reader = kernel.reader()
    mark(kernel.record(0, 42), FIRST, FIRST + 5)
    mark(kernel.record(1, 43), FIRST, FIRST + 2)
    kernel.tick += 10
    reader.release(42)
    assert [active[:3] for active in reader.read().active] == [(43, 5, 1)]
    assert not kernel.programs.activities[0]["laps"].any()


@given(st.integers(-3, 200), st.integers(-3, 200))
def test_ticks_between_sets_the_bits_of_the_range(first: int, end: int) -> None:
    assert ticks_of(ticks_between(first, end)) == (set(range(first, end)) if first >= 0 else set())
