"""The text of the help, as lines to scroll through. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

from stalltop.model.chain import SEVERITY_OF_SHARE, SEVERITY_SECONDS
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.window import PARTS
from stalltop.tui.columns.catalogue import COLUMNS
from stalltop.tui.columns.split import piece
from stalltop.tui.keys.actions import Action, groups, key
from stalltop.tui.keys.page_keys import PAGES, PageKeys
from stalltop.tui.pages.filter_help import TERMS
from stalltop.widgets.page import PageLine

_SHARES: Final = ", ".join(f"{share:.0%}".removesuffix("%") for share, _ in SEVERITY_OF_SHARE)
SIGNS = (
    (
        "C H M L",
        f"critical, high, medium, low: {_SHARES} % of the time is lost, or less; hardware that is faulty: at "
        f"least M; becomes lower only after {SEVERITY_SECONDS:.0f} s",
    ),
    ("name C", "a problem involves this row ({why}: which)"),
    ("name <", "the culprit of a problem ({why}: which)"),
    ("name ?", "not all calls are counted ({problems}: why)"),
    ("516ms/s", "516 ms lost of each second; above 1s/s: summed over threads"),
    ("~14.7ms", "uncertain: few calls, or by chance"),
)
"""The meaning of the most important signs that are not columns, for the help. ``{why}`` and the like are
keys."""
MORE_SIGNS = (
    ("ns ms s", "dim below 1 ms, bold from 1 s on"),
    ("! -", "a gap, a loss or a hanging call; a remark"),
    ("3x", "three problems of one kind"),
    ("(name)", "call inside another call ({rows} shows it)"),
    ("traced 15/16", "15 of 16 processes are traced ({problems}: why)"),
    ("missed", "calls that no row contains ({problems}: why)"),
    ("partial", "events that lack some figures"),
    ("host", "time outside calls; not part of any total"),
    ("probes", "CPU time of tracing in the programs"),
    ("own", "CPU time and memory of stalltop"),
    ("NET RDMA", "bytes/s in and out; coloured: port errors"),
)
"""The meaning of other signs and figures."""

HelpDetail = Literal["all", "sentences", "labels"]
"""How much the help says: all; without columns, filters and the keys of other pages; keys with a label
only. The first one that fits on one screen is shown."""
DETAILS: Final[tuple[HelpDetail, ...]] = get_args(HelpDetail)
_GAP = 2
"""Cells between two keys with labels."""


def help_page(of: str = "", detail: HelpDetail = "all", cells: int = 78) -> list[PageLine]:
    """Return the help: what the most important letters and marks mean; the keys of the screen on which the
    user asked; where time goes, and other signs;
    with ``detail`` "all" also the keys of other screens, the columns, and the syntax of filters.

    ``of`` is the class name of the screen on which the user asked for help; the keys of a page come before
    those of the main screen. ``cells`` is the width of a column of the help.
    """
    here = [page for page in PAGES if of in page.screens]
    lines = _signs("Legend", SIGNS)
    for page in here:
        lines += _page_keys(page)
    for heading, actions in groups().items():
        lines.append(PageLine(((heading, "head"),)))
        if detail == "labels":
            lines += _labels(actions, cells)
        else:
            lines += [_pair(action.key, action.help, "accent") for action in actions]
            lines.append(PageLine())
    if detail == "labels":
        lines.append(PageLine())
    lines += [*_where_time_goes(), *_signs("More signs", MORE_SIGNS)]
    if detail != "all":
        said = f"{key('palette')} finds any action by a word, {key('columns')} explains the columns"
        return [*lines, PageLine(((said, "dim"),))]
    for page in PAGES:
        lines += _page_keys(page) if page not in here else []
    lines.append(PageLine((("Columns", "head"),)))
    lines += [_pair(column.heading, column.help, "label") for column in COLUMNS if column.heading]
    lines.append(PageLine())
    lines.append(PageLine((("Filter", "head"),)))
    lines += [_pair(term, meaning, "label") for term, meaning in TERMS]
    return lines


def _labels(actions: Sequence[Action], cells: int) -> list[PageLine]:
    """Return ``actions`` as keys with labels, as many in a line as fit into ``cells`` cells."""
    # "Up Up" says nothing.
    actions = [action for action in actions if action.key != action.label]
    keys = max(len(action.key) for action in actions) + 1
    wide = keys + max(len(action.label) for action in actions) + _GAP
    each = max((cells - 2 + _GAP) // wide, 1)
    lines = []
    for first in range(0, len(actions), each):
        parts = [("  ", "text")]
        for action in actions[first : first + each]:
            parts += [(action.key.ljust(keys), "accent"), (action.label.ljust(wide - keys), "text")]
        parts[-1] = (parts[-1][0].rstrip(), "text")
        lines.append(PageLine(tuple(parts)))
    return lines


def _signs(heading: str, signs: Sequence[tuple[str, str]]) -> list[PageLine]:
    lines = [PageLine(((heading, "head"),))]
    asked = {"{why}": key("chains"), "{problems}": key("warnings"), "{rows}": key("only")}
    for name, meaning in signs:
        for sign, pressed in asked.items():
            meaning = meaning.replace(sign, pressed)
        lines.append(_pair(name, meaning, "label"))
    return [*lines, PageLine()]


def _where_time_goes() -> list[PageLine]:
    """Return the letters and colours of the parts of a call's time."""
    head = PageLine((("Where time goes", "head"),))
    parts = [
        PageLine(
            (
                ("  ", "text"),
                *piece(name, 1, glyphs=UNICODE),
                (f" {name.ljust(12)} ", "label"),
                (part.meaning, "text"),
            ),
            17,
        )
        for name, part in PARTS.items()
    ]
    return [head, *parts, PageLine()]


def _page_keys(page: PageKeys) -> list[PageLine]:
    head = PageLine(((page.heading, "head"),))
    return [head, *(_pair(keys, help_, "accent") for keys, help_ in page.lines()), PageLine()]


def _pair(left: str, right: str, role: str) -> PageLine:
    return PageLine(((f"  {left.ljust(14)} ", role), (right, "text")), indent=17)
