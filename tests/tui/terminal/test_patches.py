"""Tests that the cells that widgets paint themselves look as Textual would paint them."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from textual._compositor import CompositorUpdate
from textual.screen import Screen as TextualScreen

from bench.monitor.shown import PreparedSource
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.terminal.lean_driver import LeanDriver
from stalltop.tui.terminal.patches import LinePatches
from stalltop.tui.terminal.textual_internals import drawn
from tests.tui.screen import running
from tests.tui.terminal.emulator import KEYS, Emulator

CTRL_P = "ctrl+p"


@pytest.mark.parametrize(("size", "theme"), [((80, 24), "light"), ((120, 40), "dark")])
async def test_the_screen_looks_as_textual_paints_it(
    size: tuple[int, int], theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, painted, patches = object.__new__(LeanDriver), Emulator(*size), 0
    display = StalltopApp._display

    def noted(app: StalltopApp, screen: TextualScreen[object], renderable: object) -> None:
        nonlocal patches
        if isinstance(renderable, CompositorUpdate):
            patches += isinstance(renderable, LinePatches)
            painted.feed(driver.lean.shorten(renderable.render_segments(app.console) + "\x1b[1;1H"))
        display(app, screen, renderable)  # type: ignore[arg-type]

    monkeypatch.setattr(StalltopApp, "_display", noted)
    monkeypatch.setattr(StalltopApp, "driver", driver)
    source = PreparedSource(100, 1.0)
    options = RunOptions(interval=0.0, theme=theme, window=1.0)
    async with running(source.read(), size=size, options=options) as screen:
        for key in (*KEYS, CTRL_P, "escape", "w", "escape"):
            await screen.press(key)
            await screen.feed(source.read())
            await screen.pilot.pause(0.05)
            whole = Emulator(*size)
            for number, strip in enumerate(drawn(screen.app.screen), 1):
                system = ColorSystem.TRUECOLOR
                parts = [
                    strip.render_style(style, text, system) if style else text for text, style, _ in strip
                ]
                whole.feed(f"\x1b[{number};1H{''.join(parts)}")
            assert painted.shown() == whole.shown(), key
    assert patches > len(KEYS)
