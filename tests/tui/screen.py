"""Runs the screen in an emulated terminal of a given size, on windows that a test feeds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from textual.pilot import Pilot

from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.window import Window
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from stalltop.widgets.table import Table
from tests.tui.sources import FedSource

DEADLINE = 60.0


@dataclass
class Screen:
    """A running app, and the source that feeds it with windows."""

    app: StalltopApp
    pilot: Pilot[None]
    source: FedSource

    def text(self) -> str:
        """Return the text of the whole screen."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in lines)

    def line(self, number: int) -> str:
        return self.text().splitlines()[number]

    def header(self) -> str:
        """Return the line with the state, the losses and the coverage."""
        own = self.app.screen.query("#header")  # a dialogue has none
        return self.line((own.first() if own else self.app.main.query_one("#header")).region.y)

    def names(self, table: str = "main") -> list[str]:
        """Return the texts in the first column of a table."""
        return [row.cells[0].text for row in self.app.main.query_one(f"#{table}", Table).data.rows]

    async def until(self, condition: Callable[[], bool], what: str = "") -> None:
        """Wait until ``condition`` holds; after ``DEADLINE`` seconds fail with ``what`` and the screen's
        text."""
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, f"{what}\n{self.text()}"
            await self.pilot.pause(0.02)

    async def sees(self, text: str) -> None:
        """Wait for ``text`` on the screen."""
        await self.until(lambda: text in self.text(), f"never saw {text!r}")

    async def named(self, names: list[str]) -> None:
        """Wait until the rows of the first table are ``names``."""
        await self.until(lambda: self.names() == names, f"the rows never were {names}")

    async def feed(self, one: Window) -> None:
        """Let the source return the window ``one`` and wait until the screen has received it."""
        self.source.put(one)
        await self.until(
            lambda: (newest := self.app.main.moments.newest) is not None and newest.newest is one,
            "the screen did not take the window",
        )

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()


@asynccontextmanager
async def running(
    *windows: Window, size: tuple[int, int] = (120, 40), options: RunOptions | None = None
) -> AsyncIterator[Screen]:
    source = FedSource()
    # Sorted by a figure, so that problems do not decide which row comes first.
    app = StalltopApp(source, options or RunOptions(interval=0.0, theme="dark", sort="total"))
    app.glyphs = ASCII if options and options.ascii else UNICODE
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, pilot, source)
        for one in windows:
            await screen.feed(one)
        await pilot.pause()
        try:
            yield screen
        finally:
            source.release()
