"""Tests that rows of simulated windows count their captured calls."""

from __future__ import annotations

from random import Random

from stalltop.demo.simulated.calls import kept_calls
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.model.histograms.hdr import index_of
from stalltop.model.window import Rows


def test_every_captured_call_is_counted_in_its_row() -> None:
    clock = iter(range(1_000, 1_100))
    source = SimulatedSource(clock=lambda: float(next(clock)))
    for _ in range(5):
        window = source.read()
        rows = {key[1:]: row for row, key in enumerate(window.rows.keys)}
        kept = window.calls.kept
        assert {call.why for call in kept} == {"slow", "sample"}
        assert list(kept) == sorted(kept, key=lambda call: call.start_ns)
        for call in kept:
            row = rows[call.row]
            first, end = window.rows.histograms.start[row : row + 2].tolist()
            assert index_of(call.duration_ns) in window.rows.histograms.index[first:end]
            assert call.split_ns is not None
            assert sum(call.split_ns) == call.duration_ns
            assert window.start * 1e9 <= call.start_ns <= call.end_ns <= window.end * 1e9


def test_an_empty_window_has_no_captured_calls() -> None:
    assert not kept_calls(Rows.empty(), 0.0, 1.0, Random(1))
