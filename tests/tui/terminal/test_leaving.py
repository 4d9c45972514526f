"""Tests in a pseudo-terminal that every way to end stalltop restores the terminal and closes the source."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.tui.terminal.slow_line import LOW_SECONDS, offer
from tests.tui.pseudo_terminal import ALTERNATE_ON, MOUSE_ON, PseudoTerminal

PROGRAM = ("-m", "tests.tui.program")
STEADY = (b"CONTAINER", b"Quit", b"serve")
"""Words that stay in their place once they are on the screen, so that they are painted again only on a full
repaint."""


def test_leaving_with_q_keeps_the_last_table(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    with PseudoTerminal(*PROGRAM, "normal", CLOSED_FILE=str(closed)) as terminal:
        terminal.sees("train")
        terminal.press("o")
        terminal.sees("cudaStreamSynchronize")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()
        assert closed.exists()
        terminal.sees("left in order")
        after = bytes(terminal.raw).rpartition(b"\x1b[?1049l")[2].decode()
        assert "serve" in after
        assert "cudaLaunchKernel" in after


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_restore_the_terminal(number: signal.Signals, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    with PseudoTerminal(*PROGRAM, "normal", CLOSED_FILE=str(closed)) as terminal:
        terminal.sees("train")
        terminal.signal(number)
        assert terminal.wait() == 128 + number
        assert terminal.restored()
        assert closed.exists()


def test_the_screen_is_drawn_on_the_terminal_and_stderr_goes_to_its_file(tmp_path: Path) -> None:
    errors, data = tmp_path / "errors", tmp_path / "data"
    for redirected in ({2: errors}, {1: data, 2: errors}):
        start = "".join(
            f"os.dup2(os.open({str(path)!r}, os.O_WRONLY | os.O_CREAT), {number});"
            for number, path in redirected.items()
        )
        start = f"import os, sys; {start} os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        with PseudoTerminal("-c", start, *PROGRAM, "normal") as terminal:
            terminal.sees("train")
            terminal.press("q")
            assert terminal.wait() == 0
            assert terminal.restored()
        assert b"\x1b" not in errors.read_bytes()
    assert "train" in data.read_text()  # the table that is printed at the end


def test_ctrl_c_leaves_from_anywhere() -> None:
    with PseudoTerminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.press("/")
        terminal.sees("Enter keeps")
        terminal.press("\x03")
        assert terminal.wait() == 130
        assert terminal.restored()


def test_text_pasted_after_the_filter_key_runs_no_command() -> None:
    with PseudoTerminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.press("/q/cow")
        terminal.sees("/ q/cow")
        terminal.sees("filter: q/cow")
        assert terminal.process.poll() is None
        terminal.press("\x1b")
        terminal.sees("Quit")
        # Text in a bracketed paste runs no command either.
        terminal.press("/\x1b[200~qqq\x1b[201~")
        terminal.sees("filter: qqq")
        assert terminal.process.poll() is None


def test_an_exception_of_the_source_prints_one_line() -> None:
    with PseudoTerminal(*PROGRAM, "raise") as terminal:
        assert terminal.wait() == 1
        assert terminal.restored()
        raw = bytes(terminal.raw)
        assert b"stalltop: reading failed: ValueError: the probe broke (program.py:" in raw
        assert b"Traceback" not in raw
    with PseudoTerminal(*PROGRAM, "cannot") as terminal:
        assert terminal.wait() == 3
        assert b"stalltop: no eBPF here" in bytes(terminal.raw)
        assert b"use another kernel" in bytes(terminal.raw)


def test_an_exception_in_the_screen_itself_restores_the_terminal(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    with PseudoTerminal(*PROGRAM, "bug", CLOSED_FILE=str(closed)) as terminal:
        assert terminal.wait() == 1
        assert terminal.restored()
        assert closed.exists()
        assert b"AttributeError" in bytes(terminal.raw)


def test_a_hung_source_blocks_neither_keys_nor_leaving() -> None:
    with PseudoTerminal(*PROGRAM, "hang", size=(100, 24)) as terminal:
        terminal.sees("train")
        terminal.press("o")
        terminal.sees("cudaStreamSynchronize")
        terminal.sees("NO DATA")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


def test_a_lost_terminal_ends_the_program_even_where_sighup_is_ignored() -> None:
    for kind in ("normal", "nohup"):
        with PseudoTerminal(*PROGRAM, kind) as terminal:
            terminal.sees("train")
            terminal.hang_up()
            assert terminal.process.wait(60) == 129


def test_a_terminal_that_is_lost_while_it_is_written_leaves_no_traceback(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    start = (
        f"import os, sys; os.dup2(os.open({str(errors)!r}, os.O_WRONLY | os.O_CREAT), 2);"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    for number in range(5):  # not each loss happens during a write
        with PseudoTerminal("-c", start, *PROGRAM, "flood") as terminal:
            terminal.sees("CONTAINER")
            time.sleep(0.03 * number)
            terminal.hang_up()
            assert terminal.process.wait(60) == 129
        assert errors.read_text() == ""


def test_a_program_ends_although_its_terminal_is_not_read() -> None:
    with PseudoTerminal(*PROGRAM, "flood", size=(200, 60)) as terminal:
        terminal.sees("CONTAINER")
        # From here on the test reads no output: buffers and queues fill up until the thread of the screen
        # blocks.
        end = time.monotonic() + 30
        waiting, since = -1, time.monotonic()
        while time.monotonic() < min(end, since + 3):
            time.sleep(0.1)
            now = terminal.unread()
            if now != waiting:
                waiting, since = now, time.monotonic()
        terminal.signal(signal.SIGTERM)
        assert terminal.process.wait(60) == 143
        while terminal.read(0.1):
            pass
        assert terminal.restored()


def test_a_second_of_ten_busy_containers_takes_few_bytes() -> None:
    with PseudoTerminal(*PROGRAM, "steady", size=(120, 40), COLORTERM="truecolor") as terminal:
        terminal.sees("last 10s")
        # The line of the host, below the top of its box, changes once with every window, so its changes count
        # refreshes.
        before, refreshes, written = terminal.text.splitlines()[2], 0, len(terminal.raw)
        while refreshes < 10:
            terminal.until(lambda: terminal.text.splitlines()[2] != before)  # noqa: B023
            before, refreshes = terminal.text.splitlines()[2], refreshes + 1
        assert (len(terminal.raw) - written) / refreshes < 20_000
        terminal.press("q")
        assert terminal.wait() == 0


def test_a_slow_connection_skips_pictures_handles_keys_and_offers_low_bandwidth() -> None:
    with PseudoTerminal(*PROGRAM, "flood", size=(120, 40), COLORTERM="truecolor") as terminal:
        terminal.sees("CONTAINER")
        # Even on a slow machine the screen draws far more bytes than the connection takes, and notices this.
        terminal.until_slowly(lambda: offer() in terminal.text, "low bandwidth was never offered", rate=8192)
        written = len(terminal.raw)
        terminal.press("?")
        terminal.until_slowly(lambda: "Legend" in terminal.text, "no help")
        # Only a few pictures wait in the queue, which would have room for dozens (140 KB).
        assert len(terminal.raw) - written < 70_000
        terminal.press("\x1b")
        terminal.until_slowly(lambda: "CONTAINER" in terminal.text)
        terminal.press("b")
        terminal.sees("low bandwidth")
        # Pictures that were queued before the key come first.
        terminal.until(lambda: not terminal.read(0.5), "the screen is drawn without a pause")
        written, end = len(terminal.raw), time.monotonic() + 2.5 * LOW_SECONDS
        while time.monotonic() < end:
            terminal.read()
        # In this time the screen sends a header each second and at most three pictures, in which every figure
        # changes.
        assert len(terminal.raw) - written < 20_000
        terminal.press("q")
        assert terminal.wait() == 0


def test_suspending_restores_the_terminal_and_resuming_repaints_it() -> None:
    with PseudoTerminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.press("\x1a")
        terminal.until(lambda: _state(terminal.process.pid) == "T", "never stopped")
        while terminal.read(0.1):
            pass
        assert terminal.restored()
        terminal.raw.clear()
        terminal.signal(signal.SIGCONT)
        terminal.until(lambda: b"\x1b[?1049h" in bytes(terminal.raw))
        # The terminal comes back empty, so even text that never changes must be painted again.
        for word in STEADY:
            terminal.until(lambda: word in bytes(terminal.raw), f"never painted {word!r} again")  # noqa: B023
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_suspending_returns_the_terminal_to_the_shell_through_another_program() -> None:
    shell = "import os; os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])"
    with PseudoTerminal("-c", shell, PS1="ready> ", size=(120, 30)) as terminal:
        terminal.sees("ready>")
        terminal.press(f"timeout --foreground 100 {sys.executable} -m tests.tui.program normal\n")
        terminal.sees("train")
        terminal.press("\x1a")
        terminal.until(
            lambda: b"Stopped" in bytes(terminal.raw), "the shell does not report the suspended program"
        )
        terminal.press("echo $((40 + 2))answered\n")
        terminal.until(lambda: b"42answered" in bytes(terminal.raw), "the shell does not get the terminal")
        terminal.raw.clear()
        terminal.press("fg\n")
        terminal.until(lambda: ALTERNATE_ON in bytes(terminal.raw), "never resumed")
        terminal.until(lambda: STEADY[0] in bytes(terminal.raw), "never painted again")
        terminal.press("q")
        terminal.sees("left in order")
        terminal.press("exit\n")
        assert terminal.wait() == 0


def test_ctrl_l_paints_everything_again() -> None:
    with PseudoTerminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.raw.clear()
        terminal.press("\x0c")
        for word in STEADY:
            terminal.until(lambda: word in bytes(terminal.raw), f"never painted {word!r} again")  # noqa: B023
        terminal.press("q")
        assert terminal.wait() == 0


def test_a_terminal_without_a_size_gets_80_by_24() -> None:
    sizeless = (
        "import runpy, sys, termios; termios.tcsetwinsize(0, (0, 0)); sys.argv[:] = ['program', 'normal']\n"
        "runpy.run_module('tests.tui.program', run_name='__main__')"
    )
    with PseudoTerminal("-c", sizeless) as terminal:
        terminal.sees("train")
        assert termios.tcgetwinsize(terminal.ours) == (24, 80)
        terminal.press("q")
        assert terminal.wait() == 0


def test_a_dumb_terminal_is_refused_with_advice() -> None:
    with PseudoTerminal(*PROGRAM, "normal", TERM="dumb") as terminal:
        assert terminal.wait() == 2
        assert "stalltop once" in terminal.text
        assert b"\x1b[?1049h" not in bytes(terminal.raw)


def test_no_color_and_ascii_send_neither_colours_nor_unicode() -> None:
    with PseudoTerminal(*PROGRAM, "normal", "ascii", NO_COLOR="1", LANG="en_US.ISO-8859-1") as terminal:
        terminal.sees("train")
        terminal.press("q")
        assert terminal.wait() == 0
        raw = bytes(terminal.raw)
        assert all(byte < 128 for byte in raw)
        assert b"\x1b[38" not in raw
        assert b";38;" not in raw


def test_a_terminal_without_more_colours_gets_sixteen() -> None:
    with PseudoTerminal(*PROGRAM, "normal", TERM="xterm") as terminal:
        terminal.sees("train")
        terminal.press("a")
        terminal.sees("Open")
        terminal.press("q")
        assert terminal.wait() == 0
        raw = bytes(terminal.raw)
        assert b"\x1b[" in raw
        styles = {
            part for found in re.findall(rb"\x1b\[([\d;:]+)m", raw) for part in re.split(b"[;:]", found)
        }
        assert not styles & {b"38", b"48"}  # selects no colour out of 256 or 16 million
        assert styles & {b"31", b"32", b"33", b"36"}
        assert not styles & {b"5", b"6"}  # nothing blinks


def test_the_no_mouse_option_leaves_the_mouse_to_the_terminal() -> None:
    with PseudoTerminal(*PROGRAM, "normal", "no-mouse") as terminal:
        terminal.sees("train")
        terminal.press("q")
        assert terminal.wait() == 0
        raw = bytes(terminal.raw)
        assert ALTERNATE_ON in raw
        assert not any(mode in raw for mode in (b"\x1b[?1000h", b"\x1b[?1002h", MOUSE_ON, b"\x1b[?1006h"))


def test_many_resizes_end_in_a_complete_picture() -> None:
    with PseudoTerminal(*PROGRAM, "normal", size=(120, 40)) as terminal:
        terminal.sees("train")
        for number in range(60):
            terminal.resize(20 + number * 7 % 190, 3 + number * 5 % 60)
            terminal.read(0)
        terminal.resize(100, 30)
        terminal.until(lambda: all(word.decode() in terminal.text for word in STEADY))
        terminal.until(lambda: terminal.text.splitlines()[29].lstrip().startswith("q Quit"))
        # On a slow machine the header reports missed windows and leaves out its first word.
        terminal.until(lambda: "gpu7  LIVE" in terminal.text.splitlines()[2])
        _cursor_follows_keys(terminal)
        terminal.resize(30, 5)
        terminal.sees("too small")
        terminal.resize(80, 24)
        terminal.sees("q Quit")
        _cursor_follows_keys(terminal)
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


@pytest.mark.parametrize(("term", "meant"), [("dumb", "once"), ("", "once"), ("xterm", "live")])
def test_the_default_command_is_once_on_a_dumb_terminal_and_live_otherwise(
    term: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.with_command([], terminal=cli.shows_a_screen()) == [meant]


def _cursor_follows_keys(terminal: PseudoTerminal) -> None:
    """Check that the arrow keys move the cursor of the table."""
    terminal.press("\x1b[A\x1b[A")
    terminal.until(lambda: _at_cursor(terminal) == "serve")
    terminal.press("\x1b[B")
    terminal.until(lambda: _at_cursor(terminal) == "train")


def _at_cursor(terminal: PseudoTerminal) -> str:
    """Return the name of the row under the cursor of the focused table, or '' if none."""
    found = re.search(r"^[│|]?[▸>]([\w-]+)", terminal.text, re.MULTILINE)
    return found[1] if found else ""


def _state(pid: int) -> str:
    os.kill(pid, 0)
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
