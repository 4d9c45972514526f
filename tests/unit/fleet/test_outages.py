"""Tests that a fleet loses no window and counts none twice when parts of it fail. ``bench outages`` does the
same for longer, and with a full disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.fleet import failures
from bench.fleet.failures import Row

_CASES: dict[str, Callable[[Path], Row]] = {
    "the server is killed": lambda folder: failures.server_killed(2),
    "the line of a rack is cut": lambda folder: failures.leaf_cut(folder, 8.0),
    "a reader reads nothing": lambda folder: failures.slow_consumer(2.0),
    "workers of rollup are killed": lambda folder: failures.rollup_killed(3),
    "clocks are set by an hour": lambda folder: failures.clock_steps(),
    "a host sends garbage": lambda folder: failures.garbage(300),
}


@pytest.mark.parametrize("name", _CASES)
def test_nothing_is_lost_or_doubled(name: str, tmp_path: Path) -> None:
    said, windows, lost, doubled, _, more = _CASES[name](tmp_path)
    assert (lost, doubled) == ("0", "0"), (said, more)
    assert int(windows.replace(",", "")) > 10


def test_an_agent_can_do_nothing_in_the_name_of_others(tmp_path: Path) -> None:
    assert "19 of 19 requests refused, nothing stored" in failures.without_rights(tmp_path)
