"""The keys that a config file gives to actions: parses them, and finds conflicts."""

from __future__ import annotations

import difflib
import string
import unicodedata
from collections.abc import Mapping
from typing import Final

from stalltop.tui.keys.actions import ACTIONS, BY_ID, PRINTED, printed

Chosen = tuple[tuple[str, tuple[str, ...]], ...]
"""Ids of actions, each with its keys by Textual's names."""

_ALIKE: Final = "hijm"
"""Letters that cannot be used with Ctrl: the terminal then sends Backspace (h), Tab (i) or Enter (j, m)."""
_NAMED: Final = frozenset(
    (
        *PRINTED,
        *string.ascii_letters,
        *string.digits,
        *(f"f{number}" for number in range(1, 13)),
        *(f"ctrl+{letter}" for letter in string.ascii_lowercase if letter not in _ALIKE),
        *("insert", "delete", "backspace"),
    )
)
"""Keys that a terminal can distinguish, by Textual's names."""


def key_named(text: str) -> str:
    """Return Textual's name of a key that a user wrote: a character, or a name such as ``f5`` and ``ctrl+s``.

    Raises ValueError if there is no such key.
    """
    name = text
    if len(text) == 1 and text not in _NAMED:
        name = unicodedata.name(text, "").lower().replace("-", "_").replace(" ", "_")
        if text.isascii() and text.isprintable() and name:
            return {"hyphen_minus": "minus", "plus_sign": "plus", "solidus": "slash"}.get(name, name)
    elif len(text) > 1 and text.lower() in _NAMED:
        return text.lower()
    if name not in _NAMED:
        raise ValueError(f"{text!a} is not a key; use one character, or a name such as f5, ctrl+s or tab")
    return name


def keys_chosen(table: object) -> Chosen:
    """Return the keys that ``table``, a part of the config file, gives to actions. Raises ValueError with the
    reason if ``table`` has a fault."""
    if not isinstance(table, Mapping):
        raise ValueError("must be a table of actions and their keys")
    chosen: dict[str, tuple[str, ...]] = {}
    for action, wanted in table.items():
        if action not in BY_ID:
            near = difflib.get_close_matches(str(action), BY_ID, 1)
            hint = f"did you mean {near[0]}?" if near else "docs/keys.md lists them"
            raise ValueError(f"{str(action)!a} is not an action; {hint}")
        texts = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(texts, list | tuple) or not texts or not all(isinstance(one, str) for one in texts):
            raise ValueError(f"'{action}' must be a key or a list of keys")
        chosen[action] = tuple(dict.fromkeys(key_named(text) for text in texts))
    taken: dict[str, str] = {}
    for one in ACTIONS:
        for key in (*chosen.get(one.id, one.keys), *one.also):
            other = taken.setdefault(key, one.id)
            if other != one.id:
                raise ValueError(
                    f"{printed(key)} is the key of both '{other}' and '{one.id}'; choose another key for one"
                )
    return tuple(chosen.items())
