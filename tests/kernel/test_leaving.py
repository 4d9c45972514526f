"""The real program, ended in every way: nothing of it stays in the kernel, and the terminal is put right."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals

import pytest

from stalltop.demo.build import Built
from tests.kernel.harness import wait_until
from tests.kernel.in_kernel import InKernel
from tests.kernel.walker import walking
from tests.tui.terminal import ALTERNATE_OFF, ALTERNATE_ON, ROOT, Terminal

pytestmark = pytest.mark.beside

LEAVING_SECONDS = 10.0
"""How long leaving may take on a machine that is busy with other things; it takes about half a second."""
FAILED, INTERRUPTED = 1, 130
LINKS = 4
"""At least so many are there once libraries are probed: two tracepoints, entries and returns."""
LIVE = ("-m", "stalltop", "live")


@pytest.fixture(scope="module", autouse=True)
def walker(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A process that calls all the time, and shows on the screen."""
    with walking(built, tmp_path_factory.mktemp("walker")):
        yield


def held_by(pid: int) -> InKernel:
    held = InKernel(pid)
    assert held.links() >= LINKS
    return held


def leaves(terminal: Terminal, end: Callable[[], object]) -> tuple[int, str]:
    """End the program, and check all that must hold then; gives its status, and what it wrote at last."""
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


WAYS: dict[str, tuple[Callable[[Terminal], object], int]] = {
    "the key q": (lambda terminal: terminal.press("q"), 0),
    "Ctrl-C": (lambda terminal: terminal.press("\x03"), INTERRUPTED),
    "SIGINT": (lambda terminal: terminal.signal(SIGINT), INTERRUPTED),
    "SIGTERM": (lambda terminal: terminal.signal(SIGTERM), INTERRUPTED),
    "SIGHUP": (lambda terminal: terminal.signal(SIGHUP), INTERRUPTED),
}


@pytest.mark.parametrize("way", WAYS)
def test_on_request(way: str) -> None:
    end, code = WAYS[way]
    with Terminal(*LIVE, size=(120, 40)) as terminal:
        terminal.sees("walker")
        status, last = leaves(terminal, lambda: end(terminal))
        assert status == code
        assert "walker" in last, "the last table stays on the terminal"


def test_the_connection_is_lost() -> None:
    with Terminal(*LIVE) as terminal:
        terminal.sees("walker")
        held = held_by(terminal.process.pid)
        terminal.hang_up()
        assert terminal.process.wait(LEAVING_SECONDS) == INTERRUPTED
        held.until_gone()


def test_the_line_has_stalled() -> None:
    """Nobody takes what the program writes, so that it hangs in writing."""
    with Terminal(*LIVE, size=(200, 60), NO_COLOR="") as terminal:
        terminal.sees("walker")
        held = held_by(terminal.process.pid)
        for key in "?\x1bcopl" * 8:
            terminal.press(key)
        wait_until(lambda: terminal.unread() >= 3072, what="a full line")
        terminal.signal(SIGTERM)
        assert terminal.process.wait(LEAVING_SECONDS) == INTERRUPTED
        held.until_gone()


def test_before_there_is_data() -> None:
    with Terminal(*LIVE) as terminal:
        terminal.until(lambda: ALTERNATE_ON in terminal.raw, "a screen")
        terminal.signal(SIGTERM)
        assert terminal.wait() == INTERRUPTED
        assert terminal.restored()


def test_killed() -> None:
    with Terminal(*LIVE) as terminal:
        terminal.sees("walker")
        held = held_by(terminal.process.pid)
        terminal.signal(SIGKILL)
        assert terminal.wait() == -SIGKILL
        held.until_gone()


def breaking(place: str, name: str, sign: Path, action: str) -> tuple[str, ...]:
    """The program, with a function that does ``action`` once the file ``sign`` is there."""
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
        ("stalltop.tui.main.screen", "MainScreen.take"),
    ],
    ids=["reading", "discovery", "screen"],
)
def test_something_breaks(place: str, name: str, tmp_path: Path) -> None:
    sign = tmp_path / "now"
    program = breaking(place, name, sign, 'raise RuntimeError("a part has broken")')
    with Terminal(*program, size=(120, 40)) as terminal:
        terminal.sees("walker")
        status, last = leaves(terminal, sign.touch)
        assert status == FAILED
        assert "stalltop: " in last
        assert "a part has broken" in last


def test_a_read_hangs(tmp_path: Path) -> None:
    sign = tmp_path / "now"
    hang = f"open({str(tmp_path / 'hanging')!r}, 'w').close(); threading.Event().wait()"
    with Terminal(*breaking("stalltop.probes.monitor", "Monitor.read", sign, hang)) as terminal:
        terminal.sees("walker")
        sign.touch()
        wait_until((tmp_path / "hanging").exists, what="a read that hangs")
        status, _ = leaves(terminal, lambda: terminal.press("q"))
        assert status == 0


@pytest.mark.parametrize("number", [SIGINT, SIGTERM, SIGHUP], ids=lambda number: number.name)
def test_once(number: Signals) -> None:
    with once() as process:
        wait_until(lambda: InKernel(process.pid).links() >= LINKS, what="probes")
        held = InKernel(process.pid)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == INTERRUPTED
        assert output == ""
        assert errors == ""
        held.until_gone()


@pytest.mark.parametrize("seconds", [0, 0.1, 0.2, 0.4])
def test_interrupted_while_it_starts(seconds: float) -> None:
    with once() as process:
        maps = Path(f"/proc/{process.pid}/maps")
        wait_until(lambda: "numpy" in maps.read_text(), step=0.002, what="the program being loaded")
        time.sleep(seconds)
        process.send_signal(SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (INTERRUPTED, -SIGINT), errors
        assert "Traceback" not in errors


def once() -> subprocess.Popen[str]:
    """The program without a terminal, tracing for long; signals do what they do by themselves."""
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
