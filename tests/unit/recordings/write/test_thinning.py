"""Tests the order in which a recording merges and drops its windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.calls import CapturedCall, CapturedCalls
from stalltop.recordings.read import moments
from stalltop.recordings.write import thinning
from stalltop.recordings.write.thinning import (
    LEFT_ALONE,
    MOST_CALLS,
    KeptWindow,
    ThinningStep,
    Tier,
    TieredWindows,
    put_together,
)
from tests.windows.by_hand import Calls as Row
from tests.windows.by_hand import key, row_table, window
from tests.windows.full import CHAINS

TIERS = (Tier(0, 60.0), Tier(10, 600.0), Tier(60, float("inf")))
FOR_EVER = 1e12


class SimulatedRecording:
    """Stands for a recording without a file. A window is a list of the numbers of windows merged into it."""

    def __init__(self, most_seconds: float = FOR_EVER) -> None:
        self.tiered = TieredWindows(TIERS)
        self.most_seconds = most_seconds
        self.held: dict[int, tuple[int, ...]] = {}
        """For each kept window, by id: the numbers of the added windows that are merged into it."""
        self.number = 0

    def add(self, start: float, seconds: float = 1.0, host: str = "gpu7") -> None:
        self.number += 1
        self.held[self.number] = (self.number,)
        self.tiered.add(KeptWindow(self.number, start, seconds, host))
        while (step := self.tiered.due(self.most_seconds)) is not None:
            self.take(step)

    def take(self, step: ThinningStep) -> None:
        first = step.windows[0]
        together = tuple(second for kept in step.windows for second in self.held.pop(kept.window_id))
        merged = None
        if step.to is not None:
            self.held[first.window_id] = together
            merged = first._replace(seconds=sum(kept.seconds for kept in step.windows))
        self.tiered.done(step, merged)

    def lengths(self) -> list[int]:
        """Returns the length of each window in seconds, oldest first."""
        return [len(self.held[number]) for number in sorted(self.held)]


def test_windows_get_coarser_with_age_and_none_is_lost_or_misplaced() -> None:
    made = SimulatedRecording()
    for second in range(2_000):
        made.add(1_000.0 + second)
    assert [second for number in sorted(made.held) for second in made.held[number]] == [*range(1, 2_001)]
    lengths = made.lengths()
    assert lengths == sorted(lengths, reverse=True)
    assert set(lengths) == {60, 10, 1}
    assert 60 <= lengths.count(1) <= 70
    assert 600 <= lengths.count(1) + 10 * lengths.count(10) <= 660
    assert made.tiered.seconds == 2_000


def test_windows_older_than_the_bound_are_dropped() -> None:
    made = SimulatedRecording(most_seconds=300.0)
    for second in range(1_000):
        made.add(1_000.0 + second)
    assert 290 <= sum(made.lengths()) <= 310
    assert sum(made.held[max(made.held)]) == 1_000


@pytest.mark.parametrize(
    "step", [-86_400.0 * 400, -50.0, -30.0, -3.0, -0.6, 0.6, 3.0, 8.0, 30.0, 86_400.0 * 400]
)
def test_no_window_spans_a_clock_step_and_none_is_dropped_for_it(step: float) -> None:
    made = SimulatedRecording(most_seconds=7 * 86_400.0)
    for second in range(1_500):
        made.add(1e9 + second + (step if second >= 205 else 0.0))
        parts = made.held.values()
        assert not [part for part in parts if 205 in part and 206 in part]
    seconds = [made.held[number] for number in sorted(made.held)]
    assert [second for part in seconds for second in part] == [*range(1, 1_501)]
    assert set(map(len, seconds)) > {60, 10, 1}


def test_small_clock_corrections_do_not_accumulate_in_a_window() -> None:
    made = SimulatedRecording()
    starts: dict[int, float] = {}
    for second in range(1_500):
        starts[second + 1] = 1e9 + second * 1.02
        made.add(starts[second + 1])
        for part in made.held.values():
            assert starts[part[-1]] + 1 - (starts[part[0]] + len(part)) < 1
    assert max(map(len, made.held.values())) >= 20


def test_the_number_of_windows_stays_below_the_readers_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert thinning.MOST_WINDOWS < moments._MOST_WINDOWS
    monkeypatch.setattr(thinning, "MOST_WINDOWS", 100)
    made = SimulatedRecording()
    for second in range(2_000):
        made.add(1e9 + second)
        assert len(made.tiered) <= 100
    assert sum(made.lengths()) == made.tiered.seconds > 150
    assert made.held[max(made.held)] == (2_000,)


def test_a_pause_ages_windows_by_at_most_a_day() -> None:
    made = SimulatedRecording(most_seconds=2 * 86_400.0)
    for start in (0.0, 1e6, 1e9):
        made.add(start)
    # The first window was dropped: each pause aged it by one day, and the limit is two days.
    assert len(made.held) == 2


def test_no_window_spans_two_hosts() -> None:
    made = SimulatedRecording()
    for second in range(200):
        made.add(1_000.0 + second, host="gpu7" if second < 103 else "gpu8")
    assert not [part for part in made.held.values() if 103 in part and 104 in part]


def test_a_short_disk_costs_detail_first_and_the_newest_windows_stay() -> None:
    made = SimulatedRecording()
    for second in range(1_500):
        made.add(1_000.0 + second)
    dropping = False
    while (step := made.tiered.least_needed()) is not None:
        if step.to is None and not dropping:
            dropping = True
            lengths = made.lengths()
            assert sum(lengths) == 1_500
            assert LEFT_ALONE <= lengths.count(1) < LEFT_ALONE + 10
            assert LEFT_ALONE <= lengths.count(10) < LEFT_ALONE + 6
        assert dropping == (step.to is None)  # nothing is dropped while anything can be merged
        made.take(step)
    assert made.lengths() == [1]
    assert sum(made.held[max(made.held)]) == 1_500


def test_several_of_the_oldest_are_dropped_at_once_but_never_the_newest() -> None:
    tiered = TieredWindows(TIERS)
    for number in range(5):
        tiered.add(KeptWindow(number, 10.0 * number, 1.0, "gpu7"))
    step = tiered.least_needed(3)
    assert step is not None
    assert [kept.window_id for kept in step.windows] == [0, 1, 2]
    tiered.done(step, None)
    step = tiered.least_needed(3)
    assert step is not None
    assert [kept.window_id for kept in step.windows] == [3]
    tiered.done(step, None)
    assert tiered.least_needed(3) is None
    assert tiered.oldest == tiered.newest


def test_merged_windows_add_up_and_keep_chains_that_ended() -> None:
    calls = [Row(key("cudaLaunchKernel"), [4_000, 5_000])]
    note = replace(CHAINS[0], id="gpu_bound", severity="info")
    parts = [
        replace(window(calls, start=1_000.0), chains=(CHAINS[0], note)),
        replace(window(calls, start=1_001.0), chains=(replace(CHAINS[0], lost_ms_per_s=1.0),)),
    ]
    together = put_together(parts)
    assert row_table(together.rows) == row_table(window([Row(calls[0].key, [4_000, 5_000] * 2)]).rows)
    assert [(chain.id, chain.open, chain.lost_ms_per_s) for chain in together.chains] == [
        (CHAINS[0].id, True, 1.0),
        ("gpu_bound", False, note.lost_ms_per_s),
    ]
    assert put_together(parts[:1]) is parts[0]


def test_of_many_captured_calls_the_slowest_stay_and_the_rest_are_counted() -> None:
    who = ("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False, 101)
    slow = [
        CapturedCall(*who, 10**18 + number, number + 1, None, 0, 0, "", "", "slow") for number in range(100)
    ]
    parts = [
        replace(window(start=1_000.0 + at), calls=CapturedCalls(slow[at * 50 : at * 50 + 50], 3))
        for at in (0, 1)
    ]
    calls = put_together(parts).calls
    assert [one.duration_ns for one in calls.kept] == list(range(101 - MOST_CALLS, 101))
    assert calls.passed_over == 6 + 100 - MOST_CALLS
