"""Tests the bars of splits: their lengths, their letters, and the legend."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.model.window import PARTS, SPLITS
from stalltop.tui.columns.catalogue import MOST_SPLIT_CELLS, SPLIT_CELLS
from stalltop.tui.columns.split import bar, cells, legend, piece
from stalltop.tui.tables.table import table
from stalltop.tui.views.view import View
from tests.windows.full import full_window

TIMES = st.lists(st.integers(0, 1 << 50) | st.just((1 << 64) - 1), min_size=len(SPLITS), max_size=len(SPLITS))


@given(TIMES)
def test_a_bar_is_full_and_each_part_is_exact_to_a_cell(parts: list[int]) -> None:
    array = np.array(parts, np.uint64)
    lengths = cells(array)
    assert sum(lengths) == (SPLIT_CELLS if sum(parts) else 0)
    for length, part in zip(lengths, parts, strict=True):
        assert abs(length - SPLIT_CELLS * part / (sum(parts) or 1)) < 1


@given(TIMES, st.sampled_from([UNICODE, ASCII]), st.booleans())
def test_every_bar_has_the_width_of_its_column(parts: list[int], glyphs: Glyphs, letters: bool) -> None:
    pieces = bar(np.array(parts, np.uint64), glyphs=glyphs, letters=letters)
    assert sum(len(text) for text, _ in pieces) == SPLIT_CELLS
    assert glyphs is UNICODE or all(text.isascii() for text, _ in pieces)


def test_parts_differ_by_letters_and_by_patterns_or_colours() -> None:
    parts = np.array([300, 600, 0, 0, 0, 0, 0, 0, 100, 0], np.uint64)
    assert bar(parts, glyphs=UNICODE, letters=True) == (("R──", "text"), ("q▒▒▒▒▒", "text"), ("s", "text"))
    assert bar(parts, glyphs=ASCII, letters=True) == (("R--", "text"), ("q=====", "text"), ("s", "text"))
    assert bar(parts, glyphs=UNICODE, letters=False) == (
        ("R", "text"),
        ("━━", "running_line"),
        ("q", "bright"),
        ("▄▄▄▄▄", "runqueue_line"),
        ("s", "bright"),
    )
    quiet = bar(parts, glyphs=UNICODE, letters=False, loud=("sleep",))
    assert quiet[2:] == (("q", "text"), ("━━━━━", "runqueue_line"), ("s", "bright"))
    assert bar(None, glyphs=ASCII, letters=False)[0][0].strip() == "-"


def test_the_legend_has_a_letter_of_its_own_for_each_part() -> None:
    letters = {part.letter for part in PARTS.values()}
    assert len(letters) == len(SPLITS)
    text = "".join(part for part, _ in legend(glyphs=UNICODE, letters=True))
    assert all(f"{letter} " in text for letter in letters)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_patterns_of_any_two_neighbours_differ_in_every_cell(glyphs: Glyphs) -> None:
    assert len(glyphs.part_fills) == len(SPLITS)
    drawn = [set(piece(name, 3, glyphs=glyphs, letters=True)[0][0]) for name in SPLITS]
    for one, other in combinations(drawn, 2):
        assert not one & other
    assert all(cell_len(fill) == 1 for fill in glyphs.part_fills)


def test_the_bar_grows_where_the_table_would_leave_cells_empty() -> None:
    one = full_window()
    assert one.rows.split_ns is not None
    lengths = {}
    for width in (80, 160, 200, 400):
        data = table(one, View(by="container"), width=width)
        at = next(at for at, column in enumerate(data.columns) if column.id == "split")
        lengths[width] = data.columns[at].width
        pieces = data.rows[0].cells[at].parts
        assert sum(len(text) for text, _ in pieces) == lengths[width]
    assert (lengths[80], lengths[400]) == (SPLIT_CELLS, MOST_SPLIT_CELLS)
    assert list(lengths.values()) == sorted(lengths.values())
