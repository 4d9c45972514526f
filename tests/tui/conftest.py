"""What holds for all tests of the screen: an environment that is the same everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    # Sources wait for the tests; on a slow machine that is no silence that the header should tell of.
    monkeypatch.setattr("tui.status.QUIET_SECONDS", 90.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
