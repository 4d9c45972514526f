"""The text of the help, as lines to scroll through. Pure functions."""

from __future__ import annotations

from stalltop.model.window import PARTS
from stalltop.tui.columns.catalogue import COLUMNS
from stalltop.tui.keys.actions import groups, key
from stalltop.tui.keys.page_keys import PAGES, PageKeys
from stalltop.tui.pages.filter_help import TERMS
from stalltop.widgets.page import PageLine

SIGNS = (
    ("~14.7ms", "uncertain: based on few calls, or the difference may be chance"),
    ("ns ms s", "durations: dim below a millisecond, bold from a second on"),
    (
        "516ms/s",
        "lost time: 516 ms of each second; above 1s/s: summed over several threads",
    ),
    ("C H M L", "problems: critical, high, medium, low; the header counts them: 1C 2M"),
    ("name C", "a problem involves this row (press {why} to see it)"),
    ("name <", "the culprit of a problem; it may make no calls itself (press {why} to see which)"),
    ("name ?", "not all of its calls were counted (press {problems} to see why)"),
    ("! -", "remarks: a gap in coverage, a loss or a call open for long; - is information, no problem"),
    ("3x", "in the list of problems: three of one kind that ended or are information"),
    (
        "(name)",
        "a call inside another traced call, whose time contains it; a filter or {rows} shows such rows",
    ),
    (
        "traced 15/16",
        "15 processes are traced of 16 that use CUDA or NCCL (press {problems} to see which is not, and why)",
    ),
    ("missed", "calls that no row contains (press {problems} to see why)"),
    ("partial", "this many events lack some of their figures; no call is missed (press {problems})"),
    (
        "host gap",
        "the time between two calls of a thread; not a call, so it comes last and is in no total",
    ),
    ("probes", "CPU time of the tracing in the traced programs, in percent of one CPU"),
    ("own", "CPU time and memory of stalltop itself"),
    (
        "NET",
        "bytes that the host received and sent per second over its network, including RDMA; RDMA: only those"
        " of InfiniBand and RoCE. Coloured if a port counted errors: the page of a GPU, or of a problem with"
        " NCCL or the network, lists these ports",
    ),
)
"""The meaning of signs and figures that are not columns, for the help."""


def help_page(of: str = "") -> list[PageLine]:
    """Return the help: what letters, colours and marks mean; the keys of the screen on which the user asked;
    then the keys of other screens, the columns, and the syntax of filters.

    ``of`` is the class name of the screen on which the user asked for help; the keys of a page come before
    those of the main screen.
    """
    here = [page for page in PAGES if of in page.screens]
    others = [page for page in PAGES if of not in page.screens]
    lines = [*_legend(), *_where_time_goes()]
    for page in here:
        lines += _page_keys(page)
    for heading, actions in groups().items():
        lines.append(PageLine(((heading, "head"),)))
        lines += [_pair(action.key, action.help, "accent") for action in actions]
        lines.append(PageLine())
    for page in others:
        lines += _page_keys(page)
    lines.append(PageLine((("Columns", "head"),)))
    lines += [_pair(column.heading, column.help, "label") for column in COLUMNS if column.heading]
    lines.append(PageLine())
    lines.append(PageLine((("Filter", "head"),)))
    lines += [_pair(term, meaning, "label") for term, meaning in TERMS]
    return lines


def _legend() -> list[PageLine]:
    lines = [PageLine((("Legend", "head"),))]
    asked = {"{why}": key("chains"), "{problems}": key("warnings"), "{rows}": key("only")}
    for name, meaning in SIGNS:
        for sign, pressed in asked.items():
            meaning = meaning.replace(sign, pressed)
        lines.append(_pair(name, meaning, "label"))
    return [*lines, PageLine()]


def _where_time_goes() -> list[PageLine]:
    """Return the letters and colours of the parts of a call's time."""
    head = PageLine((("Where time goes", "head"),))
    parts = [
        PageLine(
            (("  ", "text"), (part.letter, name), (f" {name.ljust(12)} ", "label"), (part.meaning, "text")),
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
