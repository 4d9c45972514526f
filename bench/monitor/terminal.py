"""Runs a program on a pseudo-terminal of its own: counts and searches what the program writes, and types
keys."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from bench.measuring.program import ROOT
from stalltop.model.errors import StalltopError

WIDTH, HEIGHT = 120, 40
WAIT_SECONDS: Final = 120.0
"""Maximum time to wait for text on the terminal, or for the end of the program."""
_TAKE_TERMINAL: Final = ': <>"$0"; exec "$@"'
"""Shell script that opens the terminal ``$0`` and then executes the program. The first terminal that a
session opens becomes its controlling terminal."""
_ALTERNATE_SCREEN: Final = b"\x1b[?1049h"
"""Sequence that a program writes before it draws a full screen."""
_ESCAPES: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class OnTerminal:
    """Runs ``command`` with a terminal of its own as its controlling terminal."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        bytes_per_s: int | None = None,
    ) -> None:
        """``environment`` is added to that of the program. ``bytes_per_s`` limits how fast the program's
        output is read, as on a slow line; None: no limit."""
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        self.written_bytes = 0
        """Number of bytes that the program has written so far."""
        self._bytes_per_s = bytes_per_s
        self._raw = bytearray()
        self._record: list[tuple[float, bytes]] | None = None
        self._lock = threading.Condition()
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _TAKE_TERMINAL, os.ttyname(theirs), *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env=_environment(environment or {}),
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(timeout=5.0)
        os.close(self._ours)

    @property
    def pid(self) -> int:
        """Returns the process id of the program."""
        return self._process.pid

    def wait_for(self, text: str, *, drawn: bool = False) -> float:
        """Waits until the program has written ``text``; returns the seconds since the program's start. With
        ``drawn``, only text on the alternate screen counts.

        Raises StalltopError if the text does not come within `WAIT_SECONDS` or the program ends before.
        """
        with self._lock:
            if not self._lock.wait_for(lambda: self._shows(text, drawn) or not self._alive, WAIT_SECONDS):
                raise StalltopError(f"the screen never showed {text!r}")
            if not self._shows(text, drawn):
                raise StalltopError(f"the program ended before it showed {text!r}: {self._last_words()}")
            return time.monotonic() - self._began

    def press(self, keys: bytes) -> float:
        """Types ``keys``; returns the time at which they were typed (time.monotonic())."""
        at = time.monotonic()
        os.write(self._ours, keys)
        return at

    def record(self) -> list[tuple[float, bytes]]:
        """Starts to store the program's output. Returns the list to which each piece of output is appended
        from now on, with the time at which it was read (time.monotonic())."""
        with self._lock:
            self._record = []
            return self._record

    def leave(self) -> float:
        """Presses q; returns the seconds until the process has ended. Raises StalltopError if it does not
        end."""
        start = time.monotonic()
        os.write(self._ours, b"q")
        try:
            self._process.wait(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise StalltopError(f"the program did not end within {WAIT_SECONDS:.0f} s of q") from None
        return time.monotonic() - start

    @property
    def _alive(self) -> bool:
        return self._process.poll() is None

    def _shows(self, text: str, drawn: bool) -> bool:
        found = bytes(self._raw)
        if drawn:
            found = found.partition(_ALTERNATE_SCREEN)[2]
        return text.encode() in _ESCAPES.sub(b"", found)

    def _last_words(self) -> str:
        return _ESCAPES.sub(b"", bytes(self._raw[-400:])).decode(errors="replace").strip()

    @property
    def _at_once(self) -> int:
        """Returns the maximum number of bytes of one read: on a slow line, the number that the line carries
        in 20 ms."""
        return 1 << 16 if self._bytes_per_s is None else max(self._bytes_per_s // 50, 1)

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._ours, select.POLLIN)
        while True:
            with contextlib.suppress(OSError):  # EIO: no process has the other side of the terminal open
                poll.poll(500)
                data = os.read(self._ours, self._at_once)
                if data:
                    with self._lock:
                        self.written_bytes += len(data)
                        if self._record is not None:
                            self._record.append((time.monotonic(), data))
                        self._raw += data
                        del self._raw[: -(1 << 18)]
                        self._lock.notify_all()
                    if self._bytes_per_s is not None:
                        time.sleep(len(data) / self._bytes_per_s)
                    continue
            with self._lock:
                self._lock.notify_all()
            if not self._alive:
                return


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of this process with the variables of a true-colour terminal and with
    ``more``."""
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **more}
