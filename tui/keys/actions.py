"""Every key and its action, in one table. Bindings, line of keys, help, palette and README are derived from
it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.binding import Binding, BindingType

PRINTED = {
    "question_mark": "?",
    "asterisk": "*",
    "full_stop": ".",
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
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "ctrl+c": "Ctrl-C",
    "ctrl+l": "Ctrl-L",
    "ctrl+p": "Ctrl-P",
    "ctrl+z": "Ctrl-Z",
}
"""How keys are printed, by the names that Textual gives them. A key that is not listed is printed as Textual
names it."""


_chosen: dict[str, tuple[str, ...]] = {}
"""The keys that the user chose for actions, by the id of the action."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action and its keys."""

    id: str
    keys: tuple[str, ...]
    """The keys by Textual's names. The first one is shown."""
    label: str
    """One or two words for the line of keys."""
    help: str
    """One sentence for the help."""
    where: str
    """The heading under which the help lists the action."""
    action: str
    """The method of the main screen as ``PART.METHOD`` if ``by`` is ``screen``, else the name of a Textual
    action."""
    also: tuple[str, ...] = ()
    """Keys that also run the action but are not shown, such as ``=`` where ``+`` needs Shift."""
    by: str = "screen"
    """Which object has the binding: ``screen``, ``app`` or ``table``."""

    @property
    def key(self) -> str:
        """Return the names of the current keys, such as ``Space``, separated by blanks."""
        return " ".join(printed(key) for key in _chosen.get(self.id, self.keys))

    @property
    def bound(self) -> str:
        """Return the action as Textual's bindings name it: ``do('PART.METHOD', PARAMETER)`` for the main
        screen."""
        if self.by != "screen":
            return self.action
        method, _, parameters = self.action.rstrip(")").partition("(")
        return f"do('{method}', {parameters})" if parameters else f"do('{method}')"


def key(name: str) -> str:
    """Return the current key of the action with the id ``name``, as messages print it. If there are several
    keys, return the first one."""
    return BY_ID[name].key.partition(" ")[0]


def printed(key: str) -> str:
    """Return the printed name of a key, such as ``Space`` for ``space``, Textual's name."""
    return PRINTED.get(key, key)


_LOOK, _WHY, _TIME, _MOVE, _PANELS, _REST = "Look at", "Why", "Time", "Move", "Panels", "More"

