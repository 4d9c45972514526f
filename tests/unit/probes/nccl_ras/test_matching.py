"""Tests that communicators are recognised by what RAS and the probes count, and only if it is certain."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from stalltop.probes.maps.communicators import Adoption
from stalltop.probes.nccl_ras.client import RasAnswer
from stalltop.probes.nccl_ras.matching import ProcessMatching
from stalltop.probes.nccl_ras.status import RasCommunicator, RasRank

HOST = "10.0.0.3"
PID = 7


@dataclass
class CollectiveProgram:
    """A process that enters collectives of several communicators all the time."""

    before: dict[int, int]
    """By handle: collectives that it had entered before the probes were attached."""
    per_turn: dict[int, int]
    """By handle: collectives of a turn, in the order of handles."""
    seed: int = 1
    entered: dict[int, int] = field(default_factory=dict)

    def run(self, turns: int) -> None:
        for handle, count in self.per_turn.items():
            self.entered[handle] = self.entered.get(handle, 0) + count * turns

    def answer(self) -> RasAnswer:
        made = [
            RasCommunicator(
                handle * 16,
                4,
                (
                    RasRank(3, HOST, PID, self.before[handle] + self.entered[handle]),
                    RasRank(2, "10.0.0.9", PID, 12345),
                ),
            )
            for handle in self.before
        ]
        return RasAnswer(tuple(made), frozenset({HOST, "127.0.0.1"}))

    def ask(self, matching: ProcessMatching, random: Random, most_turns: int) -> None:
        first = dict(self.entered)
        self.run(random.randint(0, most_turns))
        answer = self.answer()
        self.run(random.randint(0, most_turns))
        matching.take(answer, PID, first, dict(self.entered))


def test_a_program_that_pauses_is_certain_at_once() -> None:
    program, matching = CollectiveProgram({1: 500}, {1: 2}), ProcessMatching()
    program.run(9)
    program.ask(matching, Random(1), 0)
    assert matching.certain() == {1: Adoption(16, 3, 4, 500)}


@pytest.mark.parametrize("seed", range(20))
def test_answers_together_tell_what_one_cannot(seed: int) -> None:
    program, matching, random = (
        CollectiveProgram({1: 500, 2: 90}, {1: 2, 2: 3}),
        ProcessMatching(),
        Random(seed),
    )
    right = {1: Adoption(16, 3, 4, 500), 2: Adoption(32, 3, 4, 90)}
    program.run(9)
    for _ in range(60):
        program.run(20)
        program.ask(matching, random, 3)
        assert matching.certain().items() <= right.items()  # never wrong
    assert matching.certain() == right


def test_communicators_that_cannot_be_told_apart_stay_unknown() -> None:
    program, matching = CollectiveProgram({1: 500, 2: 90}, {1: 2, 2: 2}), ProcessMatching()
    program.run(9)
    for turn in range(10):
        program.ask(matching, Random(turn), 0)
    assert matching.certain() == {}


def test_a_process_of_another_host_with_the_same_pid_is_another_one() -> None:
    program, matching = CollectiveProgram({1: 500}, {1: 1}), ProcessMatching()
    program.run(1)
    elsewhere = program.answer()._replace(addresses=frozenset({"10.0.0.4"}))
    matching.take(elsewhere, PID, program.entered, program.entered)
    assert matching.certain() == {}


def test_counts_that_contradict_each_other_are_no_match() -> None:
    program, matching = CollectiveProgram({1: 500}, {1: 1}), ProcessMatching()
    program.run(1)
    matching.take(program.answer(), PID, {1: 1}, {1: 1})
    matching.take(program.answer(), PID, {1: 9}, {1: 9})
    assert matching.certain() == {}
