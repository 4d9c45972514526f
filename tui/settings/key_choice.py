"""Other keys for actions, as a file of settings names them: what may be chosen, and what is in the way."""

from __future__ import annotations

import difflib
import string
import unicodedata
from collections.abc import Mapping
from typing import Final

from stalltop.tui.keys import ACTIONS, BY_ID, PRINTED, printed

Chosen = tuple[tuple[str, tuple[str, ...]], ...]
"""Ids of actions, each with its keys by Textual's names."""

_ALIKE: Final = "hijm"
"""With Ctrl these are Backspace, Tab and Enter to a terminal."""
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
"""Keys that a terminal can tell from each other, by Textual's names."""


def key_named(text: str) -> str:
    """Textual's name of a key that somebody has written: a character, or such as ``f5`` and ``ctrl+s``.

    Raises ValueError where it is none.
    """
    name = text
    if len(text) == 1 and text not in _NAMED:
        name = unicodedata.name(text, "").lower().replace("-", "_").replace(" ", "_")
        if text.isascii() and text.isprintable() and name:
            return {"hyphen_minus": "minus", "plus_sign": "plus", "solidus": "slash"}.get(name, name)
    elif len(text) > 1 and text.lower() in _NAMED:
        return text.lower()
    if name not in _NAMED:
        raise ValueError(f"{text!a} is no key: one character, or such as f5, ctrl+s, tab")
    return name


def keys_chosen(table: object) -> Chosen:
    """The keys that ``table``, by action, gives. Raises ValueError with the reason where it cannot be so."""
    if not isinstance(table, Mapping):
        raise ValueError("a key for each of some actions")
    chosen: dict[str, tuple[str, ...]] = {}
    for action, wanted in table.items():
        if action not in BY_ID:
            near = difflib.get_close_matches(str(action), BY_ID, 1)
            hint = f"did you mean {near[0]}?" if near else "docs/keys.md lists them"
            raise ValueError(f"{str(action)!a} is no action; {hint}")
        texts = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(texts, list | tuple) or not texts or not all(isinstance(one, str) for one in texts):
            raise ValueError(f"{action} takes a key, or a list of some")
        chosen[action] = tuple(dict.fromkeys(key_named(text) for text in texts))
    taken: dict[str, str] = {}
    for one in ACTIONS:
        for key in (*chosen.get(one.id, one.keys), *one.also):
            other = taken.setdefault(key, one.id)
            if other != one.id:
                raise ValueError(
                    f"{printed(key)} would be both {other} and {one.id}; give one of them another"
                )
    return tuple(chosen.items())
