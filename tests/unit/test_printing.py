"""When text is printed in colours and beyond ASCII."""

from __future__ import annotations

import io
import sys

import pytest

from stalltop.cli.printing import style


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
def test_colours(
    terminal: bool, environment: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Stdout(terminal=terminal))
    assert style().colour is colour


@pytest.mark.parametrize(("encoding", "unicode"), [("utf-8", True), ("UTF8", True), ("latin-1", False)])
def test_characters(encoding: str, unicode: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(sys, "stdout", Stdout(terminal=True, encoding=encoding))
    assert style().unicode is unicode
    monkeypatch.setenv("LC_ALL", "C")
    assert not style().unicode
