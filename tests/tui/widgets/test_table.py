"""Tests the table widget: what it draws, on which row its cursor stays, and what it repaints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot

from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.widgets.drawing.palette import palette
from stalltop.widgets.drawing.strips import changed_span, line_of, printable, text_of
from stalltop.widgets.table import Cell, Column, Table, TableData, TableRow

COLUMNS = (
    Column("name", "NAME", 10, right=False, fixed=True),
    Column("a", "A", 6),
    Column("b", "B", 6),
    Column("c", "C", 6),
)


class RecordingTable(Table):
    """A table that records the regions that it asks Textual to repaint."""

    def __init__(self) -> None:
        super().__init__()
        self.regions: list[Region] = []

    def refresh(self, *regions: Region, **rest: Any) -> Any:
        if hasattr(self, "regions"):
            self.regions += regions or [Region(0, 0, 999, 999)]
        return super().refresh(*regions, **rest)


class OneTable(App[None]):
    def compose(self) -> ComposeResult:
        yield RecordingTable()


@asynccontextmanager
async def shown(size: tuple[int, int]) -> AsyncIterator[tuple[Pilot[None], RecordingTable]]:
    app = OneTable()
    async with app.run_test(size=size) as pilot:
        table = app.query_one(RecordingTable)
        table.styles.height = size[1]
        table.focus()
        await pilot.pause()
        yield pilot, table


def data(names: list[str], values: dict[str, int] | None = None, **rest: Any) -> TableData:
    values = values or {}
    rows = tuple(
        TableRow((name,), (Cell(name), Cell(str(values.get(name, 1))), Cell("2"), Cell("3")))
        for name in names
    )
    return TableData((("title", "head"),), COLUMNS, rows, **{"sort": "a", **rest})


def text(table: Table) -> list[str]:
    return [table.render_line(y).text for y in range(table.size.height)]


async def test_cursor_follows_its_row_when_the_order_changes() -> None:
    async with shown((40, 12)) as (_, table):
        table.show(data(["one", "two", "three"]))
        table.action_move(1)
        assert table.cursor_key == ("two",)
        table.show(data(["two", "three", "one"]))
        assert table.cursor_key == ("two",)
        assert text(table)[2].startswith("▸two")
        table.show(data(["three", "one"]))
        assert table.cursor_key in {("three",), ("one",)}
        table.show(data(["three", "one", "two"]))
        assert table.cursor_key == ("two",)


async def test_a_cursor_that_was_never_moved_stays_on_top() -> None:
    async with shown((40, 12)) as (_, table):
        table.show(data(["one", "two"]))
        table.show(data(["two", "one"]))
        assert table.cursor_key == ("two",)


async def test_a_table_without_focus_marks_its_row_with_a_dot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown((40, 12)) as (pilot, table):
        table.show(data(["one", "two"]))
        table.put_cursor(("two",))
        for glyphs, arrow, dot in ((UNICODE, "▸", "·"), (ASCII, ">", ".")):
            monkeypatch.setattr(Table, "glyphs", glyphs)
            table.focus()
            await pilot.pause()
            table.redraw()
            assert text(table)[3].startswith(f"{arrow}two")
            table.screen.set_focus(None)
            await pilot.pause()
            assert text(table)[3].startswith(f"{dot}two")


async def test_scrolling_keeps_the_cursor_in_view_and_shows_the_position() -> None:
    names = [f"row{number:02}" for number in range(50)]
    async with shown((40, 12)) as (pilot, table):
        table.show(data(names))
        table.action_end(1)
        lines = text(table)
        assert lines[-1].startswith("▸row49")
        assert "41-50 of 50" in lines[0]
        table.action_page(-1)
        assert any(line.startswith("▸row39") for line in text(table))
        table.action_end(-1)
        assert "1-10 of 50" in text(table)[0]
        await pilot.resize_terminal(40, 6)
        await pilot.pause()
        table.action_move(3)
        assert any(line.startswith("▸row03") for line in text(table)[:6])


async def test_only_cells_that_differ_are_painted() -> None:
    names = ["one", "two", "three", "four"]
    async with shown((40, 12)) as (_, table):
        table.show(data(names))
        table.regions.clear()
        table.show(data(names))
        assert table.regions == []
        table.show(data(names, {"three": 7}))
        assert [(region.y, region.height) for region in table.regions] == [(4, 1)]
        assert table.regions[0].width == 1


async def test_columns_scroll_sideways_beside_the_fixed_first_one() -> None:
    async with shown((26, 8)) as (_, table):
        table.show(data(["one"]))
        head = text(table)[1]
        assert head.rstrip().endswith("›")
        assert "A" in head
        assert "C" not in head
        for _ in range(9):
            table.action_sideways(1)
        head = text(table)[1]
        assert head.startswith("‹NAME")
        assert "C" in head
        assert "›" not in head
        table.action_sideways(-1)
        table.action_sideways(-1)
        assert "A" in text(table)[1]


async def test_sorting_scrolls_to_the_column_and_leaves_room_for_its_mark() -> None:
    async with shown((26, 8)) as (_, table):
        table.show(data(["one"], sort="a"))
        assert "C" not in text(table)[1]
        table.show(data(["one"], sort="c"))
        assert "▼C" in text(table)[1]
        table.action_sideways(-1)
        table.show(data(["one"], sort="c"))
        assert "▼C" not in text(table)[1], "the table scrolls back only when another column sorts it"
        table.show(data(["one"], sort="a"))
        assert "▼A" in text(table)[1]
        table.data = replace(table.data, columns=(COLUMNS[0], Column("a", "CALL/S", 6), COLUMNS[2]))
        assert "NAME      ▼CALL/S" in text_of(table.lines(26, 8, palette(table.app))[1])


async def test_control_characters_are_replaced_and_wide_names_keep_columns_aligned() -> None:
    async with shown((40, 8)) as (_, table):
        table.show(data(["\x1b[31mred\x07", "日本語の長い名前です", "[bold]x[/bold]"]))
        lines = text(table)
        assert "\x1b" not in "".join(lines)
        assert "[bold]" in lines[4]
        assert {table.render_line(y).cell_length for y in range(8)} == {40}


async def test_an_empty_table_says_why_and_a_click_moves_the_cursor() -> None:
    async with shown((40, 8)) as (pilot, table):
        table.show(data([], empty=("nothing there", "try this")))
        assert "nothing there" in text(table)[3]
        table.show(data(["one", "two"]))
        await pilot.click(RecordingTable, offset=(3, 3))
        await pilot.pause()
        assert table.cursor_key == ("two",)


async def test_without_unicode_everything_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "glyphs", ASCII)
    async with shown((26, 8)) as (_, table):
        table.show(data(["a name that is too long", "ünïcode"]))
        table.action_sideways(1)
        lines = text(table)
        assert "".join(lines[1:2]).isascii()
        assert lines[2].isascii()


def test_changed_span_is_where_lines_differ() -> None:
    old = line_of([("same 12 same", None)], 20)
    assert changed_span(old, line_of([("same 12 same", None)], 20)) is None
    assert changed_span(old, line_of([("same 34 same", None)], 20)) == (5, 7)
    assert changed_span(old, line_of([("same 12 same", None)], 21)) == (0, 21)


def test_printable_keeps_text_and_replaces_control_characters() -> None:
    assert printable("plain é 日本") == "plain é 日本"
    assert printable("a\x1b[2Jb\u202ec\n") == "a?[2Jb?c?"


async def test_a_long_name_with_a_pid_is_cut_in_the_middle_and_may_have_two_marks() -> None:
    name = "python3 serve.py 4237"
    columns = (replace(COLUMNS[0], ends_differ=True), *COLUMNS[1:])
    cells = (Cell(name), Cell("1"), Cell("2"), Cell("3"))
    row = TableRow((name,), cells, mark=Cell("H", "bad"), second_mark=Cell("<", "accent"))
    async with shown((32, 4)) as (_, table):
        table.show(TableData((("title", "head"),), columns, (row,)))
        assert text(table)[2].rstrip() == "▸pyth…e.py 4237 H<     1      2"
        table.show(TableData((("title", "head"),), COLUMNS, (replace(row, second_mark=None),)))
        assert text(table)[2].rstrip() == "▸python3 serve… H      1      2"