# fmt: off
ACTIONS = (
    Action("container", ("c",), "Containers", "Group rows by container", _LOOK, "rows.pivot('container')"),
    Action("operation", ("o",), "Operations", "Group rows by operation", _LOOK, "rows.pivot('operation')"),
    Action("process", ("p",), "Processes", "Group rows by process", _LOOK, "rows.pivot('process')"),
    Action("layer", ("l",), "Layers", "Group rows by layer: runtime, driver, NCCL", _LOOK, "rows.pivot('layer')"),
    Action("pod", ("n",), "Pods", "Group rows by pod, if there are any", _LOOK, "rows.pivot('pod')"),
    Action("namespace", ("N",), "Namespaces", "Group rows by namespace", _LOOK, "rows.pivot('namespace')"),
    Action("host", ("h",), "Hosts", "Group rows by host", _LOOK, "rows.pivot('host')"),
    Action("device", ("d",), "Devices", "Group rows by device", _LOOK, "rows.pivot('device')"),
    Action("devices", ("D",), "GPUs", "Show the devices: all figures, past, processes", _LOOK, "rows.devices"),
    Action("in", ("enter",), "Open", "Open the row: operations, then processes", _LOOK, "choose", by="table"),
    Action("out", ("escape",), "Leave", "Go back; at the top: clear the filter", _LOOK, "rows.out"),
    Action("unfold", ("full_stop",), "Expand", "Expand or collapse the row", _LOOK, "rows.unfold"),
    Action("unfold_all", ("asterisk",), "Expand all", "Expand or collapse all rows", _LOOK, "rows.unfold_all"),
    Action("only", ("f",), "Which rows", "Filter rows: all, with nested calls; not idle; with problems", _LOOK, "rows.only"),
    Action("versus", ("v",), "Two rows", "Pick a row; on a second one: show both side by side", _LOOK, "rows.versus"),
    Action("columns", ("C",), "Columns", "Choose the columns and their order", _LOOK, "rows.columns"),
    Action("filter", ("slash",), "Filter", "Show only rows that match (see below)", _LOOK, "filter.open"),
    Action("sort", ("s",), "Sort", "Sort by the next column", _LOOK, "rows.sort(1)"),
    Action("sort_back", ("S",), "Sort left", "Sort by the previous column", _LOOK, "rows.sort(-1)"),
    Action("reverse", ("r",), "Reverse", "Reverse the sort order", _LOOK, "rows.reverse"),
    Action("warnings", ("a",), "Problems", "List the problems; Enter: cause and fix", _WHY, "problems.warnings"),
    Action("chains", ("i",), "Why", "Go from a row to its problems, from a problem to its row", _WHY, "problems.chains"),
    Action("details", ("I",), "Details", "Show all details of this row; at the lowest level also Enter", _WHY, "rows.details"),
    Action("stacks", ("F",), "Lines", "Show in which lines of code the threads of this row spend their time", _WHY, "rows.stacks"),
    Action("copy", ("y",), "Copy fix", "Copy the fix that is shown; after saving: the path", _WHY, "problems.copy_fix"),
    Action("commands", ("A",), "Actions", "Show commands for this row or problem, to copy", _WHY, "problems.commands"),
    Action("silence", ("z",), "Silence", "Silence this problem; again: show it", _WHY, "problems.silence"),
    Action("silenced", ("Z",), "Show silent", "Show silenced problems; again: hide them", _WHY, "problems.show_silenced"),
    Action("freeze", ("space",), "Freeze", "Freeze display (counting continues); again: live", _TIME, "playing.freeze"),
    Action("longer", ("plus",), "Longer", "Use a longer window", _TIME, "time.window(1)", also=("equals_sign",)),
    Action("shorter", ("minus",), "Shorter", "Use a shorter window", _TIME, "time.window(-1)", also=("underscore",)),
    Action("back", ("left_square_bracket",), "Earlier", "Go to the previous moment", _TIME, "time.step(-1)"),
    Action("onward", ("right_square_bracket",), "Later", "Go to the next moment; at the last: live", _TIME, "time.step(1)"),
    Action("minute_back", ("left_curly_bracket",), "-1 minute", "Go back a minute", _TIME, "time.minutes(-1)"),
    Action("minute_on", ("right_curly_bracket",), "+1 minute", "Go forward a minute", _TIME, "time.minutes(1)"),
    Action("fault_back", ("left_parenthesis",), "Last problem", "Go back to where a problem began", _TIME, "time.fault(-1)"),
    Action("fault_on", ("right_parenthesis",), "Next problem", "Go on to where the next problem begins", _TIME, "time.fault(1)"),
    Action("when", ("T",), "Go to", "Go to a time that you type: 14:32, -2h", _TIME, "time.when"),
    Action("play", ("P",), "Play back", "Play back; again: 10x, 60x, 600x; Space pauses", _TIME, "playing.play"),
    Action("span", ("L",), "Timeline", "Shorten the timeline; after the shortest: default", _TIME, "time.span"),
    Action("mark", ("m",), "Mark", "Mark this moment, to compare with it", _TIME, "time.mark"),
    Action("compare", ("x",), "Compare", "Compare with the mark; again: back", _TIME, "time.compare"),
    Action("up", ("up",), "Up", "Move a row up (also k)", _MOVE, "move(-1)", also=("k",), by="table"),
    Action("down", ("down",), "Down", "Move a row down (also j)", _MOVE, "move(1)", also=("j",), by="table"),
    Action("page_up", ("pageup",), "Page up", "Move a page up", _MOVE, "page(-1)", by="table"),
    Action("page_down", ("pagedown",), "Page down", "Move a page down", _MOVE, "page(1)", by="table"),
    Action("first", ("home",), "First", "Go to the first row (also g)", _MOVE, "end(-1)", also=("g",), by="table"),
    Action("last", ("end",), "Last", "Go to the last row (also G)", _MOVE, "end(1)", also=("G",), by="table"),
    Action("left", ("left",), "Left", "Scroll columns to the left", _MOVE, "sideways(-1)", by="table"),
    Action("right", ("right",), "Right", "Scroll columns to the right", _MOVE, "sideways(1)", by="table"),
    Action("other", ("tab",), "Other table", "Go to the next table, if more than one is shown", _MOVE, "rows.other"),
    Action("enlarge", ("e",), "Enlarge", "Enlarge the focused panel; again: show all panels", _PANELS, "panels.enlarge"),
    Action("panel_host", ("1",), "Host", "Show or hide the bars of the host", _PANELS, "panels.toggle('host')"),
    Action("panel_devices", ("2",), "Devices", "Show or hide the devices", _PANELS, "panels.toggle('devices')"),
    Action("panel_warnings", ("3",), "Problems", "Show or hide the problems", _PANELS, "panels.toggle('warnings')"),
    Action("panel_table", ("4",), "Tables", "Show or hide the tables", _PANELS, "panels.toggle('table')"),
    Action("panel_second", ("5",), "Second table", "Show or hide the second and third table", _PANELS, "panels.toggle('second')"),
    Action("panel_keys", ("6",), "Keys", "Show or hide the line of keys", _PANELS, "panels.toggle('keys')"),
    Action("graphs", ("7",), "Graphs", "Choose the graphs of the past: up to three figures", _PANELS, "panels.graphs"),
    Action("narrower", ("less_than_sign",), "Smaller", "Make the first table smaller", _PANELS, "panels.share(-10)"),
    Action("wider", ("greater_than_sign",), "Larger", "Make the first table larger", _PANELS, "panels.share(10)"),
    Action("reset_layout", ("0",), "Reset", "Reset the layout, columns, order, filter and window", _PANELS, "reset.everything"),
    Action("save", ("w",), "Save", "Save the view: window, text, page, CSV, picture", _REST, "files.save"),
    Action("record", ("R",), "Record", "Record new windows into a file; again: stop", _REST, "files.record"),
    Action("copy_row", ("Y",), "Copy row", "Copy the row with its headings", _REST, "files.copy_row"),
    Action("theme", ("t",), "Theme", "Switch to the next theme", _REST, "program.theme"),
    Action("less", ("b",), "Low traffic", "Draw less, for slow lines; again: draw everything", _REST, "program.draw_less"),
    Action("palette", ("ctrl+p",), "Find", "Find any action by name", _REST, "command_palette", by="app"),
    Action("suspend", ("ctrl+z",), "Suspend", "Suspend stalltop; fg resumes", _REST, "suspend_process", by="app"),
    Action("repaint", ("ctrl+l",), "Repaint", "Redraw the whole screen", _REST, "repaint", by="app"),
    Action("help", ("question_mark",), "Help", "Show this help", _REST, "help", by="app"),
    Action("quit", ("q",), "Quit", "Quit; the last table stays on the terminal", _REST, "program.leave"),
    Action("interrupt", ("ctrl+c",), "Interrupt", "Quit with exit code 130", _REST, "interrupt", by="app"),
)
# fmt: on
"""All actions in the order of the help."""

