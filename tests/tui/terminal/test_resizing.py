"""The size of the terminal when signals of its changes come faster than they are handled."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App

from stalltop.tui.terminal.textual_internals import StoppingDriver


async def test_a_signal_during_the_reading_of_the_size_leaves_the_last_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App[Any]()
    async with app.run_test(size=(80, 24)) as pilot:
        driver = StoppingDriver(app)
        later = [(100, 30), (120, 40)]
        """The sizes that the terminal takes while the program reads the size before."""
        now = (90, 27)

        def size(_: StoppingDriver) -> tuple[int, int]:
            nonlocal now
            read = now
            if later:
                now = later.pop(0)
                driver._size_changed()
            return read

        monkeypatch.setattr(StoppingDriver, "_get_terminal_size", size)
        driver._size_changed()
        while later:
            await pilot.pause()
        await pilot.pause(0.1)
        assert app.size == (120, 40)
