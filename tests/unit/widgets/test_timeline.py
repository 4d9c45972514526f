"""Tests the cells of the timeline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stalltop.model.window_times import WindowTimes
from stalltop.widgets.timeline import Cells, Scale, Timespan, heights, span_text

NONE = 5


def stretch(*windows: tuple[float, float, float, int, int]) -> WindowTimes:
    """Returns the times of windows, given as (start, end, lost ms a second, worst severity, severity of the
    worst chain that began in the window)."""
    table = np.array(windows, np.float64).reshape(-1, 5)
    return WindowTimes(
        table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.int64), table[:, 4].astype(np.int64)
    )


def span(past: WindowTimes, *, end: float = 1_100.0, seconds: float = 100.0) -> Timespan:
    return Timespan(end, seconds, past, None, None, tuple("CHMLi"), ("bad",) * NONE)


def cells(*windows: tuple[float, float, float, int, int], end: float = 1_100.0) -> Cells:
    made = span(stretch(*windows), end=end)
    return Scale(made, 10).fill(made.past, NONE)


def known(found: Cells) -> Sequence[int]:
    return [int(cell) for cell in np.flatnonzero(found.height >= 0)]


def test_a_cell_shows_the_worst_of_its_time() -> None:
    found = cells((1_010, 1_011, 5, 2, NONE), (1_011, 1_012, 500, 1, 3), (1_012, 1_013, 0, NONE, NONE))
    assert known(found) == [1]
    assert (found.height[1], found.worst[1], found.began[1]) == (6, 1, 3)


def test_a_long_window_fills_its_cells_and_begins_in_the_first() -> None:
    found = cells((1_020, 1_050, 2, 0, 0))
    assert known(found) == [2, 3, 4]
    assert found.worst[2:5].tolist() == [0, 0, 0]
    assert found.began.tolist() == [NONE, NONE, 0, *[NONE] * 7]


def test_windows_are_cut_at_the_ends_and_gaps_stay_empty() -> None:
    assert known(cells((900, 1_015, 0, NONE, NONE), (1_090, 1_100, 0, NONE, NONE))) == [0, 1, 9]
    assert known(cells((900, 950, 0, NONE, NONE))) == []
    assert known(cells()) == []


def test_the_timeline_moves_by_whole_cells() -> None:
    windows = [(1_000.0 + at, 1_001.0 + at, float(at), 1, NONE) for at in range(95)]
    one, other = cells(*windows, end=1_091.0), cells(*windows, end=1_095.0)
    assert one.height.tolist() == other.height.tolist()
    moved = cells(*windows, end=1_101.0)
    assert moved.height[:-1].tolist() == one.height[1:].tolist()


def test_times_and_cells_convert_both_ways() -> None:
    scale = Scale(span(stretch()), 10)
    assert [scale.cell(at) for at in (1_000.0, 1_000.5, 1_010.0, 1_010.5, 1_100.0, 1_100.5)] == [
        *(None, 0, 0, 1, 9, None)
    ]
    assert scale.time(0) == pytest.approx(1_005)
    assert scale.time(9) == pytest.approx(1_095)


def test_heights_are_half_decades_of_loss() -> None:
    lost = np.array([0, 0.5, 1, 3.1, 3.2, 10, 31, 100, 320, 999, 1_000, 1e6])
    assert heights(lost).tolist() == [0, 0, 1, 1, 2, 3, 3, 5, 6, 6, 7, 7]


def test_the_length_of_the_timeline_becomes_text() -> None:
    assert [span_text(seconds) for seconds in (300, 900, 3_600, 86_400)] == ["-5m", "-15m", "-1h", "-24h"]
