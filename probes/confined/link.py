"""Asks the confined process (``process``) questions, and gives it up if it does not answer."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from stalltop.model.text.clean import clean
from stalltop.probes import helpers
from stalltop.probes.confined.coding import decoded, encoded
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.messages import Received, packed, send
from stalltop.probes.confined.process import READY, signature
from stalltop.probes.python_path import python_path

T = TypeVar("T")
Arguments = Sequence[object]

PATIENCE_SECONDS: Final = 3.0
"""Time in which a question must be answered before the process is given up, s. Finding a file takes some 0.1
ms, reading a library of 1 GB from a disk up to a second."""
START_SECONDS: Final = 15.0
"""Time limit for the start of the process, s. Usually it takes 0.3 s."""
MOST_LEFT: Final = 16
"""Maximum number of processes that hang in the Linux kernel, so that they cannot be killed. If there are so
many, no question is answered until one of them has ended."""
REST_SECONDS: Final = 10.0
"""Time after which the process is started again if it could not be started, s."""
_ENDING: Final = "stalltop is ending"
_AT_ONCE: Final = 64
"""Maximum number of questions that are sent together: they must fit into the socket's buffer."""
_END_SECONDS: Final = 0.1
COMMAND: Final = (sys.executable, "-P", "-m", "stalltop.probes.confined.process")


class NoAnswerError(OSError):
    """A file or a process did not let itself be examined; the text says why."""

    def __init__(
        self, why: str, still_hangs: Callable[[], bool] = lambda: False, *, busy: bool = False
    ) -> None:
        super().__init__(errno.ETIMEDOUT, why)
        self.busy = busy
        """Whether the process that examined it was computing, and did not wait for a file system."""
        self.still_hangs = still_hangs
        """Returns whether the process that examined it still hangs in the Linux kernel."""


class UnavailableError(OSError):
    """There is no confined process; the text says why."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ECHILD, why)


class BusyError(OSError):
    """The confined process did not get to the question in time."""

    def __init__(self) -> None:
        super().__init__(errno.EBUSY, "the process that examines files is busy")


class Answerer(Protocol):
    """Answers questions: methods of `Examiner`."""

    def ask(self, question: Callable[..., T], given: Iterable[Arguments]) -> list[T | OSError]:
        """Returns the answers of ``question``, once for each of the arguments ``given``, or the error that it
        raised. Ends with the first one that gets no answer (NoAnswerError). Descriptors among the arguments
        are copied; those of answers belong to the caller."""
        ...


class Here:
    """Answers questions in this process, without any protection."""

    def __init__(self) -> None:
        self._examiner = Examiner()

    def ask(self, question: Callable[..., T], given: Iterable[Arguments]) -> list[T | OSError]:
        """See `Answerer`."""
        answers: list[T | OSError] = []
        kinds = signature(question.__name__).arguments
        for arguments in given:
            descriptors: list[int] = []
            coded = [encoded(kind, one, descriptors) for kind, one in zip(kinds, arguments, strict=True)]
            copies = [os.dup(fd) for fd in descriptors]
            values = [decoded(kind, one, copies) for kind, one in zip(kinds, coded, strict=True)]
            try:
                answers.append(getattr(self._examiner, question.__name__)(*values))
            except OSError as error:
                answers.append(error)
        return answers


class Confined:
    """Questions to a confined process, which is started again if it ends or does not answer. May be used from
    several threads; they wait for each other."""

    def __init__(self, command: Sequence[str] = COMMAND, patience_seconds: float | None = None) -> None:
        self._command = command
        self._patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._left: list[_Process] = []
        """Processes that were killed and have not ended."""
        self._closed = False
        self._rest_until = 0.0
        """After a start that failed: the process is not started again before this monotonic time."""
        self._why = ""
        """Why it could not be started."""

    def begin(self) -> None:
        """Starts the process, so that it is ready when the first question is asked. Does not wait for it, and
        does not raise."""
        with self._lock, contextlib.suppress(OSError):
            self._running()

    def impatient(self, seconds: float) -> Answerer:
        """Returns what asks as this does, but waits for questions of other threads for at most ``seconds`` in
        all, counted from now. After that, its answers are BusyError."""
        return _Impatient(self, time.monotonic() + seconds)

    def _hanging(self) -> int:
        """Returns the number of processes that hang in the Linux kernel."""
        self._left = [process for process in self._left if not process.ended()]
        return len(self._left)

    def ask(
        self, question: Callable[..., T], given: Iterable[Arguments], until: float | None = None
    ) -> list[T | OSError]:
        """See `Answerer`. After a question without an answer the process is replaced. If the process cannot
        be started, the last answer is UnavailableError; if questions of other threads take longer than the
        monotonic time ``until``, the only one is BusyError."""
        answers: list[T | OSError] = []
        waiting = [*given]
        left = -1.0 if until is None else max(until - time.monotonic(), 0.0)
        if not self._lock.acquire(timeout=left):
            return [BusyError()]
        try:
            while len(answers) < len(waiting):
                some = waiting[len(answers) : len(answers) + _AT_ONCE]
                try:
                    process = self._running()
                    process.await_start()
                except UnavailableError as error:
                    self._start_failed(error)
                    return [*answers, error]
                found = process.answers(question.__name__, some, self._patience)
                answers += found
                if len(found) < len(some):
                    self._give_up()
                    return [*answers, self._unanswered(process)]
        finally:
            self._lock.release()
        return answers

    def close(self) -> None:
        """Ends the process, also while a question waits for its answer. May be called twice."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        if self._lock.acquire(timeout=_END_SECONDS):
            try:
                self._give_up()
            finally:
                self._lock.release()

    def _unanswered(self, process: _Process) -> OSError:
        if self._closed:
            return UnavailableError(_ENDING)
        if not process.is_late:
            return NoAnswerError("examining it ended the confined process")
        if process.is_busy:
            return NoAnswerError(f"examining it takes more than {self._patience:g} s", busy=True)
        why = f"its file system has not answered for {self._patience:g} s"
        return NoAnswerError(why, lambda: not process.ended())

    def _running(self) -> _Process:
        """Returns the confined process, started if there is none. Raises UnavailableError if it cannot be
        started."""
        if self._closed:
            raise UnavailableError(_ENDING)
        if self._process is None:
            if time.monotonic() < self._rest_until:
                raise UnavailableError(self._why)
            if self._hanging() >= MOST_LEFT:
                raise UnavailableError(f"{MOST_LEFT} processes that examined files hang in file systems")
            try:
                self._process = _Process(self._command)
            except OSError as error:
                raise UnavailableError(f"cannot be examined: {error.strerror or error}") from None
        return self._process

    def _start_failed(self, error: UnavailableError) -> None:
        self._rest_until = time.monotonic() + REST_SECONDS
        self._why = error.strerror or ""
        self._give_up()

    def _give_up(self) -> None:
        process, self._process = self._process, None
        if process is not None and not process.end():
            self._left.append(process)


