"""Tests every way to end the real program: nothing stays in the kernel, and the terminal is restored."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from stalltop.demo.build import Built
from tests.kernel.commands.in_kernel import InKernel
from tests.kernel.commands.walker import walking
from tests.kernel.harness import wait_until
from tests.tui.pseudo_terminal import ALTERNATE_OFF, ALTERNATE_ON, ROOT, PseudoTerminal

pytestmark = pytest.mark.beside

LEAVING_SECONDS = 10.0
"""How long leaving may take on a busy machine; on an idle one it takes half a second."""
FAILED, INTERRUPTED, TERMINATED, HUNG_UP = 1, 130, 143, 129
LINKS = 4
"""Least number of BPF links once a library is probed: two of tracepoints, one of entries, one of returns."""
LIVE = ("-m", "stalltop", "live")


@pytest.fixture(scope="module", autouse=True)
def walker(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run a process that makes calls all the time, so that the screen shows it."""
    with walking(built, tmp_path_factory.mktemp("walker")):
        yield


def held_by(pid: int) -> InKernel:
    held = InKernel(pid)
    assert held.links() >= LINKS
    return held


def leaves(terminal: PseudoTerminal, end: Callable[[], object]) -> tuple[int, str]:
    """Call ``end``, which makes the screen end, and check that nothing is left in the kernel.

    Returns the exit code, and the output after the terminal went back to its normal screen.
    """
    held = held_by(terminal.process.pid)
    began = time.monotonic()
    end()
    status = terminal.wait()
    took = time.monotonic() - began
    print(f"left after {took:.2f} s")
    held.until_gone()
    assert took < LEAVING_SECONDS
    assert terminal.restored(), terminal.raw[-3000:]
    last = bytes(terminal.raw).rpartition(ALTERNATE_OFF)[2].decode()
    assert "Traceback" not in last
    return status, last


WAYS: dict[str, tuple[Callable[[PseudoTerminal], object], int]] = {
    "the key q": (lambda terminal: terminal.press("q"), 0),
    "Ctrl-C": (lambda terminal: terminal.press("\x03"), INTERRUPTED),
    "SIGINT": (lambda terminal: terminal.signal(SIGINT), INTERRUPTED),
    "SIGTERM": (lambda terminal: terminal.signal(SIGTERM), TERMINATED),
    "SIGHUP": (lambda terminal: terminal.signal(SIGHUP), HUNG_UP),
}


@pytest.mark.parametrize("way", WAYS)
def test_keys_and_signals_end_the_screen(way: str) -> None:
    end, code = WAYS[way]
    with PseudoTerminal(*LIVE, size=(120, 40)) as terminal:
        terminal.sees("walker")
        status, last = leaves(terminal, lambda: end(terminal))
        assert status == code
        assert "walker" in last, "the last table is printed"


def test_a_lost_terminal_ends_the_screen() -> None:
    with PseudoTerminal(*LIVE) as terminal:
        terminal.sees("walker")
        held = held_by(terminal.process.pid)
        terminal.hang_up()
        assert terminal.process.wait(LEAVING_SECONDS) == HUNG_UP
        held.until_gone()


def test_a_signal_ends_the_screen_while_its_terminal_is_not_read() -> None:
    """The program blocks in a write, since nobody reads its output."""
    with PseudoTerminal(*LIVE, size=(200, 60), NO_COLOR="") as terminal:
        terminal.sees("walker")
        held = held_by(terminal.process.pid)
        for key in "?\x1bcopl" * 8:
            terminal.press(key)
        wait_until(lambda: terminal.unread() >= 3072, what="a full terminal buffer")
        terminal.signal(SIGTERM)
        assert terminal.process.wait(LEAVING_SECONDS) == TERMINATED
        held.until_gone()


def test_a_signal_ends_the_screen_before_its_first_window() -> None:
    with PseudoTerminal(*LIVE) as terminal:
        terminal.until(lambda: ALTERNATE_ON in terminal.raw, "a screen")
        terminal.signal(SIGTERM)
        assert terminal.wait() == TERMINATED
        assert terminal.restored()


def test_a_killed_screen_leaves_nothing_in_the_kernel() -> None:
    with PseudoTerminal(*LIVE) as terminal:
        terminal.sees("walker")
        held = held_by(terminal.process.pid)
        terminal.signal(SIGKILL)
        assert terminal.wait() == -SIGKILL
        held.until_gone()


def breaking(place: str, name: str, sign: Path, action: str) -> tuple[str, ...]:
    """Return arguments of Python that run a changed stalltop: the function ``name`` of the module ``place``
    executes the code ``action`` once the file ``sign`` exists."""
    code = f"""
import os, sys, threading
from {place} import {name.partition(".")[0]}
from stalltop.cli.main import main
real = {name}
def broken(*arguments, **named):
    if os.path.exists({str(sign)!r}):
        {action}
    return real(*arguments, **named)
{name} = broken
sys.exit(main())
"""
    return ("-c", code, "live", "--interval", "0.25")


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("stalltop.probes.monitor", "Monitor.read"),
        ("stalltop.probes.libraries.discovery", "Libraries.update"),
        ("stalltop.tui.main.updates", "Updates.take"),
    ],
    ids=["reading", "discovery", "screen"],
)
def test_an_exception_in_any_part_ends_the_screen_with_a_message(
    place: str, name: str, tmp_path: Path
) -> None:
    sign = tmp_path / "now"
    program = breaking(place, name, sign, 'raise RuntimeError("a part has broken")')
    with PseudoTerminal(*program, size=(120, 40)) as terminal:
        terminal.sees("walker")
        status, last = leaves(terminal, sign.touch)
        assert status == FAILED
        assert "stalltop: " in last
        assert "a part has broken" in last


def test_a_hung_read_does_not_block_leaving(tmp_path: Path) -> None:
    sign = tmp_path / "now"
    hang = f"open({str(tmp_path / 'hanging')!r}, 'w').close(); threading.Event().wait()"
    with PseudoTerminal(*breaking("stalltop.probes.monitor", "Monitor.read", sign, hang)) as terminal:
        terminal.sees("walker")
        sign.touch()
        wait_until((tmp_path / "hanging").exists, what="a read that hangs")
        status, _ = leaves(terminal, lambda: terminal.press("q"))
        assert status == 0


@pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGHUP], ids=lambda number: number.name)
def test_signals_end_the_once_command_without_output(number: Signals) -> None:
    with once() as process:
        wait_until(lambda: InKernel(process.pid).links() >= LINKS, what="probes")
        held = InKernel(process.pid)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert output == ""
        assert errors == ""
        held.until_gone()


@pytest.mark.parametrize("seconds", [0, 0.1, 0.2, 0.4])
def test_an_interrupt_during_the_start_prints_no_traceback(seconds: float) -> None:
    with once() as process:
        maps = Path(f"/proc/{process.pid}/maps")
        wait_until(lambda: "numpy" in maps.read_text(), step=0.002, what="the program being loaded")
        time.sleep(seconds)
        process.send_signal(SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (INTERRUPTED, -SIGINT), errors
        assert "Traceback" not in errors


def once() -> subprocess.Popen[str]:
    """Start ``stalltop once`` for a long window, without a terminal and with default signal actions."""
    return subprocess.Popen(
        [
            *("env", "--default-signal=HUP,INT,TERM"),
            *(sys.executable, "-m", "stalltop", "once", "--seconds", "600"),
        ],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
