"""Tests how many bytes a refresh sends. Unlike the time of a refresh, this number is the same on every
machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.style import Style
from textual._compositor import CompositorUpdate
from textual.screen import Screen as TextualScreen

from bench.monitor.shown import PreparedSource
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.terminal.lean import Lean
from stalltop.widgets.drawing.strips import changed_span, line_of
from tests.tui.screen import Screen, running

EVERYTHING = {(80, 24): 4_500, (120, 40): 8_192, (200, 60): 22_000}
"""Upper bounds, in bytes, of a refresh that changes every figure, by size of the terminal."""


class Wire:
    """Counts the bytes that the screen sends to the terminal."""

    def __init__(self) -> None:
        self.bytes = 0
        self.lean = Lean()

    def take(self) -> int:
        """Return the number of bytes since the previous call."""
        taken, self.bytes = self.bytes, 0
        return taken


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    found = Wire()
    display = StalltopApp._display

    def noted(app: StalltopApp, screen: TextualScreen[object], renderable: object) -> None:
        if isinstance(renderable, CompositorUpdate):
            found.bytes += len(found.lean.shorten(renderable.render_segments(app.console)).encode())
        display(app, screen, renderable)  # type: ignore[arg-type]

    monkeypatch.setattr(StalltopApp, "_display", noted)
    return found


async def settled(screen: Screen) -> None:
    """Wait until everything is painted."""
    for _ in range(3):
        await screen.pilot.pause(0.05)


@pytest.mark.parametrize("size", EVERYTHING)
async def test_a_refresh_that_changes_everything_is_bounded(size: tuple[int, int], wire: Wire) -> None:
    source = PreparedSource(1000, 1.0)
    options = RunOptions(interval=0.0, theme="dark", window=1.0)
    async with running(source.read(), source.read(), size=size, options=options) as screen:
        await screen.press("o")
        await settled(screen)
        for _ in range(3):
            wire.take()
            await screen.feed(source.read())
            await settled(screen)
            assert 500 < wire.take() <= EVERYTHING[size]


async def test_a_refresh_that_changes_nothing_sends_little(wire: Wire) -> None:
    one = PreparedSource(1000, 1.0).read()
    options = RunOptions(interval=0.0, theme="dark", window=1.0)
    windows = [replace(one, start=one.start + number) for number in range(4)]
    async with running(*windows[:3], options=options) as screen:
        await screen.press("o")
        await settled(screen)
        wire.take()
        await screen.feed(windows[3])
        await settled(screen)
        assert wire.take() <= 800  # soon after the start, each window moves the whole graph


async def test_moving_the_cursor_repaints_two_rows(wire: Wire) -> None:
    one = PreparedSource(1000, 1.0).read()
    options = RunOptions(interval=0.0, theme="dark", window=1.0)
    async with running(one, options=options) as screen:
        await screen.press("o")
        await settled(screen)
        wire.take()
        await screen.press("down")
        await settled(screen)
        assert 100 < wire.take() <= 1_500  # two rows are repainted


@pytest.mark.parametrize(
    ("old", "new", "span"),
    [
        ("  1.23µs same", "  1.24µs same", (5, 6)),
        ("▸ name  1.23µs", "▸ name  1.23ms", (12, 13)),
        ("日本 12 same", "日本 34 same", (0, 20)),
        ("a\u0301 same", "a\u0302 same", (0, 20)),
    ],
)
def test_only_cells_that_differ_are_painted(old: str, new: str, span: tuple[int, int]) -> None:
    style = Style(color="red")
    assert changed_span(line_of([(old, style)], 20, style), line_of([(new, style)], 20, style)) == span
