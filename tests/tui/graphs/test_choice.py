"""Tests which figures graphs show, and how their values are put into columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stalltop.diagnosis.causes import CAUSES
from stalltop.model.merge.packing import Packed, pack
from stalltop.model.text.glyphs import UNICODE
from stalltop.tui.graphs.choice import HELD_SECONDS, OF_CAUSE, HeldChoice, chosen, figures_for, toggled
from stalltop.tui.graphs.course import GraphAxis, PastValues, axis_of, spread, within
from stalltop.tui.graphs.figures import BY_ID, EVERYTHING, FIGURES, IDS, MOST, Subject, high_of
from stalltop.tui.settings.settings import AUTO, GRAPHS, NONE
from stalltop.tui.views.outermost import calls_per_s
from stalltop.tui.views.path import PathStep
from tests.tui.faults import chain
from tests.tui.sources import numbered


def test_the_settings_name_all_figures() -> None:
    assert IDS == GRAPHS


def test_each_cause_that_has_figures_of_its_own_exists() -> None:
    assert set(OF_CAUSE) <= set(CAUSES)
    assert {name for names in OF_CAUSE.values() for name in names} <= set(IDS)


@pytest.mark.parametrize(
    ("cause", "first"),
    [
        ("gpu_thermal", ("problems", "clocks", "power")),
        ("cpu_contention", ("problems", "run_queue", "p99")),
        ("slow_disk", ("problems", "disk", "disk_bytes")),
        ("nccl_straggler", ("problems", "late_rank", "p99")),
        ("small_collectives", ("problems", "p99", "calls")),
        ("", ("gpu", "calls", "cpu")),
    ],
)
def test_the_worst_problem_chooses_the_figures(cause: str, first: tuple[str, ...]) -> None:
    worst = replace(chain("one"), cause=cause) if cause else None
    assert chosen((AUTO,), worst, lambda name: True) == first
    assert len(figures_for(worst)) > MOST


def test_figures_that_are_not_known_are_replaced() -> None:
    known = {"problems", "cpu", "calls", "run_queue"}
    thermal = replace(chain("one"), cause="gpu_thermal")
    assert chosen((AUTO,), thermal, known.__contains__) == ("problems", "calls", "cpu")
    assert chosen((AUTO,), None, lambda name: False) == ()


def test_the_user_chooses_up_to_three_figures_or_none() -> None:
    assert chosen((NONE,), None, lambda name: True) == ()
    assert chosen(("cpu", "problems"), None, lambda name: False) == ("problems", "cpu")
    assert toggled((AUTO,), "cpu") == ("cpu",)
    assert toggled(("cpu",), "cpu") == (NONE,)
    assert toggled(("cpu", "gpu", "disk"), "p99") == ("gpu", "disk", "p99")
    assert toggled(("cpu", "gpu"), AUTO) == (AUTO,)
    assert toggled(("cpu", "gpu"), NONE) == (NONE,)


def test_a_choice_stays_for_some_seconds() -> None:
    one, other = chain("one"), chain("other")
    held = HeldChoice()
    assert held.hold(None, 0.0) is None
    assert held.hold(one, 1.0) is one, "a problem after none is shown at once"
    assert held.hold(other, 2.0) is one
    assert held.hold(None, 1.0 + HELD_SECONDS - 0.1) is one
    assert held.hold(other, 2.0, live=False) is other, "another moment is shown at once"
    assert held.hold(None, 2.0 + HELD_SECONDS) is None


@pytest.mark.parametrize(
    ("value", "least", "high"),
    [(0, 10, 10), (11, 10, 20), (99, 1, 100), (100, 1, 100), (101, 1, 200), (0.3, 0.1, 0.5)],
)
def test_a_scale_ends_at_a_round_number(value: float, least: float, high: float) -> None:
    assert high_of(value, least) == pytest.approx(high)


def parts(count: int, seconds: float = 1.0) -> list[Packed]:
    return [pack(numbered(number, seconds)) for number in range(count)]


def test_the_first_seconds_of_a_graph_come_from_the_right_and_seldom_change_its_scale() -> None:
    few = parts(3)
    axis = axis_of(few, 20)
    assert [axis.column(part.window.end) for part in few] == [15, 17, 19], "two columns a second"
    known = (1, 3, 10, 11, 30, 50, 60, 119)
    seconds = [axis_of(parts(number), 20).seconds for number in known]
    assert seconds == pytest.approx([10, 10, 10, 15, 30, 60, 60, 120])


def test_columns_begin_at_whole_multiples_of_their_length_once_they_are_full() -> None:
    many = parts(40, 10.0)
    axis = axis_of(many, 12)
    assert axis.step == 30
    assert axis.start % 30 == 0
    assert axis.column(many[-1].window.end) == 11
    inside = within(many, axis)
    assert inside[0].window.end > axis.start >= inside[0].window.start - 10


def test_a_column_has_the_mean_or_the_peak_of_its_windows() -> None:
    ends = np.array([1.0, 2.0, 3.0, 4.0])
    values = np.array([10.0, 30.0, np.nan, 8.0])
    axis = GraphAxis(-2.0, 2, 3)
    mean, peak = (spread(ends, ends - 1.0, values, axis, peak=one) for one in (False, True))
    assert mean.tolist()[1:] == [20.0, 8.0]
    assert peak.tolist()[1:] == [30.0, 8.0]
    assert np.isnan(mean[0])


def test_a_long_window_fills_all_its_columns() -> None:
    found = spread(np.array([6.0]), np.array([0.0]), np.array([5.0]), GraphAxis(-2.0, 2, 4), peak=True)
    assert np.isnan(found[0])
    assert found.tolist()[1:] == [5.0, 5.0, 5.0]


def test_each_figure_has_a_value_a_text_and_an_end_of_its_scale() -> None:
    (part,) = parts(1)
    window = part.window
    row = Subject(path=(PathStep("operation", part.keys[0].operation, ""),))
    for figure in FIGURES:
        value = figure.value(part, row if figure.of == "row" else EVERYTHING)
        assert len(figure.text(value, UNICODE)) <= 7, figure.id
        assert figure.value(part, EVERYTHING) is None or figure.id != "p99"
    assert BY_ID["calls"].value(part, EVERYTHING) == pytest.approx(calls_per_s(part.unpack()))
    assert BY_ID["gpu"].value(part, EVERYTHING) == window.devices.devices[0].utilization_percent
    assert BY_ID["gpu_memory"].end(part, EVERYTHING) == window.devices.devices[0].memory_total_bytes
    assert BY_ID["gpu"].value(part, Subject(device="no such GPU")) is None


def test_the_value_of_a_window_is_computed_once() -> None:
    asked: list[float] = []

    def value(part: Packed, subject: Subject) -> float:
        asked.append(part.window.end)
        return 1.0

    windows = parts(5)
    course = PastValues(replace(BY_ID["cpu"], value=value), EVERYTHING)
    assert course.values(windows).tolist() == [1.0] * 5
    course.values(windows)
    assert asked == [part.window.end for part in windows]


def test_values_that_take_long_are_computed_for_the_newest_windows_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    windows = parts(4)
    monkeypatch.setattr("stalltop.tui.graphs.course.ROWS_AT_ONCE", 2 * (len(windows[0].keys) + 1))
    course = PastValues(replace(BY_ID["p99"], value=lambda part, subject: 7.0), EVERYTHING)
    assert np.isnan(course.values(windows)).tolist() == [True, True, False, False]
    assert course.values(windows).tolist() == [7.0] * 4
