"""The section about CUDA kernels that the calls of a row launch. Pure functions."""

from __future__ import annotations

import math

from stalltop.model.families import launches_kernel
from stalltop.model.row_key import RowKey
from stalltop.model.text import figures
from stalltop.tui.pages.sections import Frame, Section, heading, more, note
from stalltop.tui.row.facts import RowFacts
from stalltop.widgets.page import PageLine

MOST_KERNELS = 8
"""The most CUDA kernels that are listed."""
LONGEST_NAME = 200
"""The most characters of a name: templates make names of thousands of characters."""


def kernels(facts: RowFacts, frame: Frame) -> Section:
    """Return the section about the CUDA kernels that the row launches, sorted by the time in their launch
    calls, the longest first.

    Returns an empty section if the row launches none, or if the window has no CUDA kernels.
    """
    launching = {
        key: (calls, ns)
        for key, calls, ns in zip(
            facts.rows.keys, facts.rows.calls.tolist(), facts.rows.total_ns.tolist(), strict=True
        )
        if launches_kernel(key.layer, key.operation)
    }
    if not launching or not facts.window.kernels:
        return Section("kernels", ())
    title = "Kernels launched"
    if facts.nested:
        return Section("kernels", (heading(title), note("see the page of the calls that contain these")))
    sums: dict[str, tuple[int, int]] = {}
    for kernel in facts.window.kernels:
        if RowKey(facts.window.host, *kernel.row) in launching:
            calls, ns = sums.get(kernel.kernel, (0, 0))
            sums[kernel.kernel] = (calls + kernel.calls, ns + kernel.total_ns)
    outermost = [figured for key, figured in launching.items() if not key.nested]
    whole_calls, whole_ns = (sum(column) for column in zip(*outermost, strict=True)) if outermost else (0, 0)
    known_calls, known_ns = (sum(column) for column in zip(*sums.values(), strict=True)) if sums else (0, 0)
    unknown = sums.pop("", (0, 0))
    unknown = (
        unknown[0] + max(whole_calls - known_calls, 0),
        unknown[1] + max(whole_ns - known_ns, 0),
    )
    lines = [heading(title, "share of the time in launches, launches a second, time of one launch")]
    # Times that differ by less than half an octave (a factor of 1.4) may count as equal. Such CUDA kernels
    # are sorted by name, so that lines do not jump.
    order = sorted(sums, key=lambda name: (-round(2 * math.log2(sums[name][1] + 1)), name))
    shown = order[:MOST_KERNELS]
    lines += [_line(*sums[name], _short(name, frame), "text", whole_ns, facts, frame) for name in shown]
    lines += more(len(order) - len(shown))
    if unknown[0]:
        lines.append(_line(*unknown, "kernels whose names are not known", "dim", whole_ns, facts, frame))
    if not whole_calls:
        lines.append(note("nothing was launched within this window"))
    return Section("kernels", tuple(lines))


def _short(name: str, frame: Frame) -> str:
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + frame.glyphs.dots


def _line(
    calls: int, ns: int, name: str, role: str, whole_ns: int, facts: RowFacts, frame: Frame
) -> PageLine:
    share = figures.percent(min(100 * ns / whole_ns, 100.0) if whole_ns else None, frame.glyphs)
    rate = figures.rate(calls / (facts.window.seconds or 1.0), frame.glyphs)
    each = figures.duration(ns / calls if calls else None, frame.glyphs)
    front = f"  {share}  {rate}  {each}  "
    return PageLine(((front, "label"), (name, role)), indent=len(front) + 2)
