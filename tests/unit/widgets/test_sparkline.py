"""Tests sparklines: figures as one line of characters."""

from __future__ import annotations

from stalltop.model.text.glyphs import ASCII
from stalltop.widgets.drawing.sparkline import sparkline


def test_each_value_is_one_character_of_its_height() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇██"
    assert sparkline([0, 50, 100, 150], high=100) == "▁▅██"
    assert sparkline([5, 10], low=5) == "▁█"


def test_unknown_values_are_gaps() -> None:
    assert sparkline([0, None, 8, float("nan")]) == "▁ █ "
    assert sparkline([]) == ""
    assert sparkline([None]) == " "


def test_zeros_lie_at_the_bottom() -> None:
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 0], glyphs=ASCII) == "__"


def test_ascii_characters_are_used_on_request() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], glyphs=ASCII) == "_.:-=+*#"
