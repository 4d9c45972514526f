"""Tests that the brightness of a duration follows its unit."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stalltop.model.text import figures
from stalltop.widgets.drawing.magnitude import brightness, coarser


@given(st.one_of(st.integers(0, 10**14), st.floats(0, 2e9)))
@example(999_499)
@example(999_500)
@example(999_499_999)
@example(999_500_000)
def test_brightness_changes_where_the_unit_does(ns: float) -> None:
    text = figures.duration(ns)
    wanted = "dim" if text.endswith(("ns", "µs")) else "text" if text.endswith("ms") else "bright"
    assert brightness(ns) == wanted


@pytest.mark.parametrize("ns", [None, math.nan])
def test_an_unknown_duration_is_dim(ns: float | None) -> None:
    assert brightness(ns) == "dim"


@pytest.mark.parametrize(
    ("figure", "shorter"),
    [
        ("87.6ms", "88ms"),
        ("1.64s", "1.6s"),
        ("9.96µs", "10.0µs"),
        ("128ms", "128ms"),
        ("1m40s", "1m40s"),
        ("-", "-"),
    ],
)
def test_a_coarser_figure_has_one_decimal_less(figure: str, shorter: str) -> None:
    assert coarser(figure) == shorter
