"""Tests that a page has its text before it is painted: on a busy host, a text that waits for a timer comes
seconds later, and the page is blank until then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stalltop.model.chain import Fix
from stalltop.widgets.entries import EntryList
from stalltop.widgets.page import Page
from tests.tui.faults import chain
from tests.tui.screen import running
from tests.windows.by_hand import window

FAULT = chain("sync_storm", severity="high", fixes=(Fix("stop it", "kill 100"),))


@pytest.mark.parametrize(("key", "kind"), [("A", EntryList), ("i", Page), ("D", Page)])
async def test_a_page_has_its_text_before_it_is_painted(
    key: str, kind: type[Page | EntryList], monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted: list[bool] = []
    show: Any = kind.show

    def noted(self: Page | EntryList, *texts: Any, **more: Any) -> None:
        mounted.append(self.screen.is_mounted)
        show(self, *texts, **more)

    async with running(replace(window(), chains=(FAULT,)), size=(120, 40)) as screen:
        await screen.sees("sync_storm")
        monkeypatch.setattr(kind, "show", noted)
        await screen.press(key)
        await screen.until(lambda: screen.app.screen is not screen.app.main and bool(mounted), "no page")
    assert not mounted[0]
