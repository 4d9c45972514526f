"""What the terminal says when Ctrl-Z stops a screen for whose data others wait."""

from __future__ import annotations

import io

import pytest

from stalltop.tui.terminal.textual_internals import QuietApp, StoppingDriver


class NotedApp(QuietApp):
    note = ""

    def suspend_note(self) -> str:
        return self.note


async def test_a_screen_that_is_stopped_prints_its_note(monkeypatch: pytest.MonkeyPatch) -> None:
    app = NotedApp()
    async with app.run_test():
        driver, printed = StoppingDriver(app), io.StringIO()
        monkeypatch.setattr(driver, "_file", printed)
        driver._print_note()
        assert printed.getvalue() == ""
        app.note = "others wait"
        driver._print_note()
        assert printed.getvalue() == "stalltop: others wait\n"
