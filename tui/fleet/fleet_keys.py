"""The keys of the fleet's screen, from the table of all keys."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding, BindingType

from stalltop.tui.fleet.fleet_tables import PAGES
from stalltop.tui.keys.actions import BY_ID, own_bindings

FLEET_KEYS: Final = {
    "out": "way_back",
    "filter": "filter",
    "copy": "copy_fix",
    "freeze": "freeze",
    "back": "past",
    "save": "save",
    "theme": "theme",
    "help": "help",
    "quit": "leave",
}
"""Ids of actions of the table of keys that this screen has, and the app's methods for them. What is special
here is in ``page_keys``."""
_SHOWN: Final = ("quit", "help", "out", "filter", "copy", "freeze", "back", "save", "theme")
"""The line of keys after the pages, the most important first."""


def key_line() -> tuple[tuple[str, str, str], ...]:
    """Returns the line of keys: (key, label, Textual action)."""
    labels = {"out": "Back", "back": "Past"}
    pages = [(str(at), page.capitalize(), f"app.page('{page}')") for at, page in enumerate(PAGES, 1)]
    return (
        (BY_ID["in"].key, BY_ID["in"].label, ""),
        *pages,
        *(
            (BY_ID[name].key, labels.get(name, BY_ID[name].label), f"app.{FLEET_KEYS[name]}")
            for name in _SHOWN
        ),
    )


def fleet_bindings() -> list[BindingType]:
    """Returns the bindings of the screen."""
    keys = {name: f"app.{action}" for name, action in FLEET_KEYS.items() if name != "filter"}
    return [
        *own_bindings(**keys),
        # Without priority: names of hosts contain the key of the filter.
        Binding(",".join(BY_ID["filter"].keys), "app.filter", show=False, id="filter"),
        *(Binding(str(at), f"app.page('{page}')", show=False) for at, page in enumerate(PAGES, 1)),
    ]
