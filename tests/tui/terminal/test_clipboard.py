"""Tests where copied text goes: to tmux, to the terminal's clipboard, to a file; and that messages say so."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.files.places import copied_path
from stalltop.tui.terminal import clipboard
from stalltop.tui.terminal.clipboard import Copied, into_file, into_tmux, tmux_environment
from tests.tui.faults import STARVED, faulty
from tests.tui.screen import running

COMMAND = "taskset -acp 1 21741"
DEADLINE = 20.0
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def tmux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Starts a tmux server with default settings, and yields the command that talks to it."""
    folder = tmp_path_factory.mktemp("t")
    command = ["tmux", "-S", str(folder / "s"), "-f", "/dev/null"]
    free = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
    subprocess.run([*command, "new-session", "-d", "-x", "120", "-y", "40"], check=True, env=free)
    yield command
    subprocess.run([*command, "kill-server"], check=False)


def environment_in(tmux: list[str]) -> str:
    """Returns the value of TMUX for programs in this tmux."""
    form = "#{socket_path},#{pid},0"
    shown = subprocess.run([*tmux, "display-message", "-p", form], capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def buffer_of(tmux: list[str]) -> str:
    return subprocess.run([*tmux, "show-buffer"], capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("copied", "said"),
    [
        (
            Copied(tmux=True, file=Path("/run/user/7/stalltop/copied")),
            "copied to tmux's buffer (prefix ] pastes it) and /run/user/7/stalltop/copied",
        ),
        (Copied(tmux=True), "copied to tmux's buffer (prefix ] pastes it)"),
        (
            Copied(asked="the terminal", file=Path("/run/user/7/stalltop/copied")),
            "sent to the terminal's clipboard, if it allows that; also in /run/user/7/stalltop/copied",
        ),
        (Copied(asked="the browser"), "sent to the browser's clipboard, if it allows that"),
        (Copied(file=Path("/x")), "copied to /x"),
        (Copied(), "could not be copied"),
    ],
)
def test_messages_claim_no_more_than_is_known(copied: Copied, said: str) -> None:
    assert copied.said == said


def test_the_home_directory_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert Copied(file=Path("/home/ada/copied")).said == "copied to ~/copied"
    assert Copied(file=Path("/home/adam/copied")).said == "copied to /home/adam/copied"


def test_the_file_is_readable_by_its_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = into_file(f"{COMMAND}\n")
    assert path == tmp_path / "stalltop" / "copied" == copied_path()
    assert path.read_text() == f"{COMMAND}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert into_file("next") == path
    assert path.read_text() == "next\n"


@pytest.mark.parametrize("runtime", ["", "not/absolute", "/nonexistent"])
def test_without_a_runtime_directory_the_file_is_in_the_state_directory(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    assert into_file("x") == tmp_path / "state" / "stalltop" / "copied"


def test_a_file_that_cannot_be_written_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("no folder")
    assert into_file("x") is None


@needs_tmux
def test_text_reaches_the_buffer_of_tmux(tmux: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not into_tmux(COMMAND)
    monkeypatch.setenv("TMUX", environment_in(tmux))
    assert into_tmux(COMMAND)
    assert buffer_of(tmux) == COMMAND
    subprocess.run([*tmux, "kill-server"], check=True)
    assert not into_tmux(COMMAND)


@needs_tmux
def test_a_program_inside_tmux_fills_its_buffer(tmux: list[str], tmp_path: Path) -> None:
    """In a real pane with tmux's default settings, tmux ignores the clipboard sequence of a program."""
    script = tmp_path / "copy.py"
    script.write_text(
        "import sys\n"
        "from stalltop.tui.terminal.clipboard import Copied, into_file, into_tmux\n"
        f"print(Copied(tmux=into_tmux({COMMAND!r}), file=into_file({COMMAND!r})).said, flush=True)\n"
        "print('\\033]52;c;bG9zdA==\\a', end='', flush=True)\n"
        "input()\n"
    )
    root = Path(clipboard.__file__).resolve().parents[2]
    variables = f"PYTHONPATH={root}/src XDG_RUNTIME_DIR= XDG_STATE_HOME={tmp_path}/s"
    line = f"cd {root}; {variables} {sys.executable} -P {script}"
    subprocess.run([*tmux, "send-keys", line, "Enter"], check=True)
    until = time.monotonic() + DEADLINE
    while "copied to tmux's buffer (prefix ] pastes it)" not in (
        pane := subprocess.run(
            [*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True
        ).stdout
    ):
        assert time.monotonic() < until, pane
        time.sleep(0.1)
    assert buffer_of(tmux) == COMMAND
    assert (tmp_path / "s" / "stalltop" / "copied").read_text() == f"{COMMAND}\n"


def test_under_sudo_the_parents_know_the_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getppid()
    for pid, above, environ in ((parent, 7, b"A=1\0"), (7, 6, b"B=2\0TMUX=/tmp/t,1,0\0TMUX_PANE=%3\0C\0")):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a) b) S {above} 1 1")
        (folder / "environ").write_bytes(environ)
    assert tmux_environment(tmp_path) == {}
    monkeypatch.setenv("SUDO_UID", "1000")
    assert tmux_environment(tmp_path) == {"TMUX": "/tmp/t,1,0", "TMUX_PANE": "%3"}
    (tmp_path / "7" / "environ").write_bytes(b"")
    assert tmux_environment(tmp_path) == {}


@needs_tmux
async def test_in_tmux_the_screen_copies_to_its_buffer(
    tmux: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", environment_in(tmux))
    async with running(faulty(STARVED), size=(120, 40)) as screen:
        await screen.press("a", "y")
        await screen.sees("copied to tmux's buffer (prefix ] pastes it)")
        assert buffer_of(tmux) == screen.app.clipboard == "ionice -c 3 -p 201"
