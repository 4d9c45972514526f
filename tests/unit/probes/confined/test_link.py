"""Tests that the confined process is replaced if it ends, does not answer, or answers with something else."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from stalltop.probes.confined import link
from stalltop.probes.confined.examiner import Examiner, FoundFile
from stalltop.probes.confined.link import Confined, Here, NoAnswerError, UnavailableError
from stalltop.probes.confined.messages import MOST_BYTES
from stalltop.probes.cuda_devices.process_sight import Sight
from stalltop.probes.process_maps import MappedFiles
from tests.kernel.children import until

OWN = [(os.getpid(),)]
HEAD = """
import os, socket, sys, time
from stalltop.probes.confined.messages import Received, packed, send
connection = socket.socket(fileno=0)
received = Received(connection)
def question():
    while (questions := received.take()) is None:
        received.receive()
    return questions
"""
ANSWER = "[[], [], True]"


@pytest.fixture
def start() -> Iterator[Callable[..., Confined]]:
    made: list[Confined] = []

    def make(program: str, patience_seconds: float = 60.0) -> Confined:
        made.append(Confined((sys.executable, "-P", "-c", HEAD + program), patience_seconds))
        return made[-1]

    yield make
    for confined in made:
        confined.close()


@pytest.fixture
def confined() -> Iterator[Confined]:
    confined = Confined()
    yield confined
    confined.close()


def process_of(confined: Confined) -> int:
    assert confined._process is not None
    return confined._process._process.pid


def test_answers_are_those_of_this_process(confined: Confined) -> None:
    here = Here()
    assert confined.ask(Examiner.mapped, OWN) == here.ask(Examiner.mapped, OWN)
    (program,) = here.ask(Examiner.program, OWN)
    assert confined.ask(Examiner.program, OWN) == [program]
    first, second = (asks.ask(Examiner.find, [(program,)])[0] for asks in (confined, here))
    assert isinstance(first, FoundFile)
    assert isinstance(second, FoundFile)
    assert first.version == second.version
    assert os.fstat(first.file).st_ino == first.version.inode
    with pytest.raises(OSError, match="Bad file descriptor"):  # it is opened by O_PATH
        os.read(first.file, 1)
    assert confined.ask(Examiner.same, [(first.file, second.file)]) == [True]
    for fd in (first.file, second.file):
        os.close(fd)


def test_environments_and_devices_are_read(confined: Confined) -> None:
    (sight,) = confined.ask(Examiner.sight, OWN)
    assert [sight] == Here().ask(Examiner.sight, OWN)
    assert isinstance(sight, Sight)
    assert len(sight.environments) in (1, 2)


def test_errors_are_answers(confined: Confined) -> None:
    gone = (1 << 22) - 1
    given = [(gone,), *OWN, (gone,)]
    found = confined.ask(Examiner.mapped, given)
    assert [isinstance(answer, FileNotFoundError) for answer in found] == [True, False, True]
    assert confined.ask(Examiner.mapped, []) == []


def test_many_questions_are_answered_in_order(confined: Confined) -> None:
    address = id(b"")
    given = [(os.getpid(), ((address, size),)) for size in range(200)]
    assert [len(answer[0]) for answer in confined.ask(Examiner.memory, given)] == [*range(200)]  # type: ignore[index]


def test_a_process_that_ends_is_replaced(confined: Confined) -> None:
    assert not isinstance(confined.ask(Examiner.mapped, OWN)[0], OSError)
    before = process_of(confined)
    os.kill(before, 9)
    (answer,) = confined.ask(Examiner.mapped, OWN)
    assert isinstance(answer, NoAnswerError)
    assert "ended the confined process" in str(answer)
    assert not isinstance(confined.ask(Examiner.mapped, OWN)[0], OSError)
    assert process_of(confined) != before


def test_a_question_without_an_answer_ends_the_list(start: Callable[..., Confined]) -> None:
    late = f'send(connection, packed("")); question(); send(connection, packed([{ANSWER}])); time.sleep(60)'
    confined = start(late, 0.5)
    first, second = confined.ask(Examiner.mapped, [(1,), (2,), (3,)])
    assert isinstance(first, MappedFiles)
    assert isinstance(second, NoAnswerError)
    assert "has not answered for 0.5 s" in str(second)
    assert until(lambda: not second.still_hangs())


def test_a_process_that_computes_is_told_from_one_that_waits(start: Callable[..., Confined]) -> None:
    for doing, busy in (("while True: pass", True), ("time.sleep(60)", False)):
        confined = start(f'send(connection, packed("")); question()\n{doing}', 1.0)
        (answer,) = confined.ask(Examiner.mapped, OWN)
        assert isinstance(answer, NoAnswerError)
        assert answer.busy is busy


@pytest.mark.parametrize(
    "answer",
    [
        "packed('x')",
        "packed([[1, 2, 3]])",
        "packed([])",
        "packed([['a']])",
        "b'\\0\\0\\0\\4nope'",
        f"({MOST_BYTES + 1}).to_bytes(4, 'big')",
        "packed([" + "[" * 9 + "]" * 9 + "])",
    ],
)
def test_a_process_that_was_taken_over_is_replaced(start: Callable[..., Confined], answer: str) -> None:
    confined = start(f'send(connection, packed("")); question(); send(connection, {answer}); question()')
    (found,) = confined.ask(Examiner.mapped, OWN)
    assert isinstance(found, NoAnswerError)
    assert confined._process is None


def test_files_that_nobody_asked_for_are_closed(start: Callable[..., Confined]) -> None:
    before = os.listdir("/proc/self/fd")
    more = f'send(connection, packed("")); question(); send(connection, packed([{ANSWER}]), [0, 1, 2])'
    confined = start(more + "; question()")
    assert not isinstance(confined.ask(Examiner.mapped, OWN)[0], OSError)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1  # the socket
    confined.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_endless_files_end_the_process(start: Callable[..., Confined]) -> None:
    before = os.listdir("/proc/self/fd")
    endless = 'send(connection, packed("")); question()\nwhile True: send(connection, b"\\0", [0] * 200)'
    confined = start(endless.replace("; question()", ""))
    (answer,) = confined.ask(Examiner.mapped, OWN)
    assert isinstance(answer, OSError)
    confined.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    ("program", "reason"),
    [("sys.exit(1)", "cannot be started"), ('send(connection, packed("not\\x1b here"))', "not here")],
)
def test_a_process_that_is_not_confined_is_not_used(
    start: Callable[..., Confined], program: str, reason: str
) -> None:
    confined = start(program)
    for _ in range(2):
        (answer,) = confined.ask(Examiner.mapped, [(1,), (2,)])
        assert isinstance(answer, UnavailableError)
        assert reason in str(answer)


def test_processes_that_hang_are_bounded(
    start: Callable[..., Confined], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "MOST_LEFT", 2)
    monkeypatch.setattr(link._Process, "ended", lambda process: False)
    confined = start('send(connection, packed("")); question(); time.sleep(60)', 0.1)
    answers: Sequence[object] = [confined.ask(Examiner.mapped, OWN)[0] for _ in range(3)]
    assert [type(answer) for answer in answers] == [NoAnswerError, NoAnswerError, UnavailableError]


def test_closing_ends_a_question_that_waits(start: Callable[..., Confined]) -> None:
    confined = start('send(connection, packed("")); question(); time.sleep(600)', 600.0)
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.extend(confined.ask(Examiner.mapped, OWN)))
    thread.start()
    assert until(lambda: confined._process is not None and confined._process._ready)
    confined.close()
    thread.join()
    assert [type(answer) for answer in answers] == [UnavailableError]
    assert isinstance(confined.ask(Examiner.mapped, OWN)[0], UnavailableError)
