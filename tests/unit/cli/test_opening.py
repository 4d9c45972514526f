"""Tests that the first picture leaves no trace if stalltop ends before the screen."""

from __future__ import annotations

import io
import signal

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
