"""Tests the events in a recording that report a set clock and a suspended host."""

from __future__ import annotations

import pytest

from stalltop.recordings.write.clock_watch import Clocks, ClockWatch, length_text, read_clocks


def told(after: Clocks) -> list[tuple[str, str]]:
    readings = iter((Clocks(1e9, 50.0, 90.0), after))
    return [(event.kind, event.text) for event in ClockWatch(lambda: next(readings)).events()]


@pytest.mark.parametrize(
    ("after", "events"),
    [
        (Clocks(1e9 + 1, 51.0, 91.0), []),
        (Clocks(1e9 + 30.4, 80.0, 120.0), []),
        (
            Clocks(1e9 + 1 - 3600, 51.0, 91.0),
            [("clock_step", "the host's clock was set back by 1 h 0 min")],
        ),
        (
            Clocks(1e9 + 3.5, 51.0, 91.0),
            [("clock_step", "the host's clock was set forward by 2.5 s")],
        ),
        (Clocks(1e9 + 601, 51.0, 691.0), [("suspended", "the host was suspended for 10 min 0 s")]),
        (
            Clocks(1e9 + 601 + 7200, 51.0, 691.0),
            [
                ("suspended", "the host was suspended for 10 min 0 s"),
                ("clock_step", "the host's clock was set forward by 2 h 0 min"),
            ],
        ),
    ],
)
def test_clock_steps_and_suspends_become_events(after: Clocks, events: list[tuple[str, str]]) -> None:
    assert told(after) == events


def test_clocks_are_read_at_the_same_time() -> None:
    first, second = read_clocks(), read_clocks()
    assert second.running >= first.running
    assert second.always >= second.running - 1e-3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (2.5, "2.5 s"),
        (59.0, "59 s"),
        (200.0, "3 min 20 s"),
        (18_000.0, "5 h 0 min"),
        (12 * 86_400.0 + 3 * 3_600, "12 d 3 h"),
    ],
)
def test_lengths_become_text(seconds: float, text: str) -> None:
    assert length_text(seconds) == text
