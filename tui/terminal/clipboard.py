"""Copies text to every place from which the user can paste it, and reports where it went.

A program can only request that the terminal sets the clipboard (escape sequence OSC 52). It gets no answer.
tmux ignores such a request from programs inside it (its default, ``set-clipboard external``), but its own
command ``load-buffer -w`` puts the text into a buffer of tmux, and requests that the outer terminal sets its
clipboard. A file with the text that was copied last works everywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stalltop.files.places import copied_path, state_directory
from stalltop.files.private_file import replace_file

TMUX_SECONDS: Final = 1.0
"""Maximum time that tmux may take, seconds; it answers within milliseconds."""
_MOST_PARENTS: Final = 8
"""Maximum number of ancestor processes whose environment is searched for tmux."""
_NAMES: Final = ("TMUX", "TMUX_PANE")


@dataclass(frozen=True, slots=True)
class Copied:
    """Where a text was copied to."""

    tmux: bool = False
    """Whether tmux has the text in its newest buffer."""
    asked: str = ""
    """The receiver of a request to set the clipboard, such as ``the terminal``. It does not report whether it
    did. Empty: no request was sent."""
    file: Path | None = None
    """The file with the text; None if it could not be written."""

    @property
    def said(self) -> str:
        """Return where the text was copied to, as the beginning of a message."""
        file = _short(self.file) if self.file is not None else ""
        if self.tmux:
            return "copied to tmux's buffer (prefix ] pastes it)" + (f" and {file}" if file else "")
        if self.asked:
            sent = f"sent to {self.asked}'s clipboard, if it allows that"
            return f"{sent}; also in {file}" if file else sent
        return f"copied to {file}" if file else "could not be copied"


def _short(path: Path) -> str:
    """Return ``path`` with ``~`` for the home directory."""
    home = os.path.expanduser("~")
    text = str(path)
    return f"~{text[len(home) :]}" if home != "/" and text.startswith(f"{home}/") else text


def into_tmux(text: str) -> bool:
    """Put ``text`` into a buffer of the tmux that shows this program. Return False if there is none, or if it
    does not take the text."""
    where = tmux_environment()
    program = shutil.which("tmux")
    if not where or program is None:
        return False
    # Before tmux 3.2, load-buffer has no option -w.
    return any(
        _runs([program, "load-buffer", *option, "-"], text, {**os.environ, **where})
        for option in (["-w"], [])
    )


def _runs(command: list[str], text: str, environment: dict[str, str]) -> bool:
    try:
        ran = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=TMUX_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return ran.returncode == 0


def tmux_environment(proc: Path = Path("/proc")) -> dict[str, str]:
    """Return the variables by which programs find the tmux that they run in; empty if this program runs in
    none.

    ``sudo`` drops these variables. Therefore, after ``sudo`` they are also looked up in the environments of
    up to ``_MOST_PARENTS`` ancestors of this program.
    """
    if os.environ.get("TMUX"):
        return {name: os.environ[name] for name in _NAMES if name in os.environ}
    if "SUDO_UID" not in os.environ:
        return {}
    pid = os.getppid()
    for _ in range(_MOST_PARENTS):
        if pid <= 1:
            break
        try:
            lines = (proc / str(pid) / "environ").read_bytes().split(b"\0")
            parent = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1]
        except (OSError, IndexError):
            break
        known = dict(line.decode(errors="replace").partition("=")[::2] for line in lines if b"=" in line)
        if known.get("TMUX"):
            return {name: known[name] for name in _NAMES if name in known}
        pid = int(parent)
    return {}


def into_file(text: str) -> Path | None:
    """Write ``text`` into the file for copied text, which only its user may read. Return its path; None if it
    cannot be written."""
    for path in dict.fromkeys((copied_path(), state_directory() / "copied")):
        try:
            replace_file(path, (text.rstrip("\n") + "\n").encode(errors="replace"))
        except OSError:
            continue
        return path
    return None
