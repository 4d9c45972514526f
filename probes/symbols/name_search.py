"""Searches names of CUDA kernels in files and memory of processes, by questions to a confined process. A
thread waits for the answers, because they may take seconds."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stalltop.probes.confined.link import Answerer, UnavailableError
from stalltop.probes.confined.questions import Questions, QuestionSubject

_AT_ONCE: Final = 64
"""Maximum number of questions that are asked together."""
_KEPT: Final = 4096
"""Maximum number of answers that wait until they are asked for again."""


class NotYetError(Exception):
    """There is no answer yet."""


class _NameQuestion(NamedTuple):
    method: Callable[..., bytes | None]
    arguments: tuple[int, ...]
    """The PID is the first one."""


class NameSearch:
    """Searches names. Used from one thread, except for its own."""

    def __init__(self, asks: Answerer) -> None:
        self._ask = Questions(asks)
        self._asked: set[_NameQuestion] = set()
        self._answers: OrderedDict[_NameQuestion, bytes | None] = OrderedDict()
        self._changed = threading.Condition()
        self._questions: queue.SimpleQueue[_NameQuestion | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def found(
        self, question: Callable[..., bytes | None], pid: int, *arguments: int, patience_seconds: float
    ) -> bytes | None:
        """Returns the answer of ``question``, a method of `Examiner`, about process ``pid`` and
        ``arguments``; None if nothing can be found. Raises NotYetError if there is no answer within
        ``patience_seconds``: then ask again."""
        asked = _NameQuestion(question, (pid, *arguments))
        with self._changed:
            if asked not in self._answers and asked not in self._asked:
                self._asked.add(asked)
                self._questions.put(asked)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._search, name="kernel names", daemon=True)
                    self._thread.start()
            if not self._changed.wait_for(lambda: asked in self._answers, max(patience_seconds, 0.0)):
                raise NotYetError
            return self._answers.pop(asked)

    def close(self) -> None:
        """Ends the thread. Does not wait for it."""
        self._questions.put(None)

    def _search(self) -> None:
        while (question := self._questions.get()) is not None:
            together = [question]
            with contextlib.suppress(queue.Empty):
                while len(together) < _AT_ONCE and (question := self._questions.get_nowait()) is not None:
                    together.append(question)
            for method, some in itertools.groupby(together, key=lambda question: question.method):
                self._answer(method, [*some])
            if question is None:
                return

    def _answer(self, method: Callable[..., bytes | None], questions: Sequence[_NameQuestion]) -> None:
        self._ask.begin()
        subjects = [
            QuestionSubject(question.arguments[0], None, question.arguments) for question in questions
        ]
        answers: Sequence[bytes | OSError | None] = [None] * len(questions)
        with contextlib.suppress(UnavailableError):
            answers = self._ask.ask(method, subjects)
        with self._changed:
            for question, answer in zip(questions, answers, strict=True):
                self._asked.discard(question)
                self._answers[question] = None if isinstance(answer, OSError) else answer
            while len(self._answers) > _KEPT:
                self._answers.popitem(last=False)
            self._changed.notify_all()