BY_ID = {action.id: action for action in ACTIONS}

TYPED = ("filter", "when")
"""Ids of actions after which the user types text."""
TYPED_ACTIONS = tuple(BY_ID[name].action for name in TYPED)


def choose(keys: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Use the keys that the user chose for these actions (given by their ids), and the usual keys for all
    others."""
    _chosen.clear()
    _chosen.update(keys)


def keymap() -> dict[str, str]:
    """Return the keys that the user chose, as a keymap of Textual."""
    return {name: ",".join((*keys, *BY_ID[name].also)) for name, keys in _chosen.items()}


def bindings(owner: str, *only: str) -> list[BindingType]:
    """Return the bindings of ``owner`` (``screen``, ``app`` or ``table``). With ``only``, return just those
    whose ``Action.action``, without its parameters, is in ``only``."""
    return [
        _binding(action, action.bound)
        for action in ACTIONS
        if action.by == owner and (not only or action.action.partition("(")[0] in only)
    ]


def own_bindings(**actions: str) -> list[BindingType]:
    """Return the bindings of a page. ``actions`` maps the id of an action, whose keys the page uses, to the
    page's own Textual action."""
    return [_binding(BY_ID[name], action) for name, action in actions.items()]


def _binding(action: Action, bound: str) -> Binding:
    return Binding(
        ",".join(action.keys + action.also),
        bound,
        action.help,
        show=False,
        id=action.id,
        # With priority, a key is handled before the widget with the focus gets it. The keys that open a line
        # of text have priority too, so that every later key is text.
        priority=action.id in ("interrupt", "suspend", "repaint", *TYPED),
    )


def groups() -> dict[str, list[Action]]:
    """Return the actions by their heading in the help."""
    result: dict[str, list[Action]] = {}
    for action in ACTIONS:
        result.setdefault(action.where, []).append(action)
    return result


SHORT = (
    *("in", "out", "container", "operation", "process", "filter", "sort", "reverse", "warnings", "chains"),
    *("details", "stacks", "device", "devices", "copy", "commands", "freeze", "longer", "shorter", "enlarge"),
    *("save", "theme", "palette", "help", "quit"),
)
"""Ids of the most important actions, in the order of the README."""


def _table(actions: Iterable[Action]) -> str:
    lines = ["| key | what it does |", "|---|---|"]
    lines += [f"| `{action.key}` | {action.help.replace('|', chr(92) + '|')} |" for action in actions]
    return "\n".join(lines)


def short_markdown() -> str:
    """Return the most important keys as a Markdown table, for the README."""
    return _table(BY_ID[name] for name in SHORT)


def markdown() -> str:
    """Return all keys as Markdown tables with headings and the ids of their actions, for docs/keys.md."""
    parts = []
    for heading, actions in groups().items():
        names = (" name |", "---|", *(f" `{action.id}` |" for action in actions))
        lines = zip(_table(actions).splitlines(), names, strict=True)
        table = "\n".join(line + name for line, name in lines)
        parts.append(f"## {heading}\n\n{table}")
    return "\n\n".join(parts)
