"""Tests freezing, and the keys for the length of the window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tui.screen import running
from tests.tui.sources import many, numbered


async def test_freeze_holds_the_picture_while_counting_goes_on() -> None:
    async with running(numbered(0), size=(120, 24)) as screen:
        await screen.press("space")
        await screen.sees("FROZEN")
        before = screen.text().splitlines()[5:-2]
        for number in range(1, 4):
            await screen.feed(replace(numbered(number), rows=many(9).rows))
        assert screen.text().splitlines()[5:-2] == before
        # A frozen screen still handles keys.
        await screen.press("o")
        await screen.until(lambda: "operation000" not in screen.names())
        await screen.press("c", "space")
        await screen.sees("LIVE")
        await screen.press("o")
        await screen.until(lambda: "operation000" in screen.names())


async def test_keys_change_the_length_of_the_window() -> None:
    async with running(*(numbered(i) for i in range(12)), size=(120, 24)) as screen:
        await screen.sees("last 10s")
        await screen.press("minus", "minus", "minus")
        await screen.sees("last 1s ")
        await screen.press("plus", "plus", "plus")
        await screen.sees("last 12s of 300s")
        await screen.press("equals_sign")
        await screen.sees("since start 12.0s")
        # The length of a frozen window can be changed, too. The window still ends where it was frozen.
        await screen.press("space")
        await screen.feed(numbered(12))
        await screen.press("minus", "minus", "minus")
        await screen.sees("last 10s")
        await screen.until(lambda: screen.app.main.shown is not None and screen.app.main.shown.seconds == 10)
        assert screen.app.main.shown is not None
        assert screen.app.main.shown.end == pytest.approx(numbered(11).end)
