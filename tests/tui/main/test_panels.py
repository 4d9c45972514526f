"""Tests which panels fit on the screen and how they are hidden, enlarged and resized."""

from __future__ import annotations

import pytest

from stalltop.model.text.glyphs import UNICODE
from stalltop.tui.main.layout import Enlarged, layout, why_not
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.settings.settings import PANELS
from stalltop.widgets.footer import KeyLine
from stalltop.widgets.table import Table
from tests.tui.screen import Screen, running
from tests.tui.sources import numbered
from tests.windows.by_hand import Calls, key, window

SIZES = ((80, 24), (120, 40), (200, 60))


@pytest.mark.parametrize(
    ("size", "wanted", "enlarged", "shown", "beside"),
    [
        ((30, 24), PANELS, "", (), False),
        ((80, 7), PANELS, "", (), False),
        ((60, 11), PANELS, "", ("warnings", "table", "keys"), False),
        ((80, 19), PANELS, "", ("host", "devices", "warnings", "table", "keys"), False),
        ((80, 24), PANELS, "", PANELS, False),
        ((120, 40), PANELS, "", PANELS, False),
        ((200, 60), PANELS, "", PANELS, False),
        ((200, 24), PANELS, "", PANELS, False),
        ((200, 60), PANELS, "tables", ("warnings", "table", "keys"), True),
        ((200, 60), PANELS, "warnings", ("warnings", "keys"), True),
        ((120, 40), ("table",), "", ("table",), False),
        ((120, 40), ("table",), "warnings", ("warnings",), False),
        ((120, 40), ("warnings", "second"), "", ("warnings",), False),
    ],
)
def test_the_panels_that_fit_by_size_and_settings(
    size: tuple[int, int], wanted: tuple[str, ...], enlarged: Enlarged, shown: tuple[str, ...], beside: bool
) -> None:
    found = layout(*size, wanted, enlarged)
    assert found.shown == set(shown)
    assert found.small == (size[0] < 40 or size[1] < 8)
    assert found.beside == beside
    assert (found.devices > 0) == ("devices" in found.shown)


def test_a_panel_that_is_not_shown_says_what_room_it_needs() -> None:
    assert "20 lines or 160 columns" in why_not("second", 80, 19)
    assert "12 lines" in why_not("host", 80, 10)
    assert not why_not("second", 80, 40)
    assert not why_not("keys", 80, 8)


def shown(screen: Screen) -> set[str]:
    """Return the names of the panels on the screen, found by their widgets."""
    main = screen.app.main
    ids = {"host": "system", "devices": "devices", "warnings": "alerts", "table": "main", "second": "second"}
    keys = main.query_one("#keys", KeyLine)
    found = {name for name, one in ids.items() if main.query_one(f"#{one}").size.height}
    found |= {"keys"} if keys.size.height and not keys.said else set()
    return found if main.tables.display else found - {"table", "second"}


async def test_keys_show_and_hide_panels_and_the_settings_follow() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        assert shown(screen) == set(PANELS)
        for key, name in zip("123456", PANELS, strict=True):
            if name == "table":
                continue
            await screen.press(key)
            screen.app.main.speech.hush()
            await screen.until(lambda name=name: shown(screen) == set(PANELS) - {name})  # type: ignore[misc]
            assert name not in screen.app.main.choices()["panels"]  # type: ignore[operator]
            await screen.press(key)
            screen.app.main.speech.hush()
            await screen.until(lambda: shown(screen) == set(PANELS))
        await screen.press("4")
        screen.app.main.speech.hush()
        await screen.until(lambda: shown(screen) == set(PANELS) - {"table", "second"})
        await screen.until(lambda: screen.app.main.panel.has_focus)
        await screen.press("3")
        await screen.sees("must stay visible")
        await screen.press("escape")
        await screen.sees("4 shows them")
        await screen.press("4")
        screen.app.main.speech.hush()
        await screen.until(lambda: shown(screen) == set(PANELS))
        await screen.press("escape")
        await screen.until(lambda: screen.app.main.tables.main.has_focus)


async def test_a_panel_without_room_says_so_and_appears_when_there_is_room() -> None:
    async with running(numbered(0), size=(80, 18)) as screen:
        await screen.press("5")
        await screen.sees("the second table: hidden")
        await screen.press("5")
        await screen.sees("where there is room")
        await screen.pilot.resize_terminal(80, 45)
        await screen.until(lambda: "second" in shown(screen))


