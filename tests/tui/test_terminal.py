"""The program in a real terminal: however it ends, the terminal is as it was and the source is closed."""

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
from stalltop.tui.main.slow_line import LOW_SECONDS, offer
from tests.tui.terminal import ALTERNATE_ON, MOUSE_ON, Terminal

PROGRAM = ("-m", "tests.tui.program")
STEADY = (b"CONTAINER", b"Quit", b"serve")
"""Words that stay where they are once they are on the screen."""


def test_leaving_with_q_keeps_the_last_table(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    with Terminal(*PROGRAM, "normal", CLOSED_FILE=str(closed)) as terminal:
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
    with Terminal(*PROGRAM, "normal", CLOSED_FILE=str(closed)) as terminal:
        terminal.sees("train")
        terminal.signal(number)
        assert terminal.wait() == 130
        assert terminal.restored()
        assert closed.exists()


def test_ctrl_c_leaves_from_anywhere() -> None:
    with Terminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.press("/")
        terminal.sees("Enter keeps")
        terminal.press("\x03")
        assert terminal.wait() == 130
        assert terminal.restored()


def test_text_that_is_pasted_behind_the_filter_s_key_is_no_command() -> None:
    with Terminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.press("/q/cow")
        terminal.sees("/ q/cow")
        terminal.sees("filter: q/cow")
        assert terminal.process.poll() is None
        terminal.press("\x1b")
        terminal.sees("Quit")
        # From the line of keys too, as terminals that mark a paste send it.
        terminal.press("/\x1b[200~qqq\x1b[201~")
        terminal.sees("filter: qqq")
        assert terminal.process.poll() is None


def test_an_exception_beside_the_screen_is_one_clear_line() -> None:
    with Terminal(*PROGRAM, "raise") as terminal:
        assert terminal.wait() == 1
        assert terminal.restored()
        raw = bytes(terminal.raw)
        assert b"stalltop: reading failed: ValueError: the probe broke (program.py:" in raw
        assert b"Traceback" not in raw
    with Terminal(*PROGRAM, "cannot") as terminal:
        assert terminal.wait() == 3
        assert b"stalltop: no eBPF here" in bytes(terminal.raw)
        assert b"use another kernel" in bytes(terminal.raw)


def test_an_exception_in_the_screen_itself_restores_the_terminal(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    with Terminal(*PROGRAM, "bug", CLOSED_FILE=str(closed)) as terminal:
        assert terminal.wait() == 1
        assert terminal.restored()
        assert closed.exists()
        assert b"AttributeError" in bytes(terminal.raw)


def test_a_hung_source_keeps_neither_the_screen_nor_the_terminal() -> None:
    with Terminal(*PROGRAM, "hang", size=(100, 24)) as terminal:
        terminal.sees("train")
        terminal.press("o")
        terminal.sees("cudaStreamSynchronize")
        terminal.sees("NO DATA")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


def test_a_lost_terminal_ends_the_program_even_where_sighup_is_ignored() -> None:
    for kind in ("normal", "nohup"):
        with Terminal(*PROGRAM, kind) as terminal:
            terminal.sees("train")
            terminal.hang_up()
            assert terminal.process.wait(60) == 130


def test_a_line_that_takes_nothing_does_not_keep_the_program() -> None:
    with Terminal(*PROGRAM, "flood", size=(200, 60)) as terminal:
        terminal.sees("CONTAINER")
        # Nobody reads from here on: buffers and queues fill up until the screen's own thread waits.
        end = time.monotonic() + 30
        waiting, since = -1, time.monotonic()
        while time.monotonic() < min(end, since + 3):
            time.sleep(0.1)
            now = terminal.unread()
            if now != waiting:
                waiting, since = now, time.monotonic()
        terminal.signal(signal.SIGTERM)
        assert terminal.process.wait(60) == 130
        while terminal.read(0.1):
            pass
        assert terminal.restored()


def test_a_second_of_ten_busy_containers_takes_few_bytes() -> None:
    with Terminal(*PROGRAM, "steady", size=(120, 40), COLORTERM="truecolor") as terminal:
        terminal.sees("last 10s")
        # The line under the header changes with every window: what is written with each is one refresh.
        before, refreshes, written = terminal.text.splitlines()[1], 0, len(terminal.raw)
        while refreshes < 10:
            terminal.until(lambda: terminal.text.splitlines()[1] != before)  # noqa: B023
            before, refreshes = terminal.text.splitlines()[1], refreshes + 1
        assert (len(terminal.raw) - written) / refreshes < 20_000
        terminal.press("q")
        assert terminal.wait() == 0


def test_on_a_slow_line_pictures_are_left_out_keys_do_not_wait_for_them_and_less_is_offered() -> None:
    with Terminal(*PROGRAM, "flood", size=(120, 40), COLORTERM="truecolor") as terminal:
        terminal.sees("CONTAINER")
        # Far more is offered than the line takes, by a slow machine too: the screen notices.
        terminal.until_slowly(lambda: offer() in terminal.text, "less was never offered", rate=8192)
        written = len(terminal.raw)
        terminal.press("?")
        terminal.until_slowly(lambda: "By container" in terminal.text, "no help")
        # What was under way: a few pictures, not the dozens (140 KB) that the queue has room for.
        assert len(terminal.raw) - written < 70_000
        terminal.press("\x1b")
        terminal.until_slowly(lambda: "CONTAINER" in terminal.text)
        terminal.press("b")
        terminal.sees("low bandwidth")
        written, end = len(terminal.raw), time.monotonic() + 2.5 * LOW_SECONDS
        while time.monotonic() < end:
            terminal.read()
        # Three pictures at most, in which every figure is another one, and the header each second.
        assert len(terminal.raw) - written < 15_000
        terminal.press("q")
        assert terminal.wait() == 0


def test_suspend_and_resume() -> None:
    with Terminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.press("\x1a")
        terminal.until(lambda: _state(terminal.process.pid) == "T", "never stopped")
        while terminal.read(0.1):
            pass
        assert terminal.restored()
        terminal.raw.clear()
        terminal.signal(signal.SIGCONT)
        terminal.until(lambda: b"\x1b[?1049h" in bytes(terminal.raw))
        # What never changes is painted too: the terminal came back empty.
        for word in STEADY:
            terminal.until(lambda: word in bytes(terminal.raw), f"never painted {word!r} again")  # noqa: B023
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to suspend to")
def test_suspending_gives_the_terminal_to_the_shell_whatever_stands_between() -> None:
    shell = "import os; os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])"
    with Terminal("-c", shell, PS1="ready> ", size=(120, 30)) as terminal:
        terminal.sees("ready>")
        terminal.press(f"timeout --foreground 100 {sys.executable} -m tests.tui.program normal\n")
        terminal.sees("train")
        terminal.press("\x1a")
        terminal.until(lambda: b"Stopped" in bytes(terminal.raw), "the shell never knew")
        terminal.press("echo $((40 + 2))answered\n")
        terminal.until(lambda: b"42answered" in bytes(terminal.raw), "the shell never had the terminal")
        terminal.raw.clear()
        terminal.press("fg\n")
        terminal.until(lambda: ALTERNATE_ON in bytes(terminal.raw), "never resumed")
        terminal.until(lambda: STEADY[0] in bytes(terminal.raw), "never painted again")
        terminal.press("q")
        terminal.sees("left in order")
        terminal.press("exit\n")
        assert terminal.wait() == 0


def test_ctrl_l_paints_everything_again() -> None:
    with Terminal(*PROGRAM, "normal") as terminal:
        terminal.sees("train")
        terminal.raw.clear()
        terminal.press("\x0c")
        for word in STEADY:
            terminal.until(lambda: word in bytes(terminal.raw), f"never painted {word!r} again")  # noqa: B023
        terminal.press("q")
        assert terminal.wait() == 0


def test_a_terminal_without_a_size_gets_the_usual_one() -> None:
    sizeless = (
        "import runpy, sys, termios; termios.tcsetwinsize(0, (0, 0)); sys.argv[:] = ['program', 'normal']\n"
        "runpy.run_module('tests.tui.program', run_name='__main__')"
    )
    with Terminal("-c", sizeless) as terminal:
        terminal.sees("train")
        assert termios.tcgetwinsize(terminal.ours) == (24, 80)
        terminal.press("q")
        assert terminal.wait() == 0


def test_terminals_that_cannot_show_a_screen_are_told() -> None:
    with Terminal(*PROGRAM, "normal", TERM="dumb") as terminal:
        assert terminal.wait() == 2
        assert "stalltop once" in terminal.text
        assert b"\x1b[?1049h" not in bytes(terminal.raw)


def test_no_color_and_ascii_on_the_wire() -> None:
    with Terminal(*PROGRAM, "normal", "ascii", NO_COLOR="1", LANG="en_US.ISO-8859-1") as terminal:
        terminal.sees("train")
        terminal.press("q")
        assert terminal.wait() == 0
        raw = bytes(terminal.raw)
        assert all(byte < 128 for byte in raw)
        assert b"\x1b[38" not in raw
        assert b";38;" not in raw


def test_sixteen_colours_where_the_terminal_has_no_more() -> None:
    with Terminal(*PROGRAM, "normal", TERM="xterm") as terminal:
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
        assert not styles & {b"38", b"48"}  # neither of 256 nor of 16 million colours
        assert styles & {b"31", b"32", b"33", b"36"}
        assert not styles & {b"5", b"6"}  # nothing blinks


def test_the_mouse_is_left_to_the_terminal_where_it_is_not_wanted() -> None:
    with Terminal(*PROGRAM, "normal", "no-mouse") as terminal:
        terminal.sees("train")
        terminal.press("q")
        assert terminal.wait() == 0
        raw = bytes(terminal.raw)
        assert ALTERNATE_ON in raw
        assert not any(mode in raw for mode in (b"\x1b[?1000h", b"\x1b[?1002h", MOUSE_ON, b"\x1b[?1006h"))


def test_a_storm_of_sizes_ends_in_a_whole_picture() -> None:
    with Terminal(*PROGRAM, "normal", size=(120, 40)) as terminal:
        terminal.sees("train")
        for number in range(60):
            terminal.resize(20 + number * 7 % 190, 3 + number * 5 % 60)
            terminal.read(0)
        terminal.resize(100, 30)
        terminal.until(lambda: all(word.decode() in terminal.text for word in STEADY))
        terminal.until(lambda: terminal.text.splitlines()[29].lstrip().startswith("q Quit"))
        # The header leaves its first word out where a slow machine makes it tell of missed windows.
        terminal.until(lambda: "gpu7  LIVE" in terminal.text.splitlines()[0])
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
def test_without_a_command_a_terminal_of_lines_gets_one_window(
    term: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.with_command([], terminal=cli.shows_a_screen()) == [meant]


def _cursor_follows_keys(terminal: Terminal) -> None:
    """Keys move the cursor of the table."""
    terminal.press("\x1b[A\x1b[A")
    terminal.until(lambda: _at_cursor(terminal) == "serve")
    terminal.press("\x1b[B")
    terminal.until(lambda: _at_cursor(terminal) == "train")


def _at_cursor(terminal: Terminal) -> str:
    """The name of the row that keys go to; empty: they go to none."""
    found = re.search(r"^[▸>]([\w-]+)", terminal.text, re.MULTILINE)
    return found[1] if found else ""


def _state(pid: int) -> str:
    os.kill(pid, 0)
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
