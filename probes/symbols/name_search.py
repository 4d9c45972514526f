"""Searches names of CUDA kernels in files and memory of processes, by questions to a confined process. A
thread waits for the answers, because they may take seconds."""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Answerer, UnavailableError
from stalltop.probes.confined.questions import Questions, QuestionSubject

PATIENCE_SECONDS: Final = 10.0
"""Time in which a name must be found, s. Searching the code of a large library takes seconds."""
_KEPT: Final = 4096
"""Maximum number of answers that wait until they are asked for again."""


class _NameQuestion(NamedTuple):
    method: Callable[..., bytes]
    pid: int
    arguments: tuple[int, ...]


class NameSearch:
    """Searches names. Used from one thread, except for its own."""

    def __init__(self, asks: Answerer) -> None:
        self._ask = Questions(asks)
        self._asked: set[_NameQuestion] = set()
        self._answers: OrderedDict[_NameQuestion, bytes] = OrderedDict()
        self._changed = threading.Condition()
        self._questions: queue.SimpleQueue[_NameQuestion | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def text(self, pid: int, address: int, most_bytes: int, patience_seconds: float) -> bytes | None:
        """Returns the text at ``address`` in the memory of a process, up to its zero byte or ``most_bytes``;
        empty if there is none. Returns None if it is not known within ``patience_seconds``: then ask
        again."""
        return self._answer(_NameQuestion(Examiner.text, pid, (pid, address, most_bytes)), patience_seconds)

    def symbol(self, pid: int, address: int, patience_seconds: float) -> bytes | None:
        """Returns the name of the CUDA kernel for which the function at ``address`` of a process stands;
        empty if there is none. Returns None as `text` does."""
        return self._answer(_NameQuestion(Examiner.symbol, pid, (pid, address)), patience_seconds)

    def close(self) -> None:
        """Ends the thread. Does not wait for it."""
        self._questions.put(None)

    def _answer(self, question: _NameQuestion, patience_seconds: float) -> bytes | None:
        with self._changed:
            if question not in self._answers and question not in self._asked:
                self._asked.add(question)
                self._questions.put(question)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._search, name="kernel names", daemon=True)
                    self._thread.start()
            self._changed.wait_for(lambda: question in self._answers, max(patience_seconds, 0.0))
            return self._answers.pop(question, None)

    def _search(self) -> None:
        while (question := self._questions.get()) is not None:
            answer = self._found(question)
            with self._changed:
                self._asked.discard(question)
                self._answers[question] = answer
                if len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)
                self._changed.notify_all()

    def _found(self, question: _NameQuestion) -> bytes:
        self._ask.begin()
        try:
            (answer,) = self._ask.ask(
                question.method, [QuestionSubject(question.pid, None, question.arguments)]
            )
        except UnavailableError:
            return b""
        return b"" if isinstance(answer, OSError) else answer
