"""Tests when a receiver is told about problems: once each, again if they get worse, and when they end."""

from __future__ import annotations

import pytest

from stalltop.model.chain import Chain
from stalltop.serving.notify.ledger import (
    CLOSED_SECONDS,
    MOST_MESSAGES,
    RATE_SECONDS,
    WORSE_SECONDS,
    DueMessage,
    Ledger,
)
from tests.unit.serving.notify.problems import NOW, alerts, problem


def ledger(refresh: float | None = None) -> Ledger:
    return Ledger({}, severity="high", seconds=30.0, refresh_seconds=refresh)


def told(book: Ledger, *chains: Chain, now: float = NOW) -> list[str]:
    """Delivers what is due, and returns the changes."""
    due = book.due(alerts(*chains), now)
    for message in due:
        book.delivered(message, "sentence", now)
    return [message.change for message in due]


def test_a_problem_is_told_once_and_its_end() -> None:
    book = ledger()
    assert told(book, problem()) == ["opened"]
    assert told(book, problem(lost=700.0), now=NOW + 1) == []
    assert told(book, now=NOW + 10) == []
    assert told(book, now=NOW + 10 + CLOSED_SECONDS - 1) == []
    assert told(book, now=NOW + 10 + CLOSED_SECONDS) == ["closed"]
    assert told(book, now=NOW + 10 + 2 * CLOSED_SECONDS) == []
    assert told(book, problem(), now=NOW + 500) == ["opened"]


def test_a_problem_that_comes_back_at_once_never_ended() -> None:
    book = ledger()
    told(book, problem())
    for second in range(0, 600, 50):
        assert told(book, now=NOW + second) == []
        assert told(book, problem(), now=NOW + second + 40) == []


def test_short_and_light_problems_are_not_told() -> None:
    book = ledger()
    assert told(book, problem(since=NOW - 29.0)) == []
    assert told(book, problem(since=NOW - 29.0), now=NOW + 1.0) == ["opened"]
    assert told(ledger(), problem(severity="medium")) == []
    assert told(ledger(), problem(severity="critical")) == ["opened"]


def test_a_told_problem_stays_open_while_it_is_lighter() -> None:
    book = ledger()
    told(book, problem())
    for second in range(0, 300, 30):
        assert told(book, problem(severity="low"), now=NOW + second) == []


def test_it_gets_worse_by_severity_at_once_and_only_once() -> None:
    book = ledger()
    told(book, problem())
    assert told(book, problem(severity="critical"), now=NOW + 1) == ["worse"]
    assert told(book, problem(severity="high"), now=NOW + 2) == []
    assert told(book, problem(severity="critical"), now=NOW + 3) == []


def test_it_gets_worse_by_its_loss_but_not_often() -> None:
    book = ledger()
    told(book, problem(lost=100.0))
    assert told(book, problem(lost=299.0), now=NOW + 2 * WORSE_SECONDS) == []
    assert told(book, problem(lost=300.0), now=NOW + WORSE_SECONDS - 1) == []
    assert told(book, problem(lost=300.0), now=NOW + WORSE_SECONDS) == ["worse"]
    assert told(book, problem(lost=900.0), now=NOW + WORSE_SECONDS + 1) == []


def test_a_restart_repeats_nothing_and_still_tells_the_end() -> None:
    book = ledger()
    told(book, problem())
    again = Ledger(book.told, severity="high", seconds=30.0)
    assert told(again, problem(since=NOW + 5.0), now=NOW + 60.0) == []
    assert told(again, now=NOW + 61.0) == []
    assert told(again, now=NOW + 61.0 + CLOSED_SECONDS) == ["closed"]


def test_what_was_not_delivered_is_due_again_in_its_present_state() -> None:
    book = ledger()
    (first,) = book.due(alerts(problem()), NOW)
    (again,) = book.due(alerts(problem(severity="critical")), NOW + 600.0)
    assert (first.change, again.change) == ("opened", "opened")
    assert again.alert is not None
    assert again.alert.severity == "critical"
    assert book.due((), NOW + 1_200.0) == []  # it ended while the receiver was away


def test_messages_are_limited_and_the_others_follow() -> None:
    book = ledger()
    many = [problem(culprit=f"docker:{number:02}", lost=1_000.0 - number) for number in range(25)]
    seen: list[DueMessage] = []
    for second in range(0, int(3 * RATE_SECONDS), 20):
        due = book.due(alerts(*many), NOW + second)
        for message in due:
            book.delivered(message, "", NOW + second)
        seen += due
        assert len(due) <= MOST_MESSAGES
    assert len(seen) == len({message.id for message in seen}) == 25
    assert [message.waiting for message in seen[:MOST_MESSAGES]] == [15] * MOST_MESSAGES
    assert seen[-1].waiting == 0


def test_a_receiver_that_forgets_is_told_again_without_a_limit() -> None:
    book = ledger(refresh=60.0)
    many = [problem(culprit=f"docker:{number}") for number in range(2 * MOST_MESSAGES)]
    assert told(book, *many) == ["opened"] * len(many)
    assert told(book, *many, now=NOW + 59) == []
    assert told(book, *many, now=NOW + 60) == ["still"] * len(many)
    assert set(told(book, now=NOW + 61)) == set()
    assert told(book, now=NOW + 61 + CLOSED_SECONDS) == ["closed"] * len(many)


@pytest.mark.parametrize("lost", [0.0, 0.2])
def test_a_loss_near_nothing_does_not_get_worse_by_noise(lost: float) -> None:
    book = ledger()
    told(book, problem(lost=lost))
    assert told(book, problem(lost=2.0), now=NOW + 2 * WORSE_SECONDS) == []
