"""Asks about many files and processes, and leaves alone what does not answer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from stalltop.probes.confined.examiner import Examiner, FoundFile
from stalltop.probes.confined.link import Answerer, NoAnswerError, UnavailableError
from stalltop.probes.confined.unanswering import Unanswering
from stalltop.probes.process_maps import Mapping

T = TypeVar("T")


class QuestionSubject(NamedTuple):
    """What a question is about."""

    pid: int
    device: int | None
    """Device number of the file; None for a question about the process itself."""
    arguments: tuple[Any, ...]


class Questions:
    """Questions to a confined process. Used from one thread.

    All methods raise UnavailableError if there is no confined process.
    """

    def __init__(self, asks: Answerer) -> None:
        self._asks = asks
        self._unanswering = Unanswering()

    def begin(self) -> None:
        """Begins an update: what was left alone for long enough may be asked about again."""
        self._unanswering.begin()

    def answering(self, pids: Sequence[int]) -> list[int]:
        """Returns those of ``pids`` that are not left alone."""
        return [pid for pid in pids if not self._unanswering.holds(pid, None)]

    def ask(self, question: Callable[..., T], subjects: Sequence[QuestionSubject]) -> list[T | OSError]:
        """Returns the answers of ``question`` about each of ``subjects``, or its error: NoAnswerError for
        what does not answer, or is left alone."""
        answers: dict[QuestionSubject, T | OSError] = {}
        left = [*subjects]
        while left:
            asked = []
            for subject in left:
                if self._unanswering.holds(subject.pid, subject.device):
                    answers[subject] = self._unanswering.error
                else:
                    asked.append(subject)
            given = self._asks.ask(question, [subject.arguments for subject in asked])
            for subject, answer in zip(asked, given, strict=False):
                if isinstance(answer, UnavailableError):
                    raise answer
                if isinstance(answer, NoAnswerError):
                    # A file that is costly to examine says nothing about others in its file system.
                    self._unanswering.note(subject.pid, None if answer.busy else subject.device, answer)
                answers[subject] = answer
            left = asked[len(given) :]
        return [answers[subject] for subject in subjects]

    def each(self, question: Callable[[Examiner, int], T], pids: Sequence[int]) -> list[T | OSError]:
        """Asks one question about each of ``pids``."""
        return self.ask(question, [QuestionSubject(pid, None, (pid,)) for pid in pids])

    def one(self, question: Callable[[Examiner, int], T], pid: int) -> T:
        """Asks one question about ``pid``. Raises the error that is its answer."""
        self.begin()
        (answer,) = self.each(question, [pid])
        if isinstance(answer, OSError):
            raise answer
        return answer

    def program(self, pid: int) -> Mapping | None:
        """Returns the first executable mapping of the process's own program; None if it is not found."""
        (program,) = self.each(Examiner.program, [pid])
        return None if isinstance(program, OSError) else program

    @contextlib.contextmanager
    def found(self, pid: int, mappings: Sequence[Mapping]) -> Iterator[list[FoundFile | OSError]]:
        """Provides the files of ``mappings`` of a process."""
        found = self.ask(Examiner.find, [QuestionSubject(pid, one.device, (one,)) for one in mappings])
        try:
            yield found
        finally:
            for where in found:
                if isinstance(where, FoundFile):
                    os.close(where.file)
