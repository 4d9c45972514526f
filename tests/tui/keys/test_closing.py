"""Tests that keys in quick succession close each screen once."""

from __future__ import annotations

import pytest

from tests.tui.screen import running
from tests.tui.sources import numbered


@pytest.mark.parametrize("key", ["question_mark", "ctrl+p", "w", "C", "T"])
async def test_a_screen_that_is_closed_twice_leaves_the_others_open(key: str) -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        app = screen.app
        await screen.press(key)
        await screen.until(lambda: app.screen is not app.main)
        top = app.screen
        top.dismiss()
        top.dismiss()
        await screen.until(lambda: app.screen is app.main)
        await screen.sees("containers")


async def test_a_screen_below_another_one_stays_open() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        app = screen.app
        await screen.press("question_mark")
        await screen.until(lambda: app.screen is not app.main)
        page = app.screen
        await screen.press("ctrl+p")
        await screen.until(lambda: app.screen is not page)
        palette = app.screen
        page.dismiss()
        page.dismiss()
        assert app.screen is palette
        palette.dismiss()
        await screen.until(lambda: app.screen is page)
