"""What holds for all tests of the screen: an environment that is the same everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

SAID = (
    "stalltop.tui.main.speech.SAID_SECONDS",
    "stalltop.tui.main.view.OFFER_SECONDS",
    "stalltop.tui.pages.live.SAID_SECONDS",
    "stalltop.tui.main.files.READ_SECONDS",
)
"""How long the screen says what was done."""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    # Sources wait for the tests; on a slow machine that is no silence that the header should tell of.
    monkeypatch.setattr("stalltop.tui.main.status.QUIET_SECONDS", 90.0)
    # What the screen says stays until it says something else: a slow machine sees it too.
    for said in SAID:
        monkeypatch.setattr(said, 3600.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
