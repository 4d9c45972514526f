"""Tests how stalltop reads the moment that a user types."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.tui.past.when import moment, when

START, END = 1_700_000_000.0, 1_700_200_000.0
"""2023-11-14 22:13:20 to 2023-11-17 05:46:40, both UTC."""


pytestmark = pytest.mark.usefixtures("utc")


@pytest.mark.parametrize(
    ("typed", "at"),
    [
        ("start", START),
        (" End ", END),
        ("now", END),
        ("-2h", END - 7_200),
        ("-1h30m", END - 5_400),
        ("-0.5d", END - 43_200),
        ("+10m", START + 1_600),
        ("05:46", END - 40),
        ("05:46:40", END),
        ("05:46:39.5", END - 0.5),
        ("05:47", END - 86_400 + 20),
        ("22:13:20", START + 2 * 86_400),
        ("2023-11-14 22:30", START + 1_000),
        ("2023-11-14T22:30:00Z", START + 1_000),
        ("2023-11-14 23:30+01:00", START + 1_000),
        ("2023-11-15", START + 6_400),
    ],
)
def test_a_moment_can_be_typed_in_many_ways(typed: str, at: float) -> None:
    assert moment(typed, start=START, end=END, shown=START + 1_000) == pytest.approx(at)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "type a moment, such as 14:32"),
        ("x" * 100, "type a moment"),
        ("soon", "'soon' is not a moment; type one such as 14:32"),
        ("25:00", "is not a moment"),
        ("14:60", "is not a moment"),
        ("-", "is not a moment"),
        ("2h", "is not a moment"),
        ("\x1b[2J", "'?[2J' is not a moment"),
        ("-9d", "2023-11-08 05:46:40 is before what is kept: 2023-11-14 22:13:20 to 05:46:40"),
        ("2030-01-01", "is after what is kept"),
        ("9999-12-31T23:59:59-23:59", ""),
    ],
)
def test_an_invalid_moment_is_rejected_with_a_reason(typed: str, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        moment(typed, start=START, end=END)
    assert said in str(raised.value)


@given(st.text(max_size=45))
def test_any_text_gives_a_moment_in_range_or_an_error(typed: str) -> None:
    said, at = "", START
    try:
        at = moment(typed, start=START, end=END)
    except ValueError as error:
        said = str(error)
    assert said.isprintable()
    assert START <= at <= END


def test_a_moment_on_another_day_is_shown_with_its_date() -> None:
    assert when(END - 60, END) == "05:45:40"
    assert when(START, END) == "2023-11-14 22:13:20"


def test_a_time_that_daylight_saving_skips_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        sunday = 1_711_879_200.0  # 2024-03-31 12:00 +0200; that day had no 02:30
        at = moment("02:30", start=sunday - 90_000, end=sunday)
        assert sunday - 90_000 <= at <= sunday
        assert moment("11:59", start=sunday - 90_000, end=sunday) == sunday - 60
    time.tzset()
