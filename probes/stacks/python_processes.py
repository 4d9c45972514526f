"""Remembers the interpreters of processes, so that each is found once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from stalltop.probes.stacks.code_objects import CodeObjects, PythonFrame, SourceLine
from stalltop.probes.stacks.frames_outside import frames_of
from stalltop.probes.stacks.interpreter import Interpreter, interpreter_of
from stalltop.probes.stacks.layouts import PythonLayout
from stalltop.probes.stacks.threads import PythonThread, threads_of

_MOST_PROCESSES: Final = 256


class PythonProcess(NamedTuple):
    """A process that runs Python code."""

    layout: PythonLayout
    threads: tuple[PythonThread, ...]
    runtime: int = 0
    """Address of ``_PyRuntime``."""
    runtime_bytes: int = 0


class PythonProcesses:
    """Reads Python processes. Used from one thread. All methods raise OSError if a process is gone."""

    def __init__(self) -> None:
        self._interpreters: OrderedDict[int, Interpreter] = OrderedDict()
        self._codes = CodeObjects()

    def process(self, pid: int) -> PythonProcess | None:
        """Returns the interpreter and the threads of a process; None if it runs no Python code. Raises
        UnknownInterpreterError."""
        known = self._interpreters.get(pid)
        if known is not None:
            try:
                threads = threads_of(pid, known)
            except OSError:
                threads = ()
            if threads:
                return PythonProcess(known.layout, threads, known.runtime, known.runtime_bytes)
        self._forget(pid)  # It may execute another program by now.
        found = interpreter_of(pid)
        if found is None:
            return None
        self._interpreters[pid] = found
        while len(self._interpreters) > _MOST_PROCESSES:
            self._forget(next(iter(self._interpreters)))
        return PythonProcess(found.layout, threads_of(pid, found), found.runtime, found.runtime_bytes)

    def lines(self, pid: int, frames: tuple[PythonFrame, ...]) -> tuple[SourceLine, ...]:
        """Returns the line of each of ``frames`` of a process; none if it runs no Python code."""
        if pid not in self._interpreters:
            self.process(pid)  # The confined process, of which this is a part, may have been started again.
        known = self._interpreters.get(pid)
        return () if known is None else self._codes.lines(pid, known.layout, frames)

    def frames(self, pid: int, tid: int) -> tuple[PythonFrame, ...]:
        """Returns the Python frames of a thread, innermost first, read while it runs; none if it has none,
        or if they changed meanwhile."""
        process = self.process(pid)
        if process is None:
            return ()
        for thread in process.threads:
            if thread.tid == tid:
                return frames_of(pid, process.layout, thread)
        return ()

    def _forget(self, pid: int) -> None:
        self._interpreters.pop(pid, None)
        self._codes.forget(pid)
