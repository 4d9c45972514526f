"""Tests how a graph is drawn: braille patterns, blocks and ASCII, the scale, and the marked moment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rich.style import Style

from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.widgets.drawing.palette import ROLES, Palette
from stalltop.widgets.drawing.strips import text_of
from stalltop.widgets.graph import AXIS, Graph, GraphData, area, columns, shades

BLOCKS = replace(UNICODE, braille=False)
PLAIN = Palette(*(Style() for _ in ROLES))


@pytest.mark.parametrize(
    ("values", "glyphs", "drawn"),
    [
        ([0, 25, 50, 100], UNICODE, [" ⢸", "⣠⣿"]),
        ([float("nan"), 0], UNICODE, [" ", "⢀"]),
        ([100, 100], BLOCKS, ["██", "██"]),
        ([50, float("nan"), 0], BLOCKS, ["   ", "█ ▁"]),
        ([100, 50, 0], ASCII, ["#  ", "##."]),
    ],
)
def test_an_area_fills_the_cells_below_its_values(
    values: list[float], glyphs: Glyphs, drawn: list[str]
) -> None:
    found = area(np.array(values, float), 2, 100.0, glyphs)
    assert [line.rstrip() for line in found] == [line.rstrip() for line in drawn]


def test_braille_has_two_columns_in_a_cell_and_blocks_one() -> None:
    assert columns(40, UNICODE) == 2 * (40 - AXIS)
    assert columns(40, BLOCKS) == 40 - AXIS
    assert columns(10, BLOCKS) == 10, "a narrow graph has no scale"


def test_values_above_the_scale_and_a_scale_of_zero_are_drawn() -> None:
    assert area(np.array([500.0, 500.0]), 1, 100.0) == ["⣿"]
    assert area(np.array([0.0, 0.0]), 1, 0.0) == ["⣀"]


def test_the_colours_of_lines_fade_towards_the_background_only_where_they_are_known() -> None:
    full, ground = Style(color="#ffffff"), Style(bgcolor="#000000")
    found = shades(full, ground, 3)
    assert found[0].color == full.color
    assert len({str(style.color) for style in found}) == 3
    assert shades(Style(color="blue"), Style(), 3) == (Style(color="blue"),) * 3


def drawn(data: GraphData, width: int, height: int) -> list[str]:
    class Alone(Graph):
        glyphs = UNICODE

    graph = Alone()
    graph._data = data
    return [text_of(line) for line in graph.lines(width, height, PLAIN)]


def data(values: list[float], **more: object) -> GraphData:
    return GraphData("CPU", "50%", np.array(values, float), 100.0, "100%", "-5m", **more)  # type: ignore[arg-type]


def test_a_graph_has_its_scale_at_the_left_and_its_newest_value_at_the_right() -> None:
    assert drawn(data([100.0, 100.0]), 30, 3) == [
        "   100%┤" + " " * 21 + "⣿",
        "       │" + " " * 21 + "⣿",
        "      0┤" + " " * 21 + "⣿",
    ]


def test_the_moment_on_the_screen_is_marked() -> None:
    values = [float("nan")] * 42 + [100.0] * 2
    top = drawn(data(values, shown=40), 30, 2)[0]
    assert top[AXIS + 20] == UNICODE.instant
    assert drawn(data(values, shown=43), 30, 2)[0][-1] == "⣿"
    assert UNICODE.instant not in "".join(drawn(data(values, shown=-3), 30, 2))
