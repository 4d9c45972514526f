"""Runs a program in a pseudo-terminal: sends keys and reads the screen with an emulator."""

from __future__ import annotations

import array
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyte

DEADLINE = 60.0
ROOT = Path(__file__).resolve().parents[2]

ALTERNATE_ON, ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
CURSOR_OFF, CURSOR_ON = b"\x1b[?25l", b"\x1b[?25h"
MOUSE_ON, MOUSE_OFF = b"\x1b[?1003h", b"\x1b[?1003l"

TAKE_TERMINAL = ("env", "--default-signal=HUP,INT,TERM", "setsid", "--ctty")
"""A command prefix that runs the program after it in a new session, with the terminal as the controlling
terminal and with default actions for HUP, INT and TERM, even if the caller of the tests ignores them.
``preexec_fn`` of subprocess is not safe while other threads run, and a Python process in between would change
the locale's variables."""


class PseudoTerminal:
    """A pseudo-terminal in which Python runs with ``arguments``: the controlling terminal of a new
    session, started in ``folder``."""

    def __init__(
        self,
        *arguments: str,
        size: tuple[int, int] = (80, 24),
        folder: Path = ROOT,
        **environment: str,
    ) -> None:
        self.ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.attributes = termios.tcgetattr(theirs)
        self.theirs_name = os.ttyname(theirs)
        self.raw = bytearray()
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self.process = subprocess.Popen(
            [*TAKE_TERMINAL, sys.executable, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=_environment(environment),
        )
        self._theirs: int | None = theirs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does."""
        for descriptor in (self.ours, self._theirs):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)
        self.ours, self._theirs = -1, None

    def read(self, seconds: float = 0.05, most: int = 65536) -> bool:
        """Read up to ``most`` bytes of output; return False if none came within ``seconds``."""
        poll = select.poll()
        poll.register(self.ours, select.POLLIN)
        if not poll.poll(int(seconds * 1000)):
            return False
        data = os.read(self.ours, most)
        self.raw += data
        self._stream.feed(data)
        return True

    def unread(self) -> int:
        """Return how many bytes of output wait to be read."""
        number = array.array("i", [0])
        fcntl.ioctl(self.ours, termios.FIONREAD, number)
        return number[0]

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def until(self, condition: Callable[[], Any], what: str = "") -> None:
        """Read output until ``condition`` holds; after ``DEADLINE`` seconds fail with ``what`` and the
        screen."""
        self._until(condition, what, self.read)

    def until_slowly(self, condition: Callable[[], Any], what: str = "", *, rate: int = 16384) -> None:
        """Read output at ``rate`` bytes per second, as over a slow connection, until ``condition`` holds."""

        def some() -> None:
            time.sleep(4096 / rate)
            self.read(0.0, most=4096)

        self._until(condition, what, some)

    def _until(self, condition: Callable[[], Any], what: str, read: Callable[[], object]) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, f"{what}\n{self.text}\n{bytes(self.raw[-600:])!r}"
            read()

    def sees(self, text: str) -> None:
        self.until(lambda: text in self.text, f"never saw {text!r}")

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, as dragging its window does."""
        self._screen.resize(rows, columns)
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Read until the program has ended, and return its exit code."""
        self.until(lambda: self.process.poll() is not None, "never ended")
        while self.read(0.1):
            pass
        assert self.process.returncode is not None
        return int(self.process.returncode)

    def restored(self) -> bool:
        """Return whether modes, screen, cursor and mouse are as they were before the program started."""
        assert self._theirs is not None
        raw = bytes(self.raw)
        return (
            termios.tcgetattr(self._theirs) == self.attributes
            and raw.rfind(ALTERNATE_OFF) > raw.rfind(ALTERNATE_ON)
            and raw.rfind(CURSOR_ON) > raw.rfind(CURSOR_OFF)
            and raw.rfind(MOUSE_OFF) >= raw.rfind(MOUSE_ON)  # equal if the mouse was never asked for
        )


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    dropped = ("NO_COLOR", "COLORTERM", "LC_ALL", "LC_CTYPE", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {
        **kept,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        **more,
    }
