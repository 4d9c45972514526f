"""Tests that the brightness of a duration follows its unit."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stalltop.model.text import figures
from stalltop.widgets.drawing.magnitude import brightness


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
