"""Tests windows of past moments, which are built from the windows kept in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.merge.history import History
from stalltop.model.merge.packing import Packed, pack
from stalltop.recordings.past.kept import upto, window_at
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import CHAINS


def parts(number: int, *, seconds: float = 1.0) -> tuple[Packed, ...]:
    """Returns consecutive windows from 1000.0 on; the n-th window has one call of n us."""
    return tuple(
        pack(window([Calls(key(), [1_000 * (at + 1)])], start=1_000.0 + at * seconds, seconds=seconds))
        for at in range(number)
    )


@pytest.mark.parametrize(
    ("at", "length", "start", "calls"),
    [
        (1_020.0, 10.0, 1_010.0, 10),
        (1_020.0, 1.0, 1_019.0, 1),
        (1_015.0, 10.0, 1_005.0, 10),
        (1_003.0, 10.0, 1_000.0, 3),
        (1_015.0, None, 1_000.0, 15),
        (1_020.0, None, 1_000.0, 20),
        (0.0, 10.0, 1_000.0, 1),
    ],
)
def test_a_past_window_has_the_requested_end_and_length(
    at: float, length: float | None, start: float, calls: int
) -> None:
    made = window_at(parts(20), at, length)
    assert made is not None
    assert (made.start, int(made.rows.calls.sum())) == (start, calls)
    assert int(made.rows.max_ns.max()) == 1_000 * (made.end - 1_000)


def test_a_window_shows_the_chains_of_its_moment() -> None:
    one, other = (replace(part.unpack(), chains=(CHAINS[at],)) for at, part in enumerate(parts(2)))
    kept = (pack(one), pack(other))
    for at, chain in ((1_001.0, CHAINS[0]), (1_002.0, CHAINS[1])):
        made = window_at(kept, at, 10.0)
        assert made is not None
        assert made.chains == (chain,)


def test_a_moment_keeps_its_time_when_windows_are_merged() -> None:
    history = History()
    for part in parts(640):
        history.add(part.unpack())
    assert history.times()[0] == (1_000.0, 10.0)
    made = window_at(history.parts, 1_017.0, 10.0)
    assert made is not None
    assert (made.start, made.end) == (1_010.0, 1_020.0), "the merged window that contains the moment"
    made = window_at(history.parts, 1_640.0, 10.0)
    assert made is not None
    assert made.start == 1_630.0


def test_a_cancelled_window_is_given_up() -> None:
    assert window_at(parts(3), 1_002.0, None, lambda: True) is None


def test_upto_returns_at_least_one_window() -> None:
    assert len(upto(parts(3), 0.0)) == 1
    assert len(upto(parts(3), 1_002.0)) == 2
