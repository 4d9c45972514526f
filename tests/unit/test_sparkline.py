"""Figures as one line of characters."""

from __future__ import annotations

from stalltop.widgets.sparkline import sparkline


def test_each_value_is_one_character_by_its_height() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7, 8]) == "▁▂▃▄▅▆▇██"
    assert sparkline([0, 50, 100, 150], high=100) == "▁▅██"
    assert sparkline([5, 10], low=5) == "▁█"


def test_what_is_not_known_is_a_gap() -> None:
    assert sparkline([0, None, 8, float("nan")]) == "▁ █ "
    assert sparkline([]) == ""
    assert sparkline([None]) == " "


def test_nothing_but_zeros_lies_at_the_bottom() -> None:
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 0], unicode=False) == "__"


def test_ascii() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], unicode=False) == "_.:-=+*#"
