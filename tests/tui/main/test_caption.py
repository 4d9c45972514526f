"""Tests the caption of a demonstration on the main screen."""

from __future__ import annotations

from stalltop.model.caption import Caption
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from stalltop.widgets.caption import CaptionLines
from tests.tui.sources import FedSource, numbered


async def test_the_caption_follows_its_source_and_is_hidden_without_one() -> None:
    caption = Caption()
    app = StalltopApp(FedSource(numbered(1), numbered(2)), RunOptions(interval=0.1, caption=caption))
    async with app.run_test(size=(80, 24)) as pilot:
        widget = app.main.query_one("#caption", CaptionLines)
        while app.main.shown is None:
            await pilot.pause(0.02)
        assert not widget.display
        caption.lines = ("1/5 CPU: [bold]someone", "Look: there")
        while not widget.display or not widget.size.height:
            await pilot.pause(0.05)
        await pilot.pause(0.2)
        assert widget.size.height == 2
        assert "1/5 CPU: [bold]someone" in widget.render_line(0).text
        assert "Look: there" in widget.render_line(1).text
        await pilot.resize_terminal(30, 6)
        while widget.display:
            await pilot.pause(0.05)
