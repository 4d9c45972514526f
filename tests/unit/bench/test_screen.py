"""Tests how the benchmark of the screen reads a program's output bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bench.monitor.marks import Marks
from bench.monitor.screen import latencies_ms
from bench.monitor.shown import STEADY_ROWS, PreparedSource
from stalltop.model.rows.pivot import pivot

ROW = b"\x1b[48;2;%d;0;0m\x1b[%d;1Hcontainer\x1b[0m"


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"\x1b[2;1Habcdef", {1: ("", False)}),
        (b"\x1b[1;38;2;48;5;7;48;2;1;2;3mabcdef", {0: ("1;2;3", False)}),
        (b"\x1b[48;5;17m\x1b[3Gab", {0: ("17", False)}),
        (b"\x1b[44mab\x1b[0mcd", {0: ("", False)}),
        (b"\x1b[7mabcd\r\nabcd", {0: ("", True), 1: ("", True)}),
        (b"ab", {}),
        (b"\x1b[?2026h\x1b]0;a title that is long\x07\x1b(Babc", {0: ("", False)}),
        ("┌┐└".encode(), {0: ("", False)}),
        (b"\x1b[5;9f\x1b[7D\x1b[2Aabc", {2: ("", False)}),
    ],
)
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_the_marked_line_is_found_in_output_cut_anywhere(
    written: bytes, lines: dict[int, tuple[str, bool]], at_once: int
) -> None:
    marks = Marks(2)
    for first in range(0, len(written), at_once):
        marks.feed(written[first : first + at_once])
    assert marks.lines == lines


def test_a_keys_latency_ends_when_the_mark_moves() -> None:
    chunks = [
        (0.5, ROW % (1, 1) + ROW % (0, 2)),
        (1.01, b"\x1b[1;20H42.1ms"),  # a refresh, not an effect of the key
        (1.02, ROW % (0, 1) + ROW % (1, 2)),
        (1.5, b"\x1b[1;20H42.2ms"),
        (3.3, ROW % (1, 1) + ROW % (0, 2)),  # comes after the next key, so it belongs to that key
    ]
    assert latencies_ms(chunks, [1.0, 2.0, 3.0, 4.0], 2) == pytest.approx([20.0, 1000.0, 300.0])
    assert latencies_ms([], [1.0, 2.0], 2) == pytest.approx([1000.0])


def test_prepared_windows_change_everywhere_but_keep_the_order_of_the_first_rows() -> None:
    source = PreparedSource(100, 0.5)
    windows = [source.read() for _ in range(4)]
    orders = []
    for before, after in itertools.pairwise(windows):
        assert after.start == pytest.approx(before.end)
        assert (after.rows.total_ns != before.rows.total_ns).all()
        groups = pivot(after, ("operation",))
        orders.append(np.argsort(-groups.total_ns.astype(np.int64)).tolist())
    assert {tuple(order[:STEADY_ROWS]) for order in orders} == {tuple(range(STEADY_ROWS))}
    assert len({tuple(order) for order in orders}) == len(orders)
