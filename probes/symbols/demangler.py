"""C++ names as they stand in the source, by the platform's own library in a process of its own.

Names come from the programs that are watched: a crafted one may hang or end that process
(``demangler_process``), never this one. Whatever gets no answer keeps its mangled name.
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

from stalltop.probes.symbols.demangler_process import LIBRARIES

WAIT_SECONDS: Final = 0.01
"""How long one window may wait for answers; the next one has the rest. A name takes about 20 microseconds."""
START_SECONDS: Final = 10.0
"""How long the process may take to start; 0.05 s are usual."""
LATE_SECONDS: Final = 2.0
"""How long the process may be silent while a name is asked. It ends itself after 0.2 s of CPU time: this is
for one that is stopped or gets no CPU."""
MOST_DEATHS, DEATHS_SECONDS = 4, 60.0
"""After this many deaths within that time no process is started until that time has passed."""
MOST_BYTES: Final = 4096
"""Longest name that is demangled, bytes."""
_AT_ONCE: Final = 64
"""Names that are sent together."""
_REMEMBERED: Final = 65536
"""Number of names that ended the process that are remembered."""
COMMAND: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("demangler_process.py")))


def is_mangled(name: bytes) -> bool:
    """Whether ``name`` is worth asking for: the library takes ``i`` for a name too, that of the type int."""
    return name.startswith(b"_Z") and len(name) <= MOST_BYTES and b"\0" not in name


class DemanglerEndedError(Exception):
    """The process has ended, is late, or answers what was not asked."""


class Demangler:
    """Answers names, and starts the process anew where one ended it. May be used from several threads."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._process: _DemanglerProcess | None = None
        self._deaths: deque[float] = deque(maxlen=MOST_DEATHS)
        self._ended_it: set[int] = set()
        """Hashes of names that ended the process: they are not asked again."""
        self.no_library = False
        """Whether this host has no library that demangles."""
        self._closed = False

    @property
    def unavailable(self) -> str:
        """Why names stay mangled; empty where they do not."""
        if self.no_library:
            return f"neither {' nor '.join(LIBRARIES)} is on this host"
        if self._resting():
            return f"the process that demangles them ended {MOST_DEATHS} times within a minute"
        return ""

    def prepare(self) -> None:
        """Start the process, so that it is ready when the first name is asked. Does not wait for it."""
        with self._lock:
            self._running()

    def ask(self, names: Iterable[bytes]) -> dict[bytes, bytes]:
        """The answers that are there within ``WAIT_SECONDS``, those to names of earlier calls too.

        A name that is not understood is its own answer. One without an answer is to be asked again, later.
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
        """End the process. May be called twice."""
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
        """The name that ``process`` ended with; None where it was asked nothing."""
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
    """One such process. Raises OSError where it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        self.asked: deque[bytes] = deque()
        """Names without an answer yet, in the order in which they are answered."""
        self.no_library = False
        self._ready = False
        self._unsent = b""
        self._buffer = b""
        self._heard = time.monotonic()
        """Monotonic time, seconds: of its last answer, or of the first question since it had none open."""
        # It ends with its input, also where this program is killed: nobody else holds a copy of that pipe.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # the terminal's keys are not for it
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)

    def send(self, names: Iterable[bytes]) -> None:
        """Send some of those of ``names`` that it was not asked yet, once it took the ones before."""
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
        except BrokenPipeError:  # it ended before it got them; what it answered before is still to be read
            self._unsent = b""
            return
        if more and not self.asked:
            self._heard = time.monotonic()
        self.asked += more

    def receive(self, patience_seconds: float) -> dict[bytes, bytes]:
        """Some answers, as soon as there are any. Raises DemanglerEndedError."""
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
            raise DemanglerEndedError  # it says what nobody asked: not the process that was started
        return found

    def end(self) -> None:
        """Kill it, and collect its end."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
