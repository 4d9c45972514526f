"""The line of keys at the bottom of the main screen: which keys it shows, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.model.rows.dimensions import Dimension
from stalltop.tui.keys.actions import BY_ID

Entry = tuple[tuple[str, ...], str]
"""Ids of actions, and their common label in the line of keys. If the label is empty, that of the first action
is used."""

GROUPED_BY: tuple[Dimension, ...] = ("container", "operation", "process", "device")
"""Ids of the actions that group rows by the dimension of the same name, the most useful first."""
SPELT_FROM = 160
"""Least width in cells of a line of keys that names what each of ``GROUPED_BY`` does."""
FOOTER: tuple[Entry, ...] = (
    (("quit",), ""),
    (("help",), ""),
    (("out",), ""),
    (("enlarge",), ""),
    (("save",), ""),
    (("in",), ""),
    (("warnings",), ""),
    (("chains",), ""),
    (("commands",), ""),
    (("freeze",), ""),
    (("back", "onward"), "Time"),
    (("fault_back", "fault_on"), "Jump"),
    (("play",), ""),
    (("when",), ""),
    (("filter",), ""),
    (GROUPED_BY, "Group by"),
    (("details",), ""),
    (("sort",), ""),
    (("longer", "shorter"), "Window"),
    (("mark", "compare"), "Compare"),
    (("devices",), ""),
    (("unfold",), ""),
    (("versus",), ""),
    (("columns",), ""),
    (("only",), ""),
    (("reverse",), ""),
    (("theme",), ""),
)
"""The line of keys, the most important first. Keys that have no use now are left out or come last."""
FOOTER_OF_WARNINGS: tuple[Entry, ...] = (
    (("quit",), ""),
    (("help",), ""),
    (("save",), ""),
    (("in",), ""),
    (("out",), "Back"),
    (("copy",), ""),
    (("commands",), ""),
    (("silence",), ""),
    (("chains",), "Row"),
    (("silenced",), ""),
    (("enlarge",), ""),
    (("freeze",), ""),
)
"""The line of keys while the list of problems has the focus."""
_COMMANDS: Entry = (("commands",), "")
_MOVES: Entry = (("back", "onward"), "Time")
_OF_PAST = ("back", "fault_back", "play", "when")
_OF_TIME = {"freeze", "longer", "mark", *_OF_PAST}
"""Ids of actions whose entries are left out if there is only one moment."""


def footer(
    *,
    warnings: bool = False,
    frozen: bool = False,
    still: bool = False,
    file: bool = False,
    out: str = "",
    enlarged: bool = False,
    width: int = 0,
) -> tuple[tuple[str, str, str], ...]:
    """Return (keys, label, Textual action of the first) for the line of keys, the most important first.

    ``warnings``: the list of problems has the focus. ``frozen``: the screen is frozen. ``still``: there is
    only one moment, that of a saved window. ``file``: a recording is shown. ``out``: what Esc does now, in a
    word; empty: nothing. ``enlarged``: one panel takes the whole screen. ``width``: the cells of the line.
    """
    prefix = {"table": "focused.", "app": "app.", "screen": ""}
    held = "" if not frozen else "Newest" if file else "Live"
    labels = {"out": out, "freeze": held, "enlarge": "All panels" if enlarged else ""}
    useless = _OF_TIME if still else {"freeze"} if file and not frozen else set()
    past = frozen or file
    last = {"enlarge": not enlarged, **dict.fromkeys(_OF_PAST, not past)}
    now: list[tuple[str, str, str]] = []
    later: list[tuple[str, str, str]] = []
    for ids, together in FOOTER_OF_WARNINGS if warnings else _in_past(FOOTER) if past else FOOTER:
        first = BY_ID[ids[0]]
        if first.id in useless or (first.id == "out" and not (together or out)):
            continue
        if ids is GROUPED_BY and width >= SPELT_FROM:
            now += [(BY_ID[name].key, BY_ID[name].label.lower(), BY_ID[name].bound) for name in ids]
            continue
        label = together or labels.get(first.id) or first.label
        keys = " ".join(BY_ID[name].key for name in ids)
        (later if last.get(first.id) else now).append((keys, label, prefix[first.by] + first.bound))
    return (*now, *later)


def _in_past(entries: Sequence[Entry]) -> list[Entry]:
    """Return ``entries`` with the keys that move through time before that of the commands."""
    others = [entry for entry in entries if entry != _COMMANDS]
    others.insert(others.index(_MOVES) + 1, _COMMANDS)
    return others
