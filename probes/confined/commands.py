"""Reads the command lines of processes, and which of them run Python.

A process can have its command line on a page of a file system that does not answer, and then whoever reads it
hangs. So the confined process reads, and no window waits long for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final

from stalltop.probes.aside import Aside
from stalltop.probes.confined.examiner import Examiner, RunningProgram
from stalltop.probes.confined.link import Answerer, NoAnswerError, UnavailableError
from stalltop.probes.confined.questions import Questions, QuestionSubject

KEPT_SAMPLES: Final = 10
"""A process is read again after this many samples, because it may run another program by then."""
WINDOW_SECONDS: Final = 0.1
"""For how long a window waits for answers, s. Later ones are for the next window."""
_NUMBER: Final = re.compile(rb"\d+")
_UNKNOWN: Final = RunningProgram(b"", False)
_NOT_READ: Final = (0, _UNKNOWN)


class ProcessCommands:
    """Command lines of processes. Used from one thread."""

    def __init__(self, asks: Answerer, root: Path = Path("/")) -> None:
        """``root`` contains ``/proc``."""
        self._questions = Questions(asks)
        self._root = str(root)
        self._aside = Aside("commands")
        self._sample = 0
        self._known: dict[int, tuple[int, RunningProgram]] = {}
        """By PID: in which sample it was read, and what it runs."""

    def begin(self) -> None:
        """Begins a window: forgets what was read some windows ago."""
        self._sample += 1
        for pid, (sample, _) in list(self._known.items()):
            if self._sample - sample > KEPT_SAMPLES:
                del self._known[pid]

    def commands(self, pids: Collection[int]) -> dict[int, bytes]:
        """Returns the command lines of ``pids`` without the numbers in them; b'' if a process is gone, or
        does not answer."""
        return {pid: _NUMBER.sub(b"", runs.command) for pid, runs in self._running(pids).items()}

    def python(self, pids: Collection[int]) -> tuple[int, ...]:
        """Returns those of ``pids`` that run Python."""
        return tuple(pid for pid, runs in self._running(pids).items() if runs.is_python)

    def close(self) -> None:
        """Lets the thread that asks end. May be called twice."""
        self._aside.close()

    def _running(self, pids: Collection[int]) -> dict[int, RunningProgram]:
        wanted = [pid for pid in pids if pid not in self._known]
        if wanted:
            self._aside.call(partial(self._ask, wanted), WINDOW_SECONDS)
        return {pid: self._known.get(pid, _NOT_READ)[1] for pid in pids}

    def _ask(self, pids: Collection[int]) -> None:
        sample = self._sample
        self._questions.begin()
        try:
            answers = self._questions.ask(
                Examiner.running, [QuestionSubject(pid, None, (self._root, pid)) for pid in pids]
            )
        except UnavailableError:
            return
        for pid, answer in zip(pids, answers, strict=True):
            # What is left alone is asked about again when it may answer.
            if not isinstance(answer, NoAnswerError):
                self._known[pid] = sample, _UNKNOWN if isinstance(answer, OSError) else answer
