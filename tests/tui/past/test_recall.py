"""Tests the functions that move through the past and lay out the timeline."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from stalltop.model.chain import SEVERITIES
from stalltop.model.text.glyphs import ASCII
from stalltop.model.window_times import WindowTimes
from stalltop.tui.past import recall
from stalltop.tui.past.recall import (
    SPANS,
    hole_at,
    moved,
    named,
    nearest,
    next_fault,
    next_span,
    played,
    stepped,
    timespan,
)
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import text_of
from stalltop.widgets.timeline import Scale, Timeline, span_text

NONE = len(SEVERITIES)


def past(*starts: float, seconds: float = 1.0, began: dict[int, int] | None = None) -> WindowTimes:
    """Return the times of windows that start at ``starts`` and last ``seconds`` each.

    ``began`` maps the index of a window to the severity of a chain that begins in that window.
    """
    start = np.array(starts, np.float64)
    return WindowTimes(
        start=start,
        end=start + seconds,
        lost_ms_per_s=np.full(len(start), 50.0),
        worst=np.full(len(start), NONE),
        began=np.array([(began or {}).get(at, NONE) for at in range(len(start))]),
    )


HOLED = past(*range(1_000, 1_010), *range(2_000, 2_010), began={3: 0, 12: 2})


def test_steps_and_jumps_end_at_windows() -> None:
    assert (stepped(HOLED, 1_001.0, -1), stepped(HOLED, 1_001.0, 1)) == (None, 1_002.0)
    assert (stepped(HOLED, 1_010.0, 1), stepped(HOLED, 2_010.0, 1)) == (2_001.0, None)
    assert nearest(HOLED, 1_400.0) == 1_010.0
    assert (moved(HOLED, 2_005.0, -60.0), moved(HOLED, 2_005.0, 60.0)) == (2_001.0, None)
    assert next_fault(HOLED, 2_010.0, -1) == (2_003.0, "medium")
    assert next_fault(HOLED, 2_003.0, -1) == (1_004.0, "critical")
    assert next_fault(HOLED, 1_004.0, -1) is None
    assert next_fault(HOLED, 1_004.0, 1) == (2_003.0, "medium")
    assert hole_at(HOLED, 1_500.0) == (1_010.0, 2_000.0)
    assert [hole_at(HOLED, at) for at in (900.0, 1_005.5, 2_001.0, 3_000.0)] == [None] * 4


@pytest.mark.parametrize("fraction", [0.0, 0.02, 0.5, 0.7, 0.98])
def test_the_screen_shows_the_second_that_was_typed(fraction: float) -> None:
    stretch = past(*np.arange(1_000.0 + fraction, 1_010.0))
    assert [int(named(stretch, at)) for at in (1_003.0, 1_004.0, 1_005.0)] == [1_003, 1_004, 1_005]
    minutes = past(0.0, 60.0, 120.0, seconds=60.0)
    assert [named(minutes, at) for at in (0.0, 89.0, 91.0, 500.0)] == [60.0, 60.0, 120.0, 180.0]
    assert named(stretch, 1_003.4 + fraction) == pytest.approx(1_003 + fraction)


def test_playing_stands_still_within_a_window_and_skips_gaps() -> None:
    minutes = past(0.0, 60.0, 120.0, seconds=60.0)
    assert played(minutes, 60.0, 119.0) == (60.0, 119.0)
    assert played(minutes, 60.0, 120.0) == (120.0, 120.0)
    assert played(minutes, 60.0, 600.0) == (180.0, 600.0)
    assert played(minutes, 180.0, 600.0) is None
    assert played(HOLED, 1_010.0, 1_010.5) == (2_001.0, 2_001.0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20, unique=True), st.floats(0.1, 600.0))
def test_playing_always_reaches_the_end(starts: list[float], step: float) -> None:
    stretch = past(*sorted(starts), seconds=1e-2)
    at = clock = float(stretch.end[0])
    for _ in range(int((stretch.end[-1] - at) / step) + 2 * len(starts) + 2):
        found = played(stretch, at, clock + step)
        if found is None:
            break
        assert found[0] >= at
        assert found[1] > clock
        at, clock = found
    assert at == stretch.end[-1]


def test_the_timeline_of_a_file_covers_all_of_it_and_can_be_shortened() -> None:
    week = past(*np.arange(0.0, 7 * 86_400.0, 600.0), seconds=600.0)
    spans: list[float] = []
    while (span := next_span(week, spans[-1] if spans else None)) is not None:
        spans.append(span)
    assert spans == [one for one in reversed(SPANS) if one < 7 * 86_400.0]
    assert timespan(week, None, None, all_of_it=True).seconds == pytest.approx(7 * 86_400.0, rel=0.05)
    assert timespan(week, None, None).seconds == 300.0
    shown = float(week.end[300])
    for span in spans:
        line = timespan(week, shown, None, span, all_of_it=True)
        assert line.seconds == span
        assert line.end - span < shown <= line.end
        assert line.ago == pytest.approx(week.end[-1] - line.end)
        assert len(line.past.end) <= span / 600.0 + 2
        assert Scale(line, 60).cell(shown) is not None
    assert timespan(week, float(week.end[-2]), None, 3_600.0).ago == 0.0


@pytest.mark.parametrize(
    ("recorded", "seconds", "label"),
    [
        (5, 10, "-10s"),
        (20, 30, "-30s"),
        (45, 60, "-1m"),
        (99, 120, "-2m"),
        (170, 180, "-3m"),
        (280, 300, "-5m"),
        (300, 310, "-5m"),
    ],
)
def test_the_timeline_of_a_short_file_fits_its_length(recorded: int, seconds: float, label: str) -> None:
    line = timespan(past(*np.arange(1e9, 1e9 + recorded)), None, None, all_of_it=True)
    assert (line.seconds, span_text(line.seconds)) == (seconds, label)


@given(st.floats(1.0, 1e8), st.floats(0.0, 1.0))
def test_the_moment_shown_is_always_on_the_timeline(length: float, part: float) -> None:
    stretch = past(*np.linspace(1e9, 1e9 + length, 50))
    shown = float(stretch.end[int(part * 49)])
    for span in (None, *SPANS):
        line = timespan(stretch, shown, None, span, all_of_it=True)
        assert Scale(line, 60).cell(shown) is not None, span


def test_spans_of_time_take_at_most_four_cells() -> None:
    known = {
        5: "-5s",
        59.4: "-59s",
        59.6: "-1m",
        60: "-1m",
        3_540: "-59m",
        3_600: "-1h",
        172_799: "-48h",
        172_800: "-2d",
        99 * 86_400: "-99d",
    }
    assert {seconds: span_text(seconds) for seconds in known} == known
    assert all(one < other for one, other in pairwise(recall.SPANS))


@pytest.mark.parametrize(
    ("began", "letters"),
    [
        ({10: 0, 20: 3}, "CL"),
        (dict.fromkeys(range(60), 3) | {30: 0}, "C"),
        (dict.fromkeys(range(60), 0), ""),
    ],
)
def test_letters_never_hide_the_bars(
    began: dict[int, int], letters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Timeline, "glyphs", ASCII)
    line = Timeline("t")
    line.show(timespan(past(*range(1_000, 1_300, 5), seconds=5.0, began=began), None, None))
    plain = Style()
    (drawn,) = line.lines(86, 1, Palette(**dict.fromkeys(Palette.__dataclass_fields__, plain)))
    assert "".join(one for one in text_of(drawn)[21:-5] if one.isalpha()) == letters
