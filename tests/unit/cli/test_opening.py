"""Tests that the first picture leaves no trace if stalltop ends before the screen."""

from __future__ import annotations

import io
import signal
import subprocess
import sys

import pytest

from stalltop.cli import opening as openings
from stalltop.tui.terminal.interrupts import RequestedEndError


class SignalledTerminal(io.StringIO):
    """A terminal that is drawn on, and a signal arrives with the first picture."""

    flushed = 0

    def flush(self) -> None:
        self.flushed += 1
        if self.flushed == 1:
            raise RequestedEndError(signal.SIGTERM)


def test_a_signal_with_the_first_picture_restores_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = SignalledTerminal()
    monkeypatch.setattr(openings, "require_screen", bool)
    monkeypatch.setattr(openings, "drawn_on", lambda: terminal)
    with pytest.raises(RequestedEndError), openings.opening():
        pytest.fail("the screen follows")
    assert terminal.getvalue().endswith("\x1b[?1049l")


def test_the_first_picture_does_not_wait_for_large_libraries() -> None:
    code = (
        "import sys; from stalltop.cli.main import parsed; parsed(['live']); import stalltop.cli.opening; "
        "print([name for name in ('numpy', 'rich', 'textual') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
