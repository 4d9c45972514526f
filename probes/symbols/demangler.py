"""Demangles C++ names with the platform's own library, in a separate process.

The names come from programs that are traced. A malicious name may hang or end that process
(``demangler_process``), but never this one. A name that gets no answer stays mangled.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from stalltop.probes import helpers
from stalltop.probes.symbols.demangler_process import LIBRARIES

WAIT_SECONDS: Final = 0.01
"""Time for which one window waits for answers, s. Answers that are not there by then belong to the next
window. Demangling a name takes about 20 microseconds."""
START_SECONDS: Final = 10.0
"""Time limit for the start of the process, s. Usually it takes 0.05 s."""
LATE_SECONDS: Final = 2.0
"""Time for which the process may give no answer while it has names to demangle, s. The process ends itself if
a name takes 0.2 s of CPU time. This limit is for a process that is stopped or gets no CPU."""
MOST_DEATHS, DEATHS_SECONDS = 4, 60.0
"""Number of times that the process may end, and a time in seconds. If it ended this often within this time,
it is not started again until the time has passed."""
MOST_BYTES: Final = 4096
"""Longest name that is demangled, bytes."""
_AT_ONCE: Final = 64
"""Maximum number of names that are sent together."""
_REMEMBERED: Final = 65536
"""Maximum number of names that are remembered because they ended the process."""
COMMAND: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("demangler_process.py")))


def is_mangled(name: bytes) -> bool:
    """Returns whether ``name`` is a mangled name that can be demangled. Names without the prefix ``_Z`` are
    excluded: the library would take ``i``, for example, for the mangled name of the type int."""
    return name.startswith(b"_Z") and len(name) <= MOST_BYTES and b"\0" not in name


class DemanglerEndedError(Exception):
    """The process has ended, is late, or has sent an answer without a request."""


class Demangler:
    """Demangles names. If a name ends the process that demangles, starts a new one. May be used from several
    threads."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: _DemanglerProcess | None = None
        self._deaths: deque[float] = deque(maxlen=MOST_DEATHS)
        self._ended_it: set[int] = set()
        """Hashes of names that ended the process. These names are not sent again."""
        self.no_library = False
        """Whether this host has no library that demangles."""
        self._closed = False

    @property
    def unavailable(self) -> str:
        """Returns why names stay mangled; '' if they are demangled."""
        if self.no_library:
            return f"neither {' nor '.join(LIBRARIES)} is on this host"
        if self._resting():
            return f"the process that demangles them ended {MOST_DEATHS} times within a minute"
        return ""

    def prepare(self) -> None:
        """Starts the process, so that it is ready when the first name is to be demangled. Does not wait for
        it."""
        with self._lock:
            self._running()

    def ask(self, names: Iterable[bytes]) -> dict[bytes, bytes]:
        """Returns the demangled names that arrive within ``WAIT_SECONDS``, by mangled name. This includes
        answers to names of earlier calls.

        If the library does not understand a name, or the name ended the process, the answer is the name
        itself. A name without an answer has to be asked again later.
        """
        waiting = dict.fromkeys(filter(is_mangled, names))
        answers = {name: name for name in waiting if hash(name) in self._ended_it}
        for name in answers:
            del waiting[name]
        with self._lock:
            end = time.monotonic() + WAIT_SECONDS
            while waiting and (process := self._running()) is not None:
                left = end - time.monotonic()
                found = self._exchange(process, waiting, max(left, 0.0))
                answers |= found
                for name in found:
                    waiting.pop(name, None)
                if left <= 0:
                    break
        return answers

    def close(self) -> None:
        """Ends the process. May be called twice."""
        with self._lock:
            self._closed = True
            self._end()

    def _exchange(
        self, process: _DemanglerProcess, names: Iterable[bytes], patience_seconds: float
    ) -> dict[bytes, bytes]:
        try:
            process.send(names)
            answers = process.receive(patience_seconds)
        except DemanglerEndedError:
            killer = self._lost(process)
            return {} if killer is None else {killer: killer}
        if process.no_library:
            self.no_library = True
            self._end()
        return answers

    def _running(self) -> _DemanglerProcess | None:
        if self._process is None and not (self._closed or self.no_library or self._resting()):
            try:
                self._process = _DemanglerProcess(self._command)
            except OSError:
                self._deaths.append(time.monotonic())
        return self._process

    def _resting(self) -> bool:
        return len(self._deaths) == MOST_DEATHS and time.monotonic() - self._deaths[0] < DEATHS_SECONDS

    def _lost(self, process: _DemanglerProcess) -> bytes | None:
        """Gives up ``process``, which has ended or hangs. Returns the name that it was demangling; None if
        there was none."""
        self._deaths.append(time.monotonic())
        self._end()
        if not process.asked:
            return None
        if len(self._ended_it) >= _REMEMBERED:
            self._ended_it.clear()
        self._ended_it.add(hash(process.asked[0]))
        return process.asked[0]

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


