"""The page with all warnings and the coverage, as lines to scroll through. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.words import numbered
from stalltop.model.window import LOSSES, UNCOUNTED, Reduction, Window
from stalltop.tui.problems.warnings import warnings
from stalltop.widgets.page import PageLine


def warnings_page(window: Window | None, notes: Sequence[str], glyphs: Glyphs) -> list[PageLine]:
    """Return all warnings that are not contained in a problem, then the coverage and the cost of tracing."""
    found = warnings(window, notes, glyphs)
    lines = [PageLine(((f"Remarks ({len(found)})", "head"),))]
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
        _pair("functions", f"{coverage.functions} in {numbered(len(coverage.libraries), 'file')}", "label"),
        _pair(
            "probes", f"{coverage.attached} in place{f' ({coverage.way})' if coverage.way else ''}", "label"
        ),
        _pair("cost", f"{coverage.probe_ns:.0f} ns a call; {cost} of one CPU in this window", "label"),
    ]
    if coverage.tracer is not None:
        lines.append(_pair("tracer", coverage.tracer.text, "label"))
    for library in coverage.libraries:
        lines.append(
            PageLine(
                (
                    (f"  {library.layer.ljust(14)} ", "label"),
                    (library.path, "text"),
                    (
                        f"  {numbered(library.functions, 'function')}, used by "
                        f"{numbered(library.processes, 'process', 'processes')}",
                        "dim",
                    ),
                ),
                indent=17,
            )
        )
        lines += [_pair("", _reduced(one), "label") for one in library.reduced]
    missed = [name for name in LOSSES if name in UNCOUNTED and window.loss.get(name)]
    partial = [name for name in LOSSES if name not in UNCOUNTED and window.loss.get(name)]
    for title, names, role in (
        (f"Missed in this window: {window.lost:,}", missed, "bad"),
        ("Partial in this window", partial, "warn"),
    ):
        lines += [PageLine(), PageLine(((title, "head"),))]
        if not names:
            lines.append(PageLine((("  nothing", "good"),)))
        lines += [_pair(f"{window.loss[name]:,}", LOSSES[name], role) for name in names]
    return lines


def _reduced(one: Reduction) -> str:
    """Return what is not counted of a function, and what is."""
    if one.nested:
        return f"{one.symbol}: {one.text}; its calls are made inside calls that are counted"
    if one.timed_in > 1:
        return f"{one.symbol}: {one.text}; all calls are counted, their times are those of a sample"
    return (
        f"{one.symbol}: {one.text}; its figures are not scaled up"
        if one.share
        else f"{one.symbol}: {one.text}"
    )


def _pair(left: str, right: str, role: str) -> PageLine:
    return PageLine(((f"  {left.ljust(14)} ", role), (right, "text")), indent=17)
