"""Tests the difference between two windows: hand-made cases, exact sums, and statistical confidence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from stalltop.model.comparing.difference import Compared, compare, interval_ns
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import pivot
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, rows, window
from tests.windows.drawn import FEW, sequences

US = 1_000


def changes(
    then: list[Calls],
    now: list[Calls],
    *,
    seconds: tuple[float, float] = (1.0, 1.0),
    by: Dimension = "operation",
) -> Compared:
    return compare(window(then, seconds=seconds[0]), window(now, seconds=seconds[1]), (by,))


def test_slower_calls_lose_time_and_additional_calls_take_more() -> None:
    found = changes(
        [Calls(key("slow"), [10 * US] * 4), Calls(key("more"), [10 * US] * 4), Calls(key("same"), [US] * 9)],
        [Calls(key("slow"), [30 * US] * 4), Calls(key("more"), [10 * US] * 12), Calls(key("same"), [US] * 9)],
    )
    at = {name: found.keys.index((name,)) for name in ("slow", "more", "same")}
    difference = found.difference
    assert difference.lost_ns_per_s[at["slow"]] == pytest.approx(80 * US)
    assert difference.more_ns_per_s[at["slow"]] == pytest.approx(0)
    assert difference.lost_ns_per_s[at["more"]] == pytest.approx(0)
    assert difference.more_ns_per_s[at["more"]] == pytest.approx(80 * US)
    assert difference.share[at["slow"]] == pytest.approx(1)
    assert difference.p50_ratio[at["slow"]] == pytest.approx(3, rel=0.02)
    assert difference.weight[at["same"]] == 0


def test_a_row_that_always_waits_loses_time_though_its_sum_stays() -> None:
    found = changes([Calls(key(), [50 * US] * 20)], [Calls(key(), [100 * US] * 10)])
    assert found.difference.now.ns_per_s == pytest.approx(found.difference.then.ns_per_s)
    assert found.difference.lost_ns_per_s == pytest.approx([500 * US])
    assert found.difference.more_ns_per_s == pytest.approx([-500 * US])


def test_a_larger_share_of_long_calls_is_no_loss() -> None:
    long, short = key("long"), key("short")
    then = [Calls(long, [100 * US]), Calls(short, [US] * 9)]
    now = [Calls(long, [100 * US] * 9), Calls(short, [US])]
    found = changes(then, now, by="container").difference
    assert found.lost_ns_per_s == pytest.approx([0])
    assert found.more_ns_per_s == pytest.approx([792 * US])


def test_a_restarted_process_is_compared_with_its_predecessor() -> None:
    then, now = [Calls(key(pid=1), [US] * 4)], [Calls(key(pid=2), [3 * US] * 4)]
    by: Dimension
    for by in ("container", "operation"):
        assert changes(then, now, by=by).difference.lost_ns_per_s == pytest.approx([8 * US])
    assert changes(then, now, by="process").difference.lost_ns_per_s.tolist() == [0, 0]


def test_the_length_of_the_windows_does_not_matter() -> None:
    found = changes([Calls(key(), [US] * 10)], [Calls(key(), [US] * 100)], seconds=(1.0, 10.0))
    assert found.difference.then.calls_per_s == found.difference.now.calls_per_s == [10.0]
    assert found.difference.weight == pytest.approx([0.0])


def test_new_and_gone_rows_are_marked_and_weighed_by_their_time() -> None:
    found = changes(
        [Calls(key("gone"), [5 * US] * 2), Calls(key("idle"), [])],
        [Calls(key("new"), [7 * US]), Calls(key("idle"), [])],
    )
    assert found.keys == (("idle",), ("new",), ("gone",))
    difference = found.difference
    assert difference.new.tolist() == [False, True, False]
    assert difference.gone.tolist() == [False, False, True]
    assert difference.lost_ns_per_s.tolist() == [0, 0, 0]
    assert difference.more_ns_per_s == pytest.approx([0, 7 * US, -10 * US])
    assert difference.weight == pytest.approx([0, 7 * US, 10 * US])
    assert np.isnan(difference.p99_ratio).all()
    assert difference.changed.tolist() == [False, True, True]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_few_calls_are_never_sure(n: int) -> None:
    found = changes([Calls(key(), [US] * n)], [Calls(key(), [1_000 * US] * n)])
    assert not found.difference.p50_sure.any()
    assert not found.difference.p99_sure.any()


def test_a_changed_median_needs_tens_of_calls_and_a_changed_p99_hundreds() -> None:
    def sure(n: int) -> tuple[bool, bool]:
        found = changes([Calls(key(), [US] * n)], [Calls(key(), [2 * US] * n)]).difference
        return bool(found.p50_sure.all()), bool(found.p99_sure.all())

    assert sure(5) == (False, False)
    assert sure(20) == sure(400) == (True, False)
    assert sure(600) == (True, True)


def test_equal_distributions_are_rarely_called_changed() -> None:
    """Both windows have the same distribution; about one row in 180 may wrongly count as changed."""
    generator = np.random.default_rng(5)

    def drawn() -> list[Calls]:
        return [
            Calls(key(f"{number:03}"), (generator.lognormal(10, 1, 600)).astype(int).tolist())
            for number in range(200)
        ]

    difference = changes(drawn(), drawn()).difference
    assert difference.p50_sure.sum() <= 6
    assert difference.p99_sure.sum() <= 6


def test_a_real_change_is_found() -> None:
    generator = np.random.default_rng(5)
    then = generator.lognormal(10, 1, 2_000)
    found = changes(
        [Calls(key(), then.astype(int).tolist())], [Calls(key(), (1.5 * then).astype(int).tolist())]
    )
    assert found.difference.p50_sure.all()
    assert found.difference.changed.all()


def test_the_interval_contains_the_true_percentile_in_about_95_of_100_cases() -> None:
    generator = np.random.default_rng(7)
    draws = generator.exponential(1e6, (300, 1_000))
    made = rows([Calls(key(str(number)), draw.astype(int).tolist()) for number, draw in enumerate(draws)])
    for percent in (50.0, 99.0):
        true = -1e6 * math.log(1 - percent / 100)
        low, high = interval_ns(made.histograms, percent)
        held = ((low <= true) & (true <= high)).mean()
        assert 0.9 <= held <= 1.0, percent


def test_an_interval_without_calls_is_unbounded() -> None:
    low, high = interval_ns(rows([Calls(key(), [])]).histograms, 99.0)
    assert (low.tolist(), high.tolist()) == ([0.0], [math.inf])
    assert changes([], []).difference.share.tolist() == []


@FEW
@given(sequences())
def test_lost_time_and_additional_time_add_up_to_the_change(parts: list[Window]) -> None:
    before, after = parts[0], parts[-1]
    found = compare(before, after, ("operation",))
    difference = found.difference
    change = difference.now.ns_per_s - difference.then.ns_per_s
    assert difference.lost_ns_per_s + difference.more_ns_per_s == pytest.approx(change)
    assert set(found.keys) == {*pivot(before, ("operation",)).keys, *pivot(after, ("operation",)).keys}
    assert (difference.share[~difference.between] >= 0).all()
    same = compare(after, after, ("operation",)).difference
    assert not same.changed.any()
    assert not same.weight.any()