async def test_the_warnings_key_shows_the_hidden_panel_again() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await screen.press("3")
        await screen.until(lambda: "warnings" not in shown(screen))
        await screen.press("a")
        await screen.until(lambda: "warnings" in shown(screen))
        await screen.until(lambda: screen.app.main.panel.has_focus)


async def test_the_focused_panel_is_enlarged_and_restored() -> None:
    async with running(numbered(0), size=(120, 40)) as screen:
        await screen.press("e")
        await screen.until(lambda: shown(screen) == {"warnings", "table", "keys"})
        await screen.press("e", "a", "e")
        await screen.until(lambda: shown(screen) == {"warnings", "keys"})
        assert screen.app.main.panel.size.height >= 35
        await screen.press("enter")
        await screen.sees("What to do")
        await screen.press("escape")
        await screen.until(lambda: shown(screen) == {"warnings", "keys"})
        await screen.press("escape")
        await screen.until(lambda: shown(screen) == set(PANELS))
        assert screen.app.main.tables.main.has_focus


async def test_two_tables_stand_beside_each_other_and_share_the_room() -> None:
    calls = [Calls(key(f"operation{at}", tenant=f"docker:{at:02}"), [1_000]) for at in range(60)]
    async with running(window(calls), size=(200, 60)) as screen:
        main, second = screen.app.main.tables.main, screen.app.main.tables.second
        await screen.press("o")
        await screen.until(lambda: second.region.x == 108 and second.region.y == main.region.y)
        await screen.press("greater_than_sign")
        await screen.until(lambda: second.region.x == 128)
        await screen.until(lambda: "first table may take 60 %" in screen.text())
        for _ in range(5):
            await screen.press("less_than_sign")
        await screen.until(lambda: second.region.x == 48)
        assert screen.app.main.choices()["share"] == 20
        await screen.pilot.resize_terminal(120, 60)
        await screen.until(lambda: second.region.x == 0 and second.region.y > main.region.y)
        await screen.until(lambda: main.size.height < second.size.height)
        await screen.press(*("greater_than_sign",) * 6)
        await screen.until(lambda: main.size.height > second.size.height)


async def test_one_table_has_no_border_to_move() -> None:
    async with running(numbered(0), size=(80, 18)) as screen:
        await screen.press("greater_than_sign")
        await screen.sees("only one table is shown")


async def test_the_screen_starts_with_its_settings() -> None:
    options = RunOptions(
        interval=0.0,
        theme="light",
        window=60.0,
        panels=("table", "keys"),
        sort="max",
        descending=False,
        share=30,
    )
    async with running(numbered(0), size=(120, 40), options=options) as screen:
        await screen.sees("of 60s")
        await screen.sees("▲MAX")
        assert shown(screen) == {"table", "keys"}
        choices = screen.app.main.choices()
        assert {name: getattr(options, name) for name in choices if name != "tour"} == {
            name: value for name, value in choices.items() if name != "tour"
        }
        await screen.press("t", "r", "plus")
        changed = screen.app.main.choices()
        assert (changed["theme"], changed["descending"], changed["window"]) == ("contrast", True, 300.0)


async def test_settings_are_returned_on_leaving() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await screen.press("t", "q")
        app = screen.app
    assert app.choices["theme"] == "light"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_theme_shows_the_same_text_at_every_size(size: tuple[int, int]) -> None:
    async with running(numbered(0), numbered(1), size=size) as screen:
        await screen.press("space")
        await screen.sees("FROZEN")
        texts = {}
        for _ in THEME_NAMES:
            await screen.press("t")
            await screen.until(lambda: f"colours: {screen.app.theme}" in screen.text())
            lines = screen.text().splitlines()
            assert len(lines) == size[1]
            table = screen.app.main.query_one("#main", Table)
            texts[screen.app.theme] = [table.render_line(y).text for y in range(table.size.height)]
        assert set(texts) == set(THEME_NAMES)
        blank = {ord(fill): " " for fill in UNICODE.part_fills}
        plain = [line.translate(blank) for line in texts["dark"]]
        for lines in texts.values():
            # Themes without colours fill the parts of bars with patterns, which are replaced by blanks before
            # the comparison.
            assert [line.translate(blank) for line in lines] == plain
