"""Compares the screen with saved pictures, which are files of text.

Run pytest with ``STALLTOP_SNAPSHOTS=write`` to write the pictures again, and review the difference before you
commit it.
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tui.screen import Screen

WINDOW = Path(__file__).resolve().parent / "snapshots" / "window.stalltop"
"""The saved window that pictures show, so that changes of the demo and the diagnosis change no picture."""
WRITE = os.environ.get("STALLTOP_SNAPSHOTS") == "write"
STATE = "/tmp/stalltop-that-nobody-has"
"""The folder that the screen shows as the user's state folder, the same on every machine. It is never
created."""
QUIET_SECONDS = 1.0 if WRITE else 10.0
"""Seconds without a change of the screen, after which the test stops waiting for the screen to equal the
saved picture."""
DEADLINE_SECONDS = 60.0
SIZES = ((80, 24), (120, 40), (200, 60))


@dataclass(frozen=True)
class State:
    """A state of the screen; ``steps`` are the keys that lead to it, each with a text that appears after the
    key."""

    name: str
    steps: tuple[tuple[str, str], ...] = ()


def text(screen: Screen) -> str:
    """Return the text of the screen without blanks at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in screen.text().splitlines())


async def becomes(screen: Screen, path: Path, draw: Callable[[Screen], str], folder: Path) -> None:
    """Wait until ``draw(screen)`` equals the content of ``path``.

    If it does not, fails the test with the difference and saves a screenshot in ``folder``.
    """
    expected = "" if WRITE else path.read_text(encoding="utf-8")
    end = time.monotonic() + DEADLINE_SECONDS
    shown, since = "", time.monotonic()
    while shown != expected or not shown:
        if shown != (shown := draw(screen)):
            since = time.monotonic()
        if time.monotonic() > min(end, since + QUIET_SECONDS):
            break
        await screen.pilot.pause(0.05)
    if WRITE:
        path.write_text(shown, encoding="utf-8")
    elif shown != expected:
        picture = folder / f"{path.stem}.svg"
        picture.write_text(screen.app.export_screenshot(title=path.stem), encoding="utf-8")
        lines = difflib.unified_diff(
            expected.splitlines(), shown.splitlines(), str(path), "shown", lineterm=""
        )
        pytest.fail(
            "\n".join((f"{path.stem} differs from its saved picture; screenshot: {picture}", *lines)),
            pytrace=False,
        )
