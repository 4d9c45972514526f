"""The texts of the help and of what is traced, as lines to scroll through. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from model.filter import KEYS
from model.window import LOSSES, SPLITS, Window
from outputs import figures
from tui.columns import against, now
from tui.keys import groups
from tui.split import LETTERS, MEANINGS
from tui.warnings import warnings
from widgets.page import PageLine

FIGURES = (
    *((kind.title, kind.help) for kind in now.KINDS if kind.title),
    ("C H M L", "after a name: a chain speaks of it, critical, high, medium or low (i says why)"),
    ("?", "after a name: some of its calls are in no figure: not traced, or never returned (a says why)"),
    ("(name)", "made inside another traced call, whose time holds it: shares come on top of 100 %"),
    ("+ -", "before a name: what is in the row is hidden, or shown below it"),
    ("traced 15/16", "15 processes are traced of 16 that use CUDA or NCCL (a says which is not, and why)"),
    ("lost", "calls known to be in no row (a says why)"),
    ("probes", "share of one CPU that the tracing itself takes"),
)
"""What figures mean, for the help."""


def help_page() -> list[PageLine]:
    """Keys by what they are for, then what the figures mean and what a filter can say."""
    lines: list[PageLine] = []
    for heading, actions in groups().items():
        lines.append(PageLine(((heading, "head"),)))
        lines += [_pair(action.key, action.help, "accent") for action in actions]
        lines.append(PageLine())
    lines.append(PageLine((("Figures", "head"),)))
    lines += [_pair(name, meaning, "label") for name, meaning in FIGURES]
    lines.append(PageLine())
    lines.append(PageLine((("Figures against the mark", "head"),)))
    lines += [_pair(kind.title, kind.help, "label") for kind in against.KINDS if kind.title]
    lines.append(PageLine())
    lines.append(PageLine((("Where time goes", "head"),)))
    lines += [
        PageLine(
            (
                ("  ", "text"),
                (LETTERS[name], name),
                (f" {name.ljust(12)} ", "label"),
                (MEANINGS[name], "text"),
            ),
            17,
        )
        for name in SPLITS
    ]
    lines.append(PageLine())
    lines.append(PageLine((("Filter", "head"),)))
    lines.append(_pair("allreduce", "the word is in any name; several words: all of them", "label"))
    lines.append(_pair("/^cuda.*Sync/", "a regular expression", "label"))
    lines.append(_pair("op:memcpy", f"only this name; keys: {', '.join(KEYS)}", "label"))
    lines.append(_pair("-layer:driver", "rows that do not match", "label"))
    return lines


def _pair(left: str, right: str, role: str) -> PageLine:
    return PageLine(((f"  {left.ljust(14)} ", role), (right, "text")), indent=17)


def warnings_page(window: Window | None, notes: Sequence[str], *, unicode: bool) -> list[PageLine]:
    """Every warning that no chain tells in full, then what is traced and what that costs."""
    found = warnings(window, notes, unicode=unicode)
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
    cost = figures.percent(coverage.cost_percent, unicode=unicode).strip()
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
    lines += [PageLine(), PageLine((("Lost or uncertain in this window", "head"),))]
    counted = [(meaning, window.loss[name]) for name, meaning in LOSSES.items() if window.loss.get(name)]
    if not counted:
        lines.append(PageLine((("  nothing", "good"),)))
    for meaning, number in counted:
        lines.append(_pair(f"{number:,}", meaning, "warn"))
    return lines
