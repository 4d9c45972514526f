"""Gives all tests of the screen the same environment on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

SAID = (
    "stalltop.tui.main.speech.SAID_SECONDS",
    "stalltop.tui.main.updates.OFFER_SECONDS",
    "stalltop.tui.pages.live.SAID_SECONDS",
    "stalltop.tui.main_keys.files.READ_SECONDS",
)
"""Paths of the constants that say how long messages stay on the screen."""


@pytest.fixture(scope="session", autouse=True)
def _styles_parsed_once() -> Iterator[None]:
    """Parse each style sheet once for all apps of this process: parsing takes a tenth of their time."""
    parse, known = Stylesheet._parse_rules, dict[tuple[object, ...], list[RuleSet]]()

    def parsed(sheet: Stylesheet, *arguments: Any, **named: Any) -> list[RuleSet]:
        key = (arguments, tuple(named.items()), frozenset(sheet._variables.items()))
        if key not in known:
            known[key] = parse(sheet, *arguments, **named)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parsed)
        yield


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "TMUX", "SUDO_UID", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    # On a slow machine the test may be slow to let its source deliver the next window. The header must not
    # report this as missing data.
    monkeypatch.setattr("stalltop.tui.main.status.QUIET_SECONDS", 90.0)
    # A message stays until the next message replaces it, so that a slow test does not miss it.
    for said in SAID:
        monkeypatch.setattr(said, 3600.0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
