"""Tests the layout of the main screen for many sizes and contents: which panels use which lines, and that no
line is left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from stalltop.tui.main.layout import Needs, ScreenLayout, layout
from stalltop.tui.screens.steady import LOOKS, Steady
from stalltop.tui.settings.settings import PANELS
from stalltop.tui.tables.sizes import (
    DETAIL,
    HEADS,
    LEAST_GRAPH,
    LEAST_TABLE,
    NO_TABLE,
    DetailNeeds,
    PanelPlace,
    Room,
    TableNeeds,
    divide,
)

WIDTHS = (40, 60, 80, 99, 100, 120, 159, 160, 200, 300)
HEIGHTS = (8, 11, 12, 16, 20, 24, 29, 30, 34, 40, 50, 60, 100)
CONTENTS = ((1, 3, 2), (4, 61, 6), (40, 61, 90), (61, 4, 6), (4, 9, 1), (0, 0, 0))


def needs(*rows: int, graphs: int = 3, devices: int = 2, warnings: int = 7) -> Needs:
    first, second, third = [*map(TableNeeds, rows), NO_TABLE, NO_TABLE][:3]
    return Needs(devices=devices, warnings=warnings, tables=(first, second, third), graphs=graphs)


def place(found: ScreenLayout, name: str) -> PanelPlace:
    return next(one for one in found.tables.places if one.name == name)


def rows_of(found: ScreenLayout, name: str) -> int:
    """Return how many rows a table shows."""
    one = place(found, name)
    return one.height - HEADS - one.frame.bottom


def empty(found: ScreenLayout, wanted: Needs) -> dict[str, int]:
    """Return, for each table, the number of its lines less the number of its rows."""
    names = ("main", "second", "third")
    shown = {one.name for one in found.tables.places}
    return {
        name: rows_of(found, name) - need.rows
        for name, need in zip(names, wanted.tables, strict=True)
        if name in shown
    }


@pytest.mark.parametrize("rows", CONTENTS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_heights_add_up_to_the_height_of_the_terminal(width: int, rows: tuple[int, ...]) -> None:
    for height, graphs, plain, many in product(HEIGHTS, (0, 1, 3), (False, True), (0, 16)):
        wanted = needs(*rows, graphs=graphs, devices=many)
        found = layout(width, height, PANELS, "", wanted, plain=plain)
        about = (width, height, rows, graphs, plain)
        assert found.lines == height, about
        covered = [[0] * width for _ in range(found.room)]
        for one in found.tables.places:
            assert one.height >= 1 <= one.width, about
            assert one.frame.top or plain, about
            for y in range(one.y, one.y + one.height):
                for x in range(one.x, one.x + one.width):
                    covered[y][x] += 1
        assert all(cell == 1 for line in covered for cell in line), about


@pytest.mark.parametrize("rows", CONTENTS, ids=str)
def test_no_line_is_empty_that_a_graph_could_fill(rows: tuple[int, ...]) -> None:
    for width, height in product(WIDTHS, HEIGHTS):
        wanted = needs(*rows)
        found = layout(width, height, PANELS, "", wanted)
        graphs = [one for one in found.tables.places if one.name.startswith("graph")]
        assert all(one.height >= LEAST_GRAPH for one in graphs), (width, height)
        # A table has at least three rows, even if it fills fewer.
        assert max(empty(found, wanted).values(), default=0) < LEAST_GRAPH + 3, (width, height)


def test_operations_stand_below_containers_on_80x24() -> None:
    found = layout(80, 24, PANELS, "", needs(4, 61, 6))
    assert (rows_of(found, "main"), rows_of(found, "second")) == (4, 8)
    assert found.frames == "rule"
    assert found.devices == 2
    assert found.answer == 2
    assert not any(one.frame.sides or one.frame.bottom for one in found.tables.places)


@pytest.mark.parametrize("height", [30, 34, 40])
def test_containers_operations_and_devices_on_120_columns(height: int) -> None:
    found = layout(120, height, PANELS, "", needs(4, 61, 6))
    assert rows_of(found, "main") == 4
    assert rows_of(found, "second") >= 8
    assert found.devices - found.devices_frame.lines == 2
    assert found.frames == "box"
    graphs = [one for one in found.tables.places if one.name.startswith("graph")]
    assert len(graphs) == (3 if height == 40 else 0)


def test_200x60_with_four_containers_has_no_empty_third() -> None:
    wanted = needs(4, 61, 6)
    found = layout(200, 60, PANELS, "", wanted)
    assert empty(found, wanted)["main"] == empty(found, wanted)["third"] == 0
    assert {one.name for one in found.tables.places} == {
        *("main", "second", "third", "graph1", "graph2", "graph3")
    }
    assert all(place(found, f"graph{number}").x == 0 for number in (1, 2, 3))


def test_few_rows_leave_room_for_graphs_below_both_columns() -> None:
    found = layout(200, 60, PANELS, "", needs(14, 29))
    below = [one for one in found.tables.places if one.name.startswith("graph")]
    assert len(below) == 3
    band = [one for one in below if one.y + one.height == found.room]
    assert sum(one.width for one in band) == 200
    beside = next(one for one in below if one not in band)
    assert (beside.x, beside.y + beside.height) == (0, band[0].y)


def test_tables_that_fit_are_as_wide_as_the_terminal() -> None:
    found = layout(200, 60, PANELS, "", needs(4, 9))
    assert not found.beside
    assert [place(found, name).width for name in ("main", "second")] == [200, 200]
    assert place(found, "main").y < place(found, "second").y < place(found, "graph1").y
    assert found.lines == 60


def test_lines_that_neither_tables_nor_graphs_fill_show_problems() -> None:
    few = layout(80, 24, PANELS, "", replace(needs(3, 5), warnings=9))
    many = layout(80, 24, PANELS, "", replace(needs(30, 90), warnings=9))
    assert few.warnings > many.warnings
    assert few.lines == many.lines == 24


@pytest.mark.parametrize(
    ("share", "rows", "wanted"),
    [(50, (60, 60), (8, 8)), (30, (60, 60), (5, 11)), (50, (3, 60), (5, 11)), (50, (60, 2), (12, 4))],
)
def test_a_table_gets_the_lines_that_a_short_other_one_does_not_need(
    share: int, rows: Sequence[int], wanted: tuple[int, int]
) -> None:
    found = layout(80, 24, PANELS, "", needs(*rows), share=share)
    assert found.room == 16
    assert (place(found, "main").height, place(found, "second").height) == wanted


def test_a_table_without_room_for_three_rows_is_not_shown() -> None:
    both = (TableNeeds(60), TableNeeds(60))
    assert [one.name for one in divide(Room(80, 2 * LEAST_TABLE, "rule"), both, 0)] == ["main", "second"]
    assert [one.name for one in divide(Room(80, 2 * LEAST_TABLE - 1, "rule"), both, 0)] == ["main"]


def test_boxes_above_each_other_share_a_line_and_others_do_not() -> None:
    stacked = layout(120, 40, PANELS, "", needs(4, 9, graphs=0))
    assert stacked.warnings_frame.bottom is False
    assert [one.frame.top for one in stacked.tables.places] == ["tee", "tee"]
    assert [one.frame.bottom for one in stacked.tables.places] == [False, True]
    beside = layout(200, 40, PANELS, "", needs(4, 40, graphs=0))
    assert beside.warnings_frame.bottom is True
    assert [one.frame.top for one in beside.tables.places] == ["corner", "corner"]
    alone = layout(120, 40, ("devices", "table"), "", needs(4, 9, graphs=0))
    assert (alone.devices_frame.top, place(alone, "main").frame.top) == ("corner", "tee")


def test_plain_panels_have_no_frames() -> None:
    found = layout(200, 60, PANELS, "", needs(4, 61, 6), plain=True)
    assert not found.host_frame.lines
    assert not found.warnings_frame.lines
    assert {one.frame.top for one in found.tables.places} == {"", "blank"}


def test_an_enlarged_panel_takes_the_room_of_all_others() -> None:
    tables = layout(120, 40, PANELS, "tables", needs(4, 61, 6))
    assert [one.name for one in tables.tables.places] == ["main"]
    assert tables.lines == 40
    warnings = layout(120, 40, PANELS, "warnings", needs(4, 61, 6))
    assert warnings.lines == 40
    assert warnings.warnings == 37  # the header, the answer and the line of keys take the others
    assert not warnings.tables.places


def test_the_list_of_problems_grows_while_it_has_the_focus() -> None:
    idle, read = needs(4, 61), replace(needs(4, 61, warnings=14), reading=True)
    assert layout(80, 24, PANELS, "", idle).warnings == 1
    assert layout(80, 24, PANELS, "", read).warnings == 8
    assert layout(80, 24, PANELS, "", read).lines == 24
    assert layout(80, 24, PANELS, "", needs(4, 61, warnings=0)).warnings == 0


def test_a_message_and_the_time_line_take_a_line_each() -> None:
    panels = set(PANELS) - {"keys"}
    one, other = Needs(keys=True), Needs(timeline="needed")
    assert layout(80, 24, panels).keys == 0
    assert layout(80, 24, panels, "", one).keys == layout(80, 24, panels, "", other).timeline == 1
    assert layout(200, 60, panels, "", Needs(timeline="")).timeline == 0
    assert layout(200, 60, panels).timeline == 1


def test_a_panel_grows_at_once_and_shrinks_after_some_time() -> None:
    steady = Steady()
    assert [steady.need(lines, at) for at, lines in enumerate([4, 6, 3])] == [4, 6, 6]
    assert steady.need(2, 2) == 6, "a second look at the same window"
    found = [steady.need(3, at) for at in range(3, 3 + LOOKS)]
    assert found[LOOKS - 3] == 6
    assert found[-1] == 3
    steady.need(9, "x")
    steady.forget()
    assert steady.need(1, "y") == 1


@pytest.mark.parametrize(
    ("width", "height", "shown"),
    [
        (80, 7, {DETAIL}),
        (120, 7, {DETAIL, "graph1"}),
        (120, 16, {DETAIL, "graph1", "graph2", "graph3"}),
        (200, 7, {DETAIL, "graph1", "graph2"}),
        (200, 22, {DETAIL, "graph1", "graph2", "graph3"}),
        (120, 4, set()),
    ],
)
def test_the_detail_of_the_first_problem_keeps_half_of_the_width(
    width: int, height: int, shown: set[str]
) -> None:
    room = Room(width, HEADS + 3 + height, "rule", detail=DetailNeeds(True, whole=4))
    places = divide(room, (TableNeeds(3),), 3)
    below = [place for place in places if place.name != "main"]
    assert {place.name for place in below} == shown
    assert sum(place.width * place.height for place in below) == (width * height if shown else 0)
    assert all(place.width >= width // 2 for place in below if place.name == DETAIL)


@pytest.mark.parametrize(("width", "height"), [(100, 36), (120, 40), (160, 40), (200, 40), (200, 60)])
def test_a_chain_is_whole_and_the_tables_give_it_their_lines(width: int, height: int) -> None:
    wanted = replace(needs(12, 20, 12, warnings=2), detail=DetailNeeds(True, whole=14, chain=8))
    found = layout(width, height, PANELS, "", wanted)
    one = place(found, DETAIL)
    assert one.height - one.frame.lines >= 8
    assert rows_of(found, "main") >= 4
    assert rows_of(found, "second") >= 4
