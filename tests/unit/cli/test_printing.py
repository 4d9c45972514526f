"""Tests the choice of colours and of characters beyond ASCII in printed text."""

from __future__ import annotations

import io
import sys

import pytest

from stalltop.cli.printing import style
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs


class Stdout(io.TextIOWrapper):
    def __init__(self, *, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "colour"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": ""}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": ""}, False),
        (False, {}, False),
    ],
)
def test_colours_need_a_terminal_that_allows_them(
    terminal: bool, environment: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Stdout(terminal=terminal))
    assert style().colour is colour


@pytest.mark.parametrize(("encoding", "glyphs"), [("utf-8", UNICODE), ("UTF8", UNICODE), ("latin-1", ASCII)])
def test_characters_beyond_ascii_need_utf_8(
    encoding: str, glyphs: Glyphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(sys, "stdout", Stdout(terminal=True, encoding=encoding))
    assert style().glyphs is glyphs
    monkeypatch.setenv("LC_ALL", "C")
    assert style().glyphs is ASCII
