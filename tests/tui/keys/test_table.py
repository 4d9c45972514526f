"""Tests that the keys that are bound, shown and documented are exactly those of the table of actions."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from scripts.write_keys import documents
from stalltop.formats.registry import SAVED
from stalltop.tui.app import StalltopApp
from stalltop.tui.chain.screen import ChainScreen
from stalltop.tui.chain.warnings_screen import WarningsScreen
from stalltop.tui.columns.catalogue import COLUMNS
from stalltop.tui.device.screen import DeviceScreen, DevicesScreen
from stalltop.tui.fleet.fleet_app import FleetScreen
from stalltop.tui.keys.actions import ACTIONS, BY_ID, PRINTED, SHORT, bindings, groups
from stalltop.tui.keys.footer import FOOTER, footer
from stalltop.tui.keys.page_keys import PAGES
from stalltop.tui.main.opens import Opens
from stalltop.tui.main_keys.screen import MainScreen
from stalltop.tui.pages.help import HelpDetail, help_page
from stalltop.tui.pages.help_screen import HelpScreen
from stalltop.tui.pages.in_columns import in_columns, rows_of, shape
from stalltop.tui.pages.live import LivePage
from stalltop.tui.pair.screen import CompareScreen
from stalltop.tui.row.screen import RowScreen
from stalltop.tui.saving.screen import SaveScreen
from stalltop.tui.tables.column_screen import ColumnScreen
from stalltop.tui.tables.room import GroupTable
from stalltop.widgets.table import Table
from tests.tui.faults import STARVED, faulty
from tests.tui.screen import running
from tests.tui.sources import many, numbered

CONTRACT = {*"q?/conplsSrwaAe+-t[]mx", "Space", "Enter", "Esc", "Ctrl-P", "Ctrl-Z"}
"""Keys that must keep their actions, because users rely on them."""
BESIDE = {"j": "down", "k": "up", "g": "first", "G": "last", "equals_sign": "longer", "underscore": "shorter"}
"""Further keys that the screen does not show, and the ids of their actions."""


def test_no_key_is_bound_twice_and_the_contract_holds() -> None:
    keys = [key for action in ACTIONS for key in action.keys + action.also]
    assert len(keys) == len(set(keys))
    assert len(BY_ID) == len(ACTIONS)
    assert {action.key for action in ACTIONS} >= CONTRACT
    assert {key: action.id for action in ACTIONS for key in action.also} == BESIDE


def test_every_action_exists_where_it_is_bound() -> None:
    owners: dict[str, type[DOMNode]] = {"screen": MainScreen, "table": GroupTable, "app": StalltopApp}
    for action in ACTIONS:
        name = action.bound.partition("(")[0]
        assert hasattr(owners[action.by], f"action_{name}"), action
    main = MainScreen(10.0, cast("Opens", None))
    for part, method in (
        action.action.partition("(")[0].split(".") for action in ACTIONS if action.by == "screen"
    ):
        assert callable(getattr(getattr(main, part), method))
    for by, owner in owners.items():
        bound = {binding.id for binding in bindings(by) if isinstance(binding, Binding)}
        assert bound == {binding.id for binding in owner.BINDINGS if isinstance(binding, Binding)}


def test_help_lists_exactly_the_keys() -> None:
    text = "\n".join("".join(part for part, _ in line.parts) for line in help_page())
    for action in ACTIONS:
        assert f"  {action.key.ljust(14)} {action.help}" in text
        assert re.findall(r"\(also (\w)\)", action.help) == [key for key in action.also if len(key) == 1]
    assert sum(len(actions) for actions in groups().values()) == len(ACTIONS)


@pytest.mark.parametrize(("size", "detail"), [((120, 40), "labels"), ((200, 60), "sentences")])
def test_help_fits_on_one_screen(size: tuple[int, int], detail: HelpDetail) -> None:
    width, height = size[0] - 2, size[1] - 2
    lines = in_columns(help_page("", detail, shape(width)[1]), width, height)
    assert rows_of(lines, width) <= height
    text = "\n".join("".join(part for part, _ in line.parts) for line in lines)
    assert text.startswith("Legend")
    for action in ACTIONS:
        named = action.label in text or action.help.split()[0] in text
        assert named or action.key == action.label  # a key whose name says what it does


def test_help_explains_every_column_that_has_a_heading() -> None:
    text = "\n".join("".join(part for part, _ in line.parts) for line in help_page())
    for column in COLUMNS:
        assert not column.heading or f"  {column.heading.ljust(14)} {column.help}" in text


async def test_every_key_runs_its_action(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    async def record(app: StalltopApp, action: Any, namespace: DOMNode | None = None, *_: Any) -> bool:
        ran.append((action, type(namespace)))
        return True

    async with running(numbered(0)) as screen:
        await screen.named(["serve", "train"])
        monkeypatch.setattr(StalltopApp, "run_action", record)
        owners = {"screen": MainScreen, "table": GroupTable, "app": StalltopApp}
        for action in ACTIONS:
            for key in action.keys + action.also:
                ran.clear()
                await screen.press(key)
                await screen.until(lambda: bool(ran), f"{key} does nothing")
                assert ran == [(action.bound, owners[action.by])], key


async def test_keys_move_the_cursor() -> None:
    async with running(many(60), size=(100, 30)) as screen:
        await screen.press("o")
        await screen.until(lambda: len(screen.names()) == 60)
        table = screen.app.main.query_one("#main", Table)
        names = screen.names()

        def at(key: str) -> int:
            name = next(row.cells[0].text for row in table.data.rows if row.key == table.cursor_key)
            assert name in screen.text(), key  # the table scrolls with the cursor
            return names.index(name)

        for key, place in (("j", 1), ("j", 2), ("k", 1), ("down", 2), ("up", 1), ("G", 59), ("k", 58)):
            await screen.press(key)
            await screen.until(lambda: at(key) == place, f"{key}: not at {place}")  # noqa: B023
        for key, place in (("g", 0), ("end", 59), ("home", 0), ("k", 0)):
            await screen.press(key)
            await screen.until(lambda: at(key) == place, f"{key}: not at {place}")  # noqa: B023
        await screen.press("pagedown")
        await screen.until(lambda: at("pagedown") > 1)
        page = at("pagedown")
        await screen.press("pagedown")
        await screen.until(lambda: at("pagedown") == 2 * page)
        await screen.press("pageup")
        await screen.until(lambda: at("pageup") == page)
        await screen.press("pageup")
        await screen.until(lambda: at("pageup") == 0)


async def test_keys_move_columns_and_the_cursor_of_their_list() -> None:
    async with running(numbered(0)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("C")
        await screen.until(lambda: isinstance(screen.app.screen, ColumnScreen))
        columns = screen.app.screen
        assert isinstance(columns, ColumnScreen)
        first, second, third = columns._chosen[:3]
        for key, order in (
            ("J", (second, first, third)),
            ("greater_than_sign", (second, third, first)),
            ("K", (second, first, third)),
            ("less_than_sign", (first, second, third)),
            ("K", (first, second, third)),  # the column is the first, so it cannot move further left
        ):
            await screen.press(key)
            await screen.until(lambda: columns._chosen[:3] == order, key)  # noqa: B023
        for key, name in (
            ("j", second),
            ("j", third),
            ("k", second),
            ("G", columns._order[-1]),
            ("g", first),
        ):
            await screen.press(key)
            await screen.until(lambda: columns._here == name, key)  # noqa: B023


@pytest.mark.parametrize(
    ("opens", "same"),
    [
        (("question_mark",), "question_mark"),
        (("C",), "C"),
        (("D",), "D"),
        (("I",), "I"),
        (("w",), "w"),
        (("a", "enter"), "a"),
        (("home", "v", "down", "v"), "v"),
    ],
    ids=lambda keys: keys if isinstance(keys, str) else "".join(keys),
)
async def test_esc_q_and_the_opening_key_close_a_screen(opens: tuple[str, ...], same: str) -> None:
    async with running(faulty(STARVED)) as screen:
        await screen.sees(STARVED.summary)
        for key in ("escape", "q", same):
            await screen.press(*opens)
            await screen.until(lambda: screen.app.screen is not screen.app.main, f"{opens} opens nothing")
            await screen.press(key)
            await screen.until(lambda: screen.app.screen is screen.app.main, f"{key} does not close it")
            await screen.press("escape")


async def test_keys_choose_a_format() -> None:
    async with running(numbered(0)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("w")
        await screen.until(lambda: isinstance(screen.app.screen, SaveScreen))
        formats = screen.app.screen
        assert isinstance(formats, SaveScreen)
        steps = (("j", 1), ("j", 2), ("k", 1), ("down", 2), ("up", 1), *((str(n + 1), n) for n in range(6)))
        for key, number in steps:
            await screen.press(key)
            await screen.until(lambda: formats.chosen is SAVED[number], key)  # noqa: B023


SCREENS: tuple[type[Screen[None]], ...] = (
    *(ChainScreen, ColumnScreen, CompareScreen, DeviceScreen, DevicesScreen, HelpScreen, LivePage, RowScreen),
    *(SaveScreen, WarningsScreen, FleetScreen),
)
"""All screens that open over the main screen, and that of a fleet."""


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.__name__)
def test_help_lists_what_keys_do_on_other_screens(screen: type[Screen[None]]) -> None:
    listed = {
        key for page in PAGES if screen.__name__ in page.screens for keys, _ in page.keys for key in keys
    }
    everywhere = {"escape", "q", "k", "j", "shift+tab", *"1234567"}  # listed once, for all screens
    opened_by = {"question_mark", "a", "C", "v", "D", "I", "w"}
    own = [one for one in screen.BINDINGS if isinstance(one, Binding) and one.id not in BY_ID]
    for binding in own:
        keys = set(binding.key.split(",")) - everywhere
        assert keys <= (listed | opened_by if binding.action == "close" else listed), binding
    text = "\n".join("".join(part for part, _ in line.parts) for line in help_page(screen.__name__))
    for page in PAGES:
        assert all(f"  {keys.ljust(14)} {help_}" in text for keys, help_ in page.lines())
        if screen.__name__ in page.screens:
            assert text.index(page.heading) < text.index("Look at")


def test_the_line_of_keys_names_known_actions_and_says_how_to_go_on_after_a_freeze() -> None:
    assert {name for names, _ in FOOTER for name in names} <= set(BY_ID)
    assert ("Space", "Freeze") in {(key, label) for key, label, _ in footer()}
    assert ("Space", "Live") in {(key, label) for key, label, _ in footer(frozen=True)}
    assert all(len(key) == 1 or key in PRINTED for action in ACTIONS for key in action.keys)


def test_documents_list_exactly_the_keys_and_settings() -> None:
    found = documents()
    names = {path.name for path in found}
    assert names == {
        "README.md",
        "runbook.md",
        "keys.md",
        "config.md",
        "devices.md",
        "file-format.md",
        "fleet.md",
        "json.md",
        "metrics.md",
        "sql.md",
        "stacks.md",
        "saving.md",
        "export.md",
    }
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run scripts/write_keys.py"
    everything = next(text for path, text in found.items() if path.name == "keys.md")
    assert all(f"| `{action.key}` | " in everything for action in ACTIONS)
    assert set(SHORT) <= set(BY_ID)
