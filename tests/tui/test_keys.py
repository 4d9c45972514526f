"""One table of keys: what is bound, shown and documented is the same."""

from __future__ import annotations

import pytest
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from scripts.write_keys import documents
from tui.app import StalltopApp
from tui.chain_screen import ChainScreen
from tui.column_screen import ColumnScreen
from tui.compare_screen import CompareScreen
from tui.device_screen import DeviceScreen, DevicesScreen
from tui.keys import ACTIONS, BY_ID, FOOTER, PRINTED, SHORT, bindings, footer, groups
from tui.live_page import LivePage
from tui.page_keys import PAGES
from tui.pages import help_page
from tui.pages_screen import HelpScreen, WarningsScreen
from tui.row_screen import RowScreen
from tui.save_screen import SaveScreen
from tui.screens import MainScreen
from tui.tables import GroupTable

CONTRACT = {*"q?/conplsSrwae+-t[]mx", "Space", "Enter", "Esc", "Ctrl-P", "Ctrl-Z"}
"""Keys that people rely on."""


def test_no_key_is_bound_twice_and_the_contract_holds() -> None:
    keys = [key for action in ACTIONS for key in action.keys + action.also]
    assert len(keys) == len(set(keys))
    assert len(BY_ID) == len(ACTIONS)
    assert {action.key for action in ACTIONS} >= CONTRACT


def test_every_action_exists_where_it_is_bound() -> None:
    owners: dict[str, type[DOMNode]] = {"screen": MainScreen, "table": GroupTable, "app": StalltopApp}
    for action in ACTIONS:
        name = action.action.partition("(")[0]
        assert hasattr(owners[action.by], f"action_{name}"), action
    for by, owner in owners.items():
        bound = {binding.id for binding in bindings(by) if isinstance(binding, Binding)}
        assert bound == {binding.id for binding in owner.BINDINGS if isinstance(binding, Binding)}


def test_help_lists_exactly_the_keys() -> None:
    text = "\n".join("".join(part for part, _ in line.parts) for line in help_page())
    for action in ACTIONS:
        assert f"  {action.key.ljust(14)} {action.help}" in text
    assert sum(len(actions) for actions in groups().values()) == len(ACTIONS)


SCREENS: tuple[type[Screen[None]], ...] = (
    *(ChainScreen, ColumnScreen, CompareScreen, DeviceScreen, DevicesScreen, HelpScreen, LivePage, RowScreen),
    *(SaveScreen, WarningsScreen),
)
"""All screens that lie on the main one."""


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.__name__)
def test_help_lists_what_keys_do_on_other_screens(screen: type[Screen[None]]) -> None:
    listed = {
        key for page in PAGES if screen.__name__ in page.screens for keys, _ in page.keys for key in keys
    }
    everywhere = {"escape", "q", "k", "j", "shift+tab", *"123456"}  # told once, or beside others
    opened_by = {"question_mark", "a", "C", "v", "d", "I", "w"}
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
    assert {path.name for path in found} == {"README.md", "keys.md", "config.md"}
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run scripts/write_keys.py"
    everything = next(text for path, text in found.items() if path.name == "keys.md")
    assert all(f"| `{action.key}` | " in everything for action in ACTIONS)
    assert set(SHORT) <= set(BY_ID)