class _DemanglerProcess:
    """One process that demangles names. Raises OSError if it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        self.asked: deque[bytes] = deque()
        """Names that were sent and have no answer yet, in the order in which the answers come."""
        self.no_library = False
        self._ready = False
        self._unsent = b""
        self._buffer = b""
        self._heard = time.monotonic()
        """Monotonic time in seconds from which silence is measured: when the last answer came, or when names
        were sent while none was waiting for an answer."""
        # The process ends when its stdin is closed. This happens also if stalltop is killed, because no other
        # process holds a copy of that pipe.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # Signals of the terminal must not reach the process.
        )
        helpers.started(self._process)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)

    def send(self, names: Iterable[bytes]) -> None:
        """Sends some of those ``names`` that were not sent yet. Sends nothing until the process has taken all
        names that were sent before."""
        if not self._ready:
            return
        more: list[bytes] = []
        if not self._unsent and len(self.asked) < _AT_ONCE:
            known = set(self.asked)
            more = list(itertools.islice((name for name in names if name not in known), _AT_ONCE))
            self._unsent = b"".join(len(name).to_bytes(2, "big") + name for name in more)
        if not self._unsent:
            return
        try:
            self._unsent = self._unsent[os.write(self._stdin, self._unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # The process has ended, but its earlier answers can still be read.
            self._unsent = b""
            return
        if more and not self.asked:
            self._heard = time.monotonic()
        self.asked += more

    def receive(self, patience_seconds: float) -> dict[bytes, bytes]:
        """Returns some answers as soon as there are any; none if none arrives within ``patience_seconds``.
        Raises DemanglerEndedError."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if self._unsent:
            poll.register(self._stdin, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(patience_seconds * 1000)}
        if self._stdout not in ready:
            silent = time.monotonic() - self._heard
            if silent > (LATE_SECONDS if self._ready else START_SECONDS):
                raise DemanglerEndedError
            return {}
        came = os.read(self._stdout, 1 << 16)
        if not came:
            raise DemanglerEndedError
        self._heard = time.monotonic()
        self._buffer += came
        if not self._ready:
            self._ready, self.no_library = True, self._buffer[:1] != b"\1"
            self._buffer = self._buffer[1:]
        return self._answers()

    def _answers(self) -> dict[bytes, bytes]:
        found = {}
        at = 0
        while self.asked and len(self._buffer) >= at + 2:
            end = at + 2 + int.from_bytes(self._buffer[at : at + 2], "big")
            if len(self._buffer) < end:
                break
            name = self.asked.popleft()
            found[name] = self._buffer[at + 2 : end] or name
            at = end
        self._buffer = self._buffer[at:]
        if self._buffer and not self.asked:
            # An answer without a request: this is not the expected program.
            raise DemanglerEndedError
        return found

    def end(self) -> None:
        """Kills the process, and collects its exit status."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
