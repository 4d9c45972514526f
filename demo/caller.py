"""Runs ``native/caller``: a process that calls the stand-in libraries on command, and counts its calls."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stalltop.demo.build import Built
from stalltop.demo.latencies import TABLE_VARIABLE
from stalltop.model.histograms.hdr import COUNTERS
from stalltop.model.histograms.histograms import Histograms

ANSWER_SECONDS = 60.0
"""Time limit in seconds for a command to a `Caller`, if the code that sends the command gives no other
limit."""


class CallerError(Exception):
    """A `Caller` failed to execute a command. The text is the answer of the process, or says why there is no
    answer."""


@dataclass(slots=True)
class CallsMade:
    """Calls of one function that a process made. The process itself counted and timed them."""

    calls: int = 0
    errors: int = 0
    bytes: int = 0
    total_ns: int = 0
    max_ns: int = 0
    counters: dict[int, int] = field(default_factory=dict)
    """Number of calls by index of the HDR counter; empty if the calls were not timed."""

    def histogram(self) -> Histograms:
        """Returns the timed calls as one histogram."""
        dense = np.zeros((1, COUNTERS), np.uint64)
        for index, count in self.counters.items():
            dense[0, index] = count
        return Histograms.from_dense(dense)


class Caller:
    """A running process of ``native/caller``. It ends when the ``with`` block is left, or when the Python
    process ends in any way.

    ``cgroup``: directory of the cgroup that the process joins first, or directories of several cgroups in
    different hierarchies. ``table``: file of latencies (`demo.latencies.write_table`). ``folder``: folder of
    the stand-in libraries; by default the one in which they were built. ``name``: name of the process (comm).
    ``files``: folder of the files that the process reads and writes. ``before``: a command that executes the
    program (``nsenter …``). ``variables``: additional environment of the process.
    """

    def __init__(
        self,
        built: Built,
        *,
        cgroup: Path | Sequence[Path] | None = None,
        table: Path | None = None,
        folder: Path | None = None,
        name: str = "",
        files: Path | None = None,
        before: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        command = [*before, str(built.caller)]
        for place in (cgroup,) if isinstance(cgroup, Path) else cgroup or ():
            command += ["-g", str(place / "cgroup.procs")]
        if files is not None:
            command += ["-d", str(files)]
        if name:
            command += ["-n", name]
        environment = {name: value for name, value in os.environ.items() if name != TABLE_VARIABLE}
        if table is not None:
            environment[TABLE_VARIABLE] = str(table)
        environment |= variables or {}
        self._process = subprocess.Popen(
            [*command, str(folder or built.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,
        )
        self._unread = b""
        self._waiting = True

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Returns the PID of the process, in the PID namespace of the Python process."""
        return self._process.pid

    def tell(self, command: str) -> None:
        """Sends a command of ``native/caller/caller.c``. Does not wait for the answer, which `answer` or
        the next call of `tell` reads. Raises CallerError if the process is gone, or if the previous command
        failed and its answer was not read."""
        if self._waiting:
            # This reads the answer to the previous command, or the line that a new process writes when it is
            # ready.
            self.answer()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command.encode() + b"\n")
        except (OSError, ValueError) as error:  # ValueError means that the pipe was closed.
            raise CallerError(f"cannot send the command {command!r}: {error}") from error
        self._waiting = True

    def answer(self, seconds: float = ANSWER_SECONDS) -> list[str]:
        """Returns the lines of the answer to the last command. The last line begins with ``ok``, which is
        removed. Raises CallerError if the command failed, or if there is no answer within ``seconds``."""
        deadline = time.monotonic() + seconds
        lines: list[str] = []
        while True:
            line = self._line(deadline)
            if line == "ok" or line.startswith("ok "):
                self._waiting = False
                return [*lines, line[3:]]
            if line.startswith("error "):
                self._waiting = False
                raise CallerError(line[6:])
            lines.append(line)

    def do(self, command: str, seconds: float = ANSWER_SECONDS) -> list[str]:
        """Calls `tell` and then `answer`, so it returns when the command has been executed."""
        self.tell(command)
        return self.answer(seconds)

    def run(self, items: str, *, threads: int = 1, cycles: int = 1, timed: bool = True) -> float:
        """Makes the calls of ``items``, and waits until they are done. Returns how many seconds they took."""
        verb = "run" if timed else "burst"
        return int(self.do(f"{verb} {threads} {cycles} {items}")[-1]) / 1e9

    def start(self, items: str, *, threads: int = 1, cycles: int = 0) -> None:
        """Starts the calls of ``items`` in background threads. The threads end after ``cycles`` cycles. If
        ``cycles`` is 0, they continue until ``stop``."""
        self.do(f"start {threads} {cycles} {items}")

    def stop(self) -> None:
        """Ends the threads that `start` has started. Each thread first completes its present call."""
        self.do("stop")

    def change(self, items: str, *, threads: int = 1, seconds: float = ANSWER_SECONDS) -> None:
        """Ends the threads that `start` has started, and starts others with ``items``. Each thread first
        completes its present cycle."""
        self.do("finish", seconds)
        self.start(items, threads=threads)

    def report(self) -> dict[str, CallsMade]:
        """Returns the calls that the process has made so far, by symbol (including the variant, such as
        ``_v2``)."""
        found: dict[str, CallsMade] = {}
        for line in self.do("report")[:-1]:
            _, symbol, *words = line.split(" ")
            made = found.setdefault(symbol, CallsMade())
            calls, errors, size, total_ns, max_ns = map(int, words[:5])
            made.calls += calls
            made.errors += errors
            made.bytes += size
            made.total_ns += total_ns
            made.max_ns = max(made.max_ns, max_ns)
            for word in words[5:]:
                index, count = map(int, word.split(":"))
                made.counters[index] = made.counters.get(index, 0) + count
        return found

    def leave(self, code: int = 0) -> int:
        """Makes the process call exit(``code``), and waits until it has ended. Returns its exit status. If a
        signal ended it, returns the negative number of the signal."""
        self.tell(f"exit {code}")
        return self.wait()

    def kill(self) -> int:
        """Kills the process with SIGKILL, and waits until it has ended. Returns its exit status (-9)."""
        self._process.kill()
        return self.wait()

    def wait(self, seconds: float = ANSWER_SECONDS) -> int:
        """Waits until the process has ended. Returns its exit status or, if a signal ended it, the negative
        number of the signal. Raises subprocess.TimeoutExpired after ``seconds``."""
        return self._process.wait(seconds)

    def close(self) -> None:
        """Ends the process and closes its pipes. May be called twice."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def _line(self, deadline: float) -> str:
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise CallerError("no answer in time")
            data = os.read(output, 1 << 16)
            if not data:
                raise CallerError(f"ended with status {self._process.wait()}")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()
