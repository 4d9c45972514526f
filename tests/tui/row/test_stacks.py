"""Tests what the page of a row says about the lines of source code that make its calls."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.window import Window
from stalltop.tui.pages.sections import Frame
from stalltop.tui.row.facts import facts
from stalltop.tui.row.stacks import where_from
from stalltop.tui.views.path import Path, PathStep
from tests.windows.full import full_window

LAUNCH: Path = (PathStep("operation", "cudaLaunchKernel", "cudaLaunchKernel"),)


def text(one: Window, path: Path) -> list[str]:
    section = where_from(facts(one, path), Frame(width=98, height=40))
    return ["".join(part for part, _ in line.parts) for line in section.lines]


def test_lines_are_shown_with_their_callers_and_their_share() -> None:
    found = text(full_window(), LAUNCH)
    assert found[0].startswith("Where from")
    assert "99.4%" in found[1]
    assert "train.py:88  step" in found[1]
    assert "train.py:41  loop" in found[2]
    assert found[-1].strip() == "incomplete: a frame could not be read"


def test_other_rows_have_no_lines() -> None:
    (_, said) = text(full_window(), (PathStep("operation", "ncclAllReduce", "ncclAllReduce"),))
    assert "none of its calls" in said


def test_windows_without_stacks_have_no_section() -> None:
    assert text(replace(full_window(), stacks=()), LAUNCH) == []
