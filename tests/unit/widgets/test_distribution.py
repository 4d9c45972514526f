"""Tests charts of distributions: their size, visibility of every call, and marks at the right durations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS, index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.widgets.distribution import DurationAxis, Line, axis_of, distribution, lines_of
from stalltop.widgets.drawing.palette import ROLES

WIDTHS = (24, 38, 45, 46, 78, 118, 198)


def histogram(*durations: int, times: int = 1) -> Histograms:
    dense = np.zeros((1, COUNTERS), np.uint64)
    for ns in durations:
        dense[0, index_of(ns)] += np.uint64(times)
    return Histograms.from_dense(dense)


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def columns(lines: list[Line], height: int) -> list[int]:
    """Returns the height of each column in eighths of a line."""
    rows = [text[7:] for text in texts(lines[:height])]
    return [sum(" ▁▂▃▄▅▆▇█".index(row[at]) for row in rows) for at in range(len(rows[0]))]


@given(
    st.lists(st.integers(0, 1 << 45), max_size=30),
    st.sampled_from(WIDTHS),
    st.integers(1, 12),
    st.sampled_from([UNICODE, ASCII]),
)
def test_every_chart_has_its_size_and_known_roles(
    durations: list[int], width: int, height: int, glyphs: Glyphs
) -> None:
    longest = max(durations, default=0)
    lines = distribution(histogram(*durations), longest, width=width, height=height, glyphs=glyphs)
    assert len(lines) == lines_of(width, height)
    assert all(cell_len(text) <= width for text in texts(lines))
    assert {role for line in lines for _, role in line} <= set(ROLES)
    assert glyphs is UNICODE or "".join(texts(lines)).isascii()


@given(st.lists(st.integers(0, HIGHEST_NS), min_size=1, max_size=30))
def test_every_call_is_visible(durations: list[int]) -> None:
    one = histogram(*durations)
    axis = axis_of(one, max(durations))
    assert axis is not None
    high = columns(distribution(one, max(durations), width=107, height=8), 8)
    for ns in durations:
        at = axis.cell(ns, 100)
        assert any(high[max(at - 1, 0) : at + 2]), (ns, axis, at)


def test_one_call_makes_one_full_column() -> None:
    lines = distribution(histogram(3_400_000), 3_400_000, width=87, height=4)
    assert axis_of(histogram(3_400_000), 3_400_000) == DurationAxis(2_000_000, 5_000_000)
    high = columns(lines, 4)
    place = DurationAxis(2_000_000, 5_000_000).cell(3_400_000, 80)
    assert max(high) == 32
    assert {at for at, eighths in enumerate(high) if eighths} <= {place - 1, place, place + 1}
    *_, axis, ticks, marks, labels = texts(lines)
    assert axis.startswith("    0 └┬")
    assert "2ms" in ticks
    assert "5ms" in ticks
    assert marks.strip() == "▲"
    assert marks.index("▲") == 7 + place
    assert labels.split() == ["p50", "3.40ms", "p95", "~3.40ms", "p99", "~3.40ms", "max", "3.40ms"]


def test_marks_lie_below_their_durations_and_a_sign_marks_few_calls() -> None:
    durations = [12_000] * 98 + [1_000_000] * 2
    lines = distribution(histogram(*durations), 1_000_000, width=97, height=6)
    axis = axis_of(histogram(*durations), 1_000_000)
    assert axis == DurationAxis(10_000, 2_000_000)
    marks, labels = texts(lines)[-2:]
    assert [at - 7 for at, mark in enumerate(marks) if mark == "▲"] == [
        axis.cell(12_000, 90),
        axis.cell(1_000_000, 90),
    ]
    assert labels.index("p50") < labels.index("p95") < labels.index("p99") < labels.index("max")
    assert "p99 1.00ms" in labels
    few = texts(distribution(histogram(*durations[-19:]), 1_000_000, width=97, height=6))[-1]
    assert few.split() == ["p50", "12.0µs", "p95", "~1.00ms", "p99", "~1.00ms", "max", "1.00ms"]


def test_columns_have_the_height_of_a_logarithmic_scale() -> None:
    one = histogram(*[1_000] * 99, *[1_000_000] * 9, 1_000_000_000)
    lines = distribution(one, 10**9, width=25, height=8)
    high = columns(lines, 8)
    first, second, third = (max(part) for part in (high[:6], high[6:12], high[12:]))
    assert (first, second) == (64, 32)  # log(1 + n), where n is 99, 9 and 1
    assert third == round(64 * 0.301 / 2)
    assert [text[:5].strip() for text in texts(lines)[:8]] == ["100", "", "", "", "10", "", "", "1"]


@pytest.mark.parametrize(
    ("calls", "height", "figures"),
    [
        (1, 6, ["1", "", "", "", "", ""]),
        (640, 6, ["1.00k", "", "100", "", "10", ""]),
        (6_410, 3, ["10.0k", "", "10"]),
        (2, 3, ["2", "", ""]),
    ],
)
def test_the_scale_has_round_figures(calls: int, height: int, figures: list[str]) -> None:
    lines = distribution(histogram(*[1_000] * calls), 1_000, width=25, height=height)
    assert [text[:5].strip() for text in texts(lines)[:height]] == figures


def test_a_narrow_distribution_has_no_gaps() -> None:
    one = histogram(*range(1_000_000, 2_000_000, 500))
    high = columns(distribution(one, 1_999_500, width=157, height=8), 8)
    place = DurationAxis(500_000, 2_000_000).cell(1_000_000, 150)
    assert axis_of(one, 1_999_500) == DurationAxis(500_000, 2_000_000)
    assert min(high[place:]) > 8


def test_one_late_call_among_a_thousand_million_is_visible() -> None:
    dense = histogram(5_000, times=10**9).dense() + histogram(60_000_000_000).dense()
    lines = distribution(Histograms.from_dense(dense), 60_000_000_000, width=87, height=6)
    high = columns(lines, 6)
    assert max(high) == 48
    assert any(high[-10:])
    assert "1.00G" in texts(lines)[0]
    assert "60.0s" in texts(lines)[-1]


def test_calls_above_the_last_counter_are_shown() -> None:
    one = histogram(HIGHEST_NS, HIGHEST_NS)
    axis = axis_of(one, 400 * 10**9)
    assert axis is not None
    assert (axis.low_ns, axis.high_ns) == (100 * 10**9, 500 * 10**9)
    lines = distribution(one, 400 * 10**9, width=87, height=6)
    assert "max 400s" in texts(lines)[-1]
    assert sum(mark == "▲" for mark in texts(lines)[-2]) == 2


def test_a_given_axis_stays_for_any_calls() -> None:
    wide = axis_of(histogram(1_000, 9_000_000), 9_000_000)
    assert wide == DurationAxis(1_000, 10_000_000)
    assert axis_of(histogram(50_000), 50_000, wide) == wide
    assert axis_of(Histograms.empty(1), 0, wide) == wide
    assert axis_of(Histograms.empty(1), 0) is None
    before = texts(distribution(histogram(50_000), 50_000, width=78, height=6, axis=wide))
    after = texts(distribution(Histograms.empty(1), 0, width=78, height=6, axis=wide))
    assert "no call returned" in "".join(after)
    assert before[6:8] == after[6:8]


@pytest.mark.parametrize("width", [24, 40, 78, 198])
@pytest.mark.parametrize("high", [2, 50, 10**4, 10**9, 10**12])
def test_ticks_do_not_touch(width: int, high: int) -> None:
    lines = distribution(histogram(1), 1, width=width, height=2, axis=DurationAxis(1, high))
    axis, ticks = texts(lines)[2:4]
    assert axis.count("┬") == len(ticks.split())
    assert ticks.split()[0] == "1ns"