class _Impatient:
    def __init__(self, confined: Confined, until: float) -> None:
        self._confined = confined
        self._until = until

    def ask(self, question: Callable[..., T], given: Iterable[Arguments]) -> list[T | OSError]:
        """See `Answerer`."""
        return self._confined.ask(question, given, self._until)


class _Process:
    """One confined process. Raises OSError if it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # OpenBLAS would start threads, and rights belong to threads.
                env={"PYTHONPATH": python_path(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # Signals of the terminal must not reach the process.
            )
        except BaseException:
            self._connection.close()
            raise
        finally:
            theirs.close()
        helpers.started(self._process)
        self._received = Received(self._connection)
        self._poll = select.poll()
        self._poll.register(self._connection, select.POLLIN)
        self._ready = False
        self.is_late = False
        """Whether a question got no answer in time."""
        self.is_busy = False
        """Whether the process was computing when a question got no answer in time."""

    def answers(self, name: str, given: Sequence[Arguments], patience_seconds: float) -> list[Any]:
        """Returns the answers of the question ``name``: less than one for each of the arguments ``given`` if
        the process does not answer or has ended."""
        kinds, answer = signature(name)
        files: list[int] = []
        found: list[Any] = []
        try:
            questions = [
                [name, [encoded(kind, one, files) for kind, one in zip(kinds, arguments, strict=True)]]
                for arguments in given
            ]
            send(self._connection, packed(questions), files)
            while len(found) < len(given):
                message = self._next(patience_seconds)
                if not isinstance(message, list) or len(message) not in (1, 2):
                    raise ValueError("not an answer")
                if len(message) == 2:
                    code, text = decoded(tuple[int, str], message, [])
                    found.append(OSError(code, text))
                    continue
                descriptors = list(self._received.descriptors)
                count = len(descriptors)
                found.append(decoded(answer, message[0], descriptors))
                for _ in range(count - len(descriptors)):
                    self._received.descriptors.popleft()
            self._received.close()  # No answer has the files that are left.
        except TimeoutError:
            self.is_late, self.is_busy = True, _runs(self._process.pid)
        # The process has ended, or sends something else than answers: it may have been taken over.
        except (OSError, ValueError):
            pass
        return found

    def kill(self) -> None:
        """Kills the process. It ends only when the call in which it hangs can be ended."""
        self._process.kill()

    def end(self) -> bool:
        """Kills the process; returns whether it has ended."""
        self.kill()
        self._connection.close()
        self._received.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        return self.ended()

    def ended(self) -> bool:
        """Returns whether the process has ended."""
        return self._process.poll() is not None

    def await_start(self) -> None:
        """Waits until the process is confined. Raises UnavailableError."""
        if self._ready:
            return
        try:
            why = decoded(str, self._next(START_SECONDS), [])
        except (OSError, ValueError):
            why = "the process that examines files cannot be started"
        if why != READY:
            raise UnavailableError(clean(why))
        self._ready = True

    def _next(self, patience_seconds: float) -> Any:
        """Returns the next message. Raises OSError if none comes in time, and ValueError."""
        end = time.monotonic() + patience_seconds
        while (message := self._received.take()) is None:
            if not self._poll.poll(max(end - time.monotonic(), 0.0) * 1000):
                raise TimeoutError
            self._received.receive()
        return message


def _runs(pid: int) -> bool:
    """Returns whether a process computes, or waits for a CPU, now."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"R"
    except OSError:
        return False
