"""Tests what is left alone after something did not answer, and for how long."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from stalltop.probes.confined import unanswering
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import NoAnswerError, UnavailableError
from stalltop.probes.confined.questions import Questions, QuestionSubject


class FakeAnswerer:
    """Answers with the PID, but not for devices that hang."""

    def __init__(self) -> None:
        self.hanging: set[int] = set()
        self.asked: list[int] = []
        self.stuck = self.busy = False

    def ask(self, question: Callable[..., Any], given: Iterable[Any]) -> list[Any]:
        answers: list[Any] = []
        for device, *_ in given:
            self.asked.append(device)
            if device in self.hanging:
                return [*answers, NoAnswerError("it hangs", lambda: self.stuck, busy=self.busy)]
            answers.append(device)
        return answers


@pytest.fixture(autouse=True)
def _owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes 10 to 19 belong to one owner, 20 to 29 to another one."""
    monkeypatch.setattr(unanswering, "owner_of", lambda pid: f"owner {pid // 10}")


def find(device: int) -> int:
    """Stands for a question."""
    return device


def on(pid: int, *devices: int) -> list[QuestionSubject]:
    return [QuestionSubject(pid, device, (device,)) for device in devices]


def test_other_file_systems_are_asked_in_the_same_call() -> None:
    asks = FakeAnswerer()
    asks.hanging = {7}
    questions = Questions(asks)
    answers = questions.ask(find, on(10, 1, 7, 2, 7, 3))
    assert [answer if isinstance(answer, int) else type(answer) for answer in answers] == [
        1,
        NoAnswerError,
        2,
        NoAnswerError,
        3,
    ]
    assert asks.asked.count(7) == 1


def test_a_costly_file_is_left_alone_and_no_other_of_its_file_system() -> None:
    asks = FakeAnswerer()
    asks.hanging, asks.busy = {7}, True
    questions = Questions(asks)
    assert isinstance(questions.ask(find, on(10, 7))[0], NoAnswerError)
    asks.hanging = set()
    assert isinstance(questions.ask(find, on(10, 7))[0], NoAnswerError)  # the process that has mapped it
    assert questions.ask(find, on(20, 7)) == [7]


def test_a_file_system_is_left_alone_for_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = FakeAnswerer()
    asks.hanging = {7}
    questions = Questions(asks)
    questions.ask(find, on(10, 7))
    questions.begin()
    assert isinstance(questions.ask(find, on(20, 7))[0], NoAnswerError)
    assert asks.asked == [7]
    assert questions.ask(find, on(10, 8)) == [8]
    monkeypatch.setattr(unanswering, "ALONE_SECONDS", -1.0)
    asks.hanging = {9}
    questions.ask(find, on(20, 9))
    questions.begin()
    asks.hanging = set()
    assert questions.ask(find, on(20, 9)) == [9]


def test_a_file_system_is_left_alone_while_a_process_hangs_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswering, "ALONE_SECONDS", -1.0)
    asks = FakeAnswerer()
    asks.hanging, asks.stuck = {7}, True
    questions = Questions(asks)
    questions.ask(find, on(10, 7))
    questions.begin()
    questions.ask(find, on(10, 7))
    assert asks.asked == [7]
    asks.stuck, asks.hanging = False, set()
    questions.begin()
    assert questions.ask(find, on(10, 7)) == [7]


def test_an_owner_of_many_such_file_systems_is_left_alone_and_no_other() -> None:
    asks = FakeAnswerer()
    asks.hanging = {*range(100, 200)}
    questions = Questions(asks)
    answers = questions.ask(find, on(10, *range(100, 200)))
    assert all(isinstance(answer, NoAnswerError) for answer in answers)
    assert len(asks.asked) == unanswering.MOST_OF_OWNER
    assert questions.answering([10, 11, 20]) == [20]
    assert isinstance(questions.ask(find, on(11, 1))[0], NoAnswerError)
    assert questions.ask(find, on(20, 1)) == [1]


def test_without_a_confined_process_there_are_no_answers() -> None:
    class NoAnswerer(FakeAnswerer):
        def ask(self, question: Callable[..., Any], given: Iterable[Any]) -> list[Any]:
            return [UnavailableError("there is none")]

    with pytest.raises(UnavailableError, match="there is none"):
        Questions(NoAnswerer()).each(Examiner.mapped, [1, 2])


def test_owners_are_users_and_containers_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    own = unanswering.owner_of(os.getpid())
    assert own == f"user {os.getuid()}" if os.getuid() else "/" in own
    assert unanswering.owner_of(1 << 22) == ""
