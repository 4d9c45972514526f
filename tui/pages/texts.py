"""The texts of the help and of the page of warnings, as lines to scroll through. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import LOSSES, PARTS, Window
from stalltop.tui.chain.warnings import warnings
from stalltop.tui.keys import groups, key
from stalltop.tui.pages.filter_help import TERMS
from stalltop.tui.pages.page_keys import PAGES, PageKeys
from stalltop.tui.tables.columns.catalogue import COLUMNS
from stalltop.widgets.page import PageLine

SIGNS = (
    ("~ 14.7ms", "few calls support the figure, or it may be chance; dim instead in themes with grey"),
    ("C H M L", "chains: critical, high, medium, low; the first line counts them: 1C 2M"),
    ("name C", "a problem names this row ({why} shows it)"),
    ("name ?", "not all of its calls were counted ({warnings} shows why)"),
    ("! - i", "in the list of warnings: a warning without a chain; a note; information"),
    ("3x", "in the list of warnings: three chains of one kind that ended or are information"),
    ("(name)", "nested in another traced call, which contains its time: its share is not part of the 100 %"),
    (
        "traced 15/16",
        "15 processes are traced of 16 that use CUDA or NCCL ({warnings} shows which is not, and why)",
    ),
    ("missed", "calls that no row contains ({warnings} shows why)"),
    (
        "host gap",
        "the time between two calls of a thread; it is no call, so it comes last and is in no total",
    ),
    ("probes", "CPU time of the tracing itself, in percent of one CPU"),
    (
        "NET",
        "bytes that the network of the host received and sent per second, RDMA among them; RDMA: those of"
        " InfiniBand and RoCE alone. It is coloured if ports counted errors: the pages of GPUs and of"
        " problems with NCCL or the network say which",
    ),
)
"""The meaning of signs and figures that are not columns, for the help."""


def help_page(of: str = "") -> list[PageLine]:
    """Return the help: keys by purpose, then the meaning of figures and the syntax of filters.

    ``of`` is the class name of the screen on which the user asked for help; its own keys come first.
    """
    lines: list[PageLine] = []
    pages = sorted(PAGES, key=lambda page: of not in page.screens)
    here = [page for page in pages if of in page.screens]
    for page in here:
        lines += _page_keys(page)
    for heading, actions in groups().items():
        lines.append(PageLine(((heading, "head"),)))
        lines += [_pair(action.key, action.help, "accent") for action in actions]
        lines.append(PageLine())
    for page in pages[len(here) :]:
        lines += _page_keys(page)
    lines.append(PageLine((("Figures", "head"),)))
    lines += [_pair(column.heading, column.help, "label") for column in COLUMNS if column.heading]
    asked = {"{why}": key("chains"), "{warnings}": key("warnings")}
    for name, meaning in SIGNS:
        for sign, pressed in asked.items():
            meaning = meaning.replace(sign, pressed)
        lines.append(_pair(name, meaning, "label"))
    lines.append(PageLine())
    lines.append(PageLine((("Where time goes", "head"),)))
    lines += [
        PageLine(
            (
                ("  ", "text"),
                (part.letter, name),
                (f" {name.ljust(12)} ", "label"),
                (part.meaning, "text"),
            ),
            17,
        )
        for name, part in PARTS.items()
    ]
    lines.append(PageLine())
    lines.append(PageLine((("Filter", "head"),)))
    lines += [_pair(term, meaning, "label") for term, meaning in TERMS]
    return lines


def _page_keys(page: PageKeys) -> list[PageLine]:
    head = PageLine(((page.heading, "head"),))
    return [head, *(_pair(keys, help_, "accent") for keys, help_ in page.lines()), PageLine()]


def _pair(left: str, right: str, role: str) -> PageLine:
    return PageLine(((f"  {left.ljust(14)} ", role), (right, "text")), indent=17)


def warnings_page(window: Window | None, notes: Sequence[str], glyphs: Glyphs) -> list[PageLine]:
    """Return all warnings that are not contained in a problem, then the coverage and the cost of tracing."""
    found = warnings(window, notes, glyphs)
    lines = [PageLine(((f"Warnings besides chains ({len(found)})", "head"),))]
    if not found:
        lines.append(PageLine((("  none", "good"),)))
    for warning in found:
        lines.append(PageLine((("  " + warning.text, warning.level),), indent=4))
        if warning.remedy:
            lines.append(PageLine((("    " + warning.remedy, "text"),), indent=4))
    if window is None:
        return lines
    coverage = window.coverage
    cost = figures.percent(coverage.cost_percent, glyphs).strip()
    lines += [
        PageLine(),
        PageLine((("Traced", "head"),)),
        _pair("processes", str(coverage.processes), "label"),
        _pair("functions", f"{coverage.functions} in {len(coverage.libraries)} files", "label"),
        _pair(
            "probes", f"{coverage.attached} in place{f' ({coverage.way})' if coverage.way else ''}", "label"
        ),
        _pair("cost", f"{coverage.probe_ns:.0f} ns a call; {cost} of one CPU in this window", "label"),
    ]
    for library in coverage.libraries:
        lines.append(
            PageLine(
                (
                    (f"  {library.layer.ljust(14)} ", "label"),
                    (library.path, "text"),
                    (f"  {library.functions} functions, in use by {library.processes}", "dim"),
                ),
                indent=17,
            )
        )
    lines += [PageLine(), PageLine((("Missed or uncertain in this window", "head"),))]
    counted = [(meaning, window.loss[name]) for name, meaning in LOSSES.items() if window.loss.get(name)]
    if not counted:
        lines.append(PageLine((("  nothing", "good"),)))
    for meaning, number in counted:
        lines.append(_pair(f"{number:,}", meaning, "warn"))
    return lines
