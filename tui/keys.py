"""Every key and what it does, once. Bindings, the line of keys, help, palette and README come from here."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType

PRINTED = {
    "question_mark": "?",
    "space": "Space",
    "slash": "/",
    "enter": "Enter",
    "escape": "Esc",
    "plus": "+",
    "minus": "-",
    "tab": "Tab",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "ctrl+c": "Ctrl-C",
    "ctrl+p": "Ctrl-P",
    "ctrl+z": "Ctrl-Z",
}
"""How keys that are no letters are printed."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a key does."""

    id: str
    keys: tuple[str, ...]
    """As Textual names them; the first one is shown."""
    label: str
    """For the line of keys: one or two words."""
    help: str
    """For the help: one sentence."""
    where: str
    """Heading in the help."""
    action: str
    """Textual's name of it."""
    footer: int = 0
    """Place in the line of keys, from 1; 0: not there."""
    also: tuple[str, ...] = ()
    """Keys that do the same but are not mentioned, such as ``=`` where ``+`` needs shift."""
    bound_by: str = "screen"
    """``screen``, ``app`` or ``table``: who has the binding."""

    @property
    def key(self) -> str:
        """The keys as printed on them."""
        return " ".join(PRINTED.get(key, key) for key in self.keys)


_LOOK, _TIME, _MOVE, _REST = "Look at", "Time", "Move", "More"

ACTIONS = (
    Action("container", ("c",), "Container", "By container", _LOOK, "pivot('container')", 5),
    Action(
        "operation",
        ("o",),
        "Operation",
        "By operation, all containers together",
        _LOOK,
        "pivot('operation')",
        6,
    ),
    Action("process", ("p",), "Process", "By process", _LOOK, "pivot('process')", 7),
    Action("layer", ("l",), "Layer", "By layer: runtime, driver, NCCL", _LOOK, "pivot('layer')"),
    Action("pod", ("n",), "Pod", "By pod, where there are any", _LOOK, "pivot('pod')"),
    Action(
        "in",
        ("enter",),
        "In",
        "Into the row: its operations, its processes",
        _LOOK,
        "choose",
        8,
        bound_by="table",
    ),
    Action("out", ("escape",), "Out", "Back out, or clear the filter", _LOOK, "out", 9),
    Action(
        "filter",
        ("slash",),
        "Filter",
        "Only rows that match: word, /regex/, key:value, -not",
        _LOOK,
        "filter",
        4,
    ),
    Action("sort", ("s",), "Sort", "Sort by the next column", _LOOK, "sort(1)", 10),
    Action("sort_back", ("S",), "Sort back", "Sort by the previous column", _LOOK, "sort(-1)"),
    Action("reverse", ("r",), "Reverse", "Turn the order round", _LOOK, "reverse"),
    Action(
        "freeze", ("space",), "Freeze", "Hold the picture and go on counting; again: live", _TIME, "freeze", 3
    ),
    Action(
        "longer",
        ("plus",),
        "Longer",
        "Longer window: 1s, 10s, 60s, 300s, since start",
        _TIME,
        "window(1)",
        11,
        ("equals_sign",),
    ),
    Action("shorter", ("minus",), "Shorter", "Shorter window", _TIME, "window(-1)", 0, ("underscore",)),
    Action("up", ("up",), "Up", "Row up (also k)", _MOVE, "move(-1)", 0, ("k",), "table"),
    Action("down", ("down",), "Down", "Row down (also j)", _MOVE, "move(1)", 0, ("j",), "table"),
    Action("page_up", ("pageup",), "Page up", "Page up", _MOVE, "page(-1)", bound_by="table"),
    Action("page_down", ("pagedown",), "Page down", "Page down", _MOVE, "page(1)", bound_by="table"),
    Action("first", ("home",), "First", "First row (also g)", _MOVE, "end(-1)", 0, ("g",), "table"),
    Action("last", ("end",), "Last", "Last row (also G)", _MOVE, "end(1)", 0, ("G",), "table"),
    Action("columns_left", ("left",), "Left", "Columns to the left", _MOVE, "sideways(-1)", bound_by="table"),
    Action(
        "columns_right", ("right",), "Right", "Columns to the right", _MOVE, "sideways(1)", bound_by="table"
    ),
    Action("other", ("tab",), "Other table", "The other table, where two are shown", _MOVE, "other"),
    Action("save", ("w",), "Save", "Save this window to a file", _REST, "save", 12),
    Action(
        "warnings",
        ("a",),
        "Warnings",
        "All warnings: what hangs, is lost or is not traced",
        _REST,
        "warnings",
        13,
    ),
    Action("enlarge", ("e",), "Enlarge", "The table on the whole screen; again: back", _REST, "enlarge", 14),
    Action("theme", ("t",), "Theme", "Next colours", _REST, "theme"),
    Action(
        "palette", ("ctrl+p",), "Actions", "Find any action by name", _REST, "command_palette", bound_by="app"
    ),
    Action(
        "suspend",
        ("ctrl+z",),
        "Suspend",
        "To the shell; fg comes back",
        _REST,
        "suspend_process",
        bound_by="app",
    ),
    Action("help", ("question_mark",), "Help", "This help", _REST, "help", 2),
    Action("quit", ("q",), "Quit", "Leave; the last table stays on the terminal", _REST, "leave", 1),
    Action("interrupt", ("ctrl+c",), "Interrupt", "Leave at once", _REST, "interrupt", bound_by="app"),
)
"""All of them, in the order of the help."""


def bindings(owner: str, *only: str) -> list[BindingType]:
    """The bindings of ``owner`` (``screen``, ``app``, ``table``); with ``only``, of these Textual actions."""
    return [
        Binding(",".join(action.keys + action.also), action.action, action.help, show=False, id=action.id)
        for action in ACTIONS
        if action.bound_by == owner and (not only or action.action.partition("(")[0] in only)
    ]


def footer(*, frozen: bool = False) -> tuple[tuple[str, str, str], ...]:
    """(key, label, Textual action) for the line of keys, the most important first."""
    shown = sorted((action for action in ACTIONS if action.footer), key=lambda action: action.footer)
    prefix = {"table": "focused.", "app": "app.", "screen": ""}
    return tuple(
        (
            action.key,
            "Live" if frozen and action.id == "freeze" else action.label,
            prefix[action.bound_by] + action.action,
        )
        for action in shown
    )


def groups() -> dict[str, list[Action]]:
    """Actions by the heading they have in the help."""
    result: dict[str, list[Action]] = {}
    for action in ACTIONS:
        result.setdefault(action.where, []).append(action)
    return result
