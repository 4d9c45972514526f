"""Reads the command lines of processes, and which of them run Python.

A process can have its command line on a page of a file system that does not answer, and then whoever reads it
hangs. So the confined process reads, and no window waits long for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

from stalltop.probes.aside import Aside
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Answerer, UnavailableError
from stalltop.probes.confined.questions import Questions, QuestionSubject

KEPT_SAMPLES: Final = 10
"""A process is read again after this many samples, because it may run another program by then."""
WINDOW_SECONDS: Final = 0.1
"""For how long a window waits for answers, s. Later ones are for the next window."""
_NUMBER: Final = re.compile(rb"\d+")


class ProcessCommands:
    """Command lines of processes. Used from one thread."""

    def __init__(self, asks: Answerer, root: Path = Path("/")) -> None:
        """``root`` contains ``/proc``."""
        self._questions = Questions(asks)
        self._root = str(root)
        self._aside = Aside("commands")
        self._sample = 0
        self._known: dict[str, dict[int, tuple[int, Any]]] = {}
        """By question and PID: in which sample it was answered, and the answer."""

    def begin(self) -> None:
        """Begins a window: forgets what was read some windows ago."""
        self._sample += 1
        for known in self._known.values():
            for pid, (sample, _) in list(known.items()):
                if self._sample - sample > KEPT_SAMPLES:
                    del known[pid]

    def commands(self, pids: Collection[int]) -> dict[int, bytes]:
        """Returns the command lines of ``pids`` without the numbers in them; b'' if a process is gone, or
        does not answer."""
        lines = self._answers(Examiner.command, pids, b"")
        return {pid: _NUMBER.sub(b"", line) for pid, line in lines.items()}

    def python(self, pids: Collection[int]) -> tuple[int, ...]:
        """Returns those of ``pids`` that run Python."""
        return tuple(pid for pid, runs in self._answers(Examiner.runs_python, pids, False).items() if runs)

    def close(self) -> None:
        """Lets the thread that asks end. May be called twice."""
        self._aside.close()

    def _answers(self, question: Callable[..., Any], pids: Collection[int], unknown: Any) -> dict[int, Any]:
        known = self._known.setdefault(question.__name__, {})
        wanted = [pid for pid in pids if pid not in known]
        if wanted:
            self._aside.call(partial(self._ask, question, wanted, unknown), WINDOW_SECONDS)
        return {pid: known.get(pid, (0, unknown))[1] for pid in pids}

    def _ask(self, question: Callable[..., Any], pids: Collection[int], unknown: Any) -> None:
        sample, known = self._sample, self._known[question.__name__]
        self._questions.begin()
        try:
            answers = self._questions.ask(
                question, [QuestionSubject(pid, None, (self._root, pid)) for pid in pids]
            )
        except UnavailableError:
            return
        for pid, answer in zip(pids, answers, strict=True):
            known[pid] = sample, unknown if isinstance(answer, OSError) else answer
