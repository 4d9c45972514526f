"""Tests the screen on real tracing in a terminal multiplexer: tmux presses keys and reads the screen."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stalltop.model.errors import StalltopError
from stalltop.model.text import figures
from stalltop.recordings.read.reading import load, open_file
from tests.kernel.harness import wait_until

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_SECONDS = 120.0
"""Longest wait: before the first picture stalltop compiles and loads its BPF programs and starts the
tenants."""
TITLE = re.compile(r"^[╭├]?─ [⁰⁴-⁹¹²³](containers|operations|processes)\b", re.MULTILINE)
"""Matches the line of the frame above a table, which has the table's number, and captures the kind of
rows."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace"),
    pytest.mark.skipif(
        shutil.which("tmux") is None, reason="tmux is not installed: ./run-tests installs it as root"
    ),
    pytest.mark.timeout(900),
]

PAST_SECONDS = 3.0
"""After this many seconds the oldest and the newest window end in different seconds of the clock, so that a
step back changes the time on the screen."""


class Tmux:
    """A shell in a separate tmux server, without the user's settings."""

    def __init__(self, socket: Path, state: Path) -> None:
        self._socket = socket
        dropped = ("TMUX", "TMUX_PANE", "NO_COLOR", "LC_CTYPE", "LANG")
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in dropped},
            "LC_ALL": "C.UTF-8",
            "PS1": "$ ",
            "XDG_STATE_HOME": str(state),
        }

    def call(self, *arguments: str) -> str:
        """Run a command of tmux and return its output."""
        done = subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), "-f", "/dev/null", *arguments],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def text(self) -> str:
        """Return the text on the terminal."""
        return self.call("capture-pane", "-p")

    def all_text(self) -> str:
        """Return the text on the terminal and what has scrolled out of it."""
        return self.call("capture-pane", "-p", "-S", "-")

    def press(self, *keys: str) -> None:
        """Press keys, given by tmux's names."""
        self.call("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type ``text`` literally."""
        self.call("send-keys", "-l", text)

    def start(self, *arguments: str, then: str) -> None:
        """Start stalltop as ``./stalltop`` does; at its end the shell prints ``then`` and the exit code."""
        program = shlex.join([sys.executable, "-P", "-m", "stalltop", *arguments])
        self.type(f'{program}; echo "{then} $?"')
        self.press("Enter")

    def until(self, right: Callable[[str], object], what: str) -> str:
        """Wait until ``right`` accepts the text on the terminal, and return it."""
        shown = ""

        def look() -> bool:
            nonlocal shown
            shown = self.text()
            return bool(right(shown))

        try:
            wait_until(look, deadline=DEADLINE_SECONDS, step=0.1, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{shown}") from None
        return shown

    def sees(self, *words: str) -> str:
        """Wait until all of ``words`` are shown."""
        return self.until(lambda shown: all(word in shown for word in words), f"{words}")


@contextmanager
def tmux(state: Path) -> Iterator[Tmux]:
    # The path of a socket may have at most 107 bytes; pytest's folders can be longer.
    with tempfile.TemporaryDirectory(prefix="stalltop-tmux-") as folder:
        one = Tmux(Path(folder) / "socket", state)
        one.call("new-session", "-d", "-x", "120", "-y", "40", "sh")
        try:
            one.call("set-option", "-g", "status", "off")
            yield one
        finally:
            one.call("kill-server")


def tables(shown: str) -> list[str]:
    """Return the titles of the tables on the screen."""
    return TITLE.findall(shown)


def held(shown: str) -> str:
    """Return the time of day at which the screen is frozen, or '' if it is not."""
    found = re.search(r"FROZEN (\d\d:\d\d:\d\d)", shown)
    return found[1] if found else ""


def test_the_screen_is_driven_from_the_first_picture_to_a_saved_window(tmp_path: Path) -> None:
    with tmux(tmp_path) as screen:
        screen.start("demo", "trio", "--no-config", "--no-state", then="the screen left with")
        shown = screen.sees("LIVE DEMO", "bert-trainer", "chat-server", "notebook-anna")
        assert "SIMULATED" not in shown
        began = time.monotonic()
        screen.until(lambda shown: tables(shown) == ["containers", "operations"], "both tables")

        screen.press("o")
        screen.until(lambda shown: tables(shown)[:1] == ["operations"], "operations in the first table")
        screen.sees("cudaLaunchKernel", "cudaStreamSynchronize")
        screen.press("Enter")
        screen.sees("operations › ")
        screen.press("Escape")
        screen.until(lambda shown: "operations › " not in shown, "all operations again")

        screen.type("/cuda")
        screen.sees("filter: cuda")
        screen.press("Enter")
        screen.sees("filter: cuda", " q Quit")
        screen.press("Escape")
        screen.until(lambda shown: "filter: cuda" not in shown, "the filter cleared")

        wait_until(lambda: time.monotonic() - began > PAST_SECONDS, what="past moments")
        screen.press("Space")
        now = held(screen.until(held, "a frozen screen"))

        def earlier(shown: str) -> bool:
            # Two windows may end in the same second of the clock, so step back until the time shown differs.
            screen.press("[")
            return held(shown) not in ("", now)

        screen.until(earlier, "a moment before")
        screen.press("Space")
        screen.sees("LIVE DEMO")

        screen.call("resize-window", "-x", "80", "-y", "24")
        screen.until(lambda shown: len(shown.splitlines()) == 24 and " q Quit" in shown, "80x24")
        screen.sees("LIVE DEMO", "bert-trainer")
        screen.call("resize-window", "-x", "120", "-y", "40")
        screen.until(lambda shown: len(tables(shown)) == 2, "two tables")

        screen.press("w")
        screen.sees("Enter saves")
        screen.press("Enter")
        wait_until(
            lambda: list(tmp_path.rglob("*.stalltop")), deadline=DEADLINE_SECONDS, what="a saved window"
        )
        (file,) = tmp_path.rglob("*.stalltop")
        screen.until(lambda shown: "Enter saves" not in shown, "the dialogue closed")
        window = load(file)
        assert not window.simulated
        assert {tenant.name for tenant in window.tenants.values()} >= {"bert-trainer", "chat-server"}

        screen.press("q")
        screen.sees("the screen left with 0")
        left = screen.all_text()
        assert "cudaLaunchKernel" in left.rpartition("-m stalltop demo trio")[2]

        screen.start("open", "--no-config", "--no-state", str(file), then="the file left with")
        screen.sees("SAVED ", "bert-trainer", " q Quit")
        screen.press("o")
        screen.until(lambda shown: tables(shown)[:1] == ["operations"], "operations in the first table")
        screen.press("q")
        screen.sees("the file left with 0")
        left = screen.all_text()
        assert "cudaLaunchKernel" in left.rpartition("-m stalltop open")[2]


def test_a_recording_made_by_the_screen_can_be_played(tmp_path: Path) -> None:
    file = tmp_path / "seen.stalltop"
    with tmux(tmp_path / "state") as screen:
        options = ("--no-config", "--no-state", "--record", str(file))
        screen.start("demo", "trio", *options, then="the screen left with")
        screen.sees("LIVE DEMO", "bert-trainer", "chat-server", "REC ")
        wait_until(
            lambda: len(moments(file)) >= 5,
            deadline=DEADLINE_SECONDS,
            what="five recorded seconds",
        )
        screen.press("q")
        screen.sees("the screen left with 0")
        end = moments(file)[-1]

        screen.start(
            "open", "--no-config", "--no-state", "--window", "1", str(file), then="the file left with"
        )
        screen.sees(f"RECORDED {figures.moment(end)[:19]}", "bert-trainer", "chat-server")
        screen.type("[[")
        screen.until(lambda shown: re.search(r"RECORDED \S+ \S+ -\d+s", shown), "a moment before")
        screen.type("T")
        screen.sees("Enter goes")
        screen.type("start")
        screen.press("Enter")
        screen.until(lambda shown: "Enter goes" not in shown and held_ago(shown) >= 3, "the first moment")
        screen.type("PPP")
        screen.sees(f"RECORDED {figures.moment(end)[:19]}  ", "the end of the recording")
        screen.press("q")
        screen.sees("the file left with 0")
    assert len(moments(file)) >= 5, "the file is unchanged"


def moments(file: Path) -> list[float]:
    """Return the Unix times at which the windows of the recording ended; [] if the file does not exist
    yet."""
    try:
        with open_file(file) as recorded:
            return [float(end) for end in recorded.moments.end]
    except StalltopError:
        return []


def held_ago(shown: str) -> int:
    """Return how many seconds the moment on the screen lies before the end of the recording."""
    found = re.search(r"RECORDED \S+ \S+ -(\d+)s", shown)
    return int(found[1]) if found else 0
