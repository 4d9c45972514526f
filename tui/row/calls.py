"""The section about captured calls on the page of a row. Pure functions."""

from __future__ import annotations

import numpy as np

from stalltop.formats.text.chains import name_of
from stalltop.model.calls import CapturedCall
from stalltop.model.text import figures
from stalltop.model.text.words import with_pid
from stalltop.model.window import SPLITS
from stalltop.tui.columns.split import bar
from stalltop.tui.pages.sections import Frame, Section, heading, more, note
from stalltop.tui.row.facts import RowFacts
from stalltop.tui.row.page import MOST_LISTED
from stalltop.widgets.drawing.magnitude import brightness
from stalltop.widgets.page import PageLine

_BAR = 10
"""Cells of the bar that shows where the time of a call went."""


def kept_calls(facts: RowFacts, frame: Frame) -> Section:
    """Return the slowest captured calls of the row, one line each.

    Returns an empty section for the time between calls, and if the window has no captured calls.
    """
    if facts.between or not facts.window.calls.kept:
        return Section("calls", ())
    calls = sorted(facts.kept, key=lambda call: (-call.duration_ns, call.start_ns, call.tid))
    about = "began, took, where the time went, thread" if frame.width >= 76 else "began, took, thread"
    lines = [heading("The slowest calls", about)]
    shown = calls[:MOST_LISTED]
    operations = {call.operation for call in shown}
    processes = {(call.tenant, call.pid) for call in shown}
    lines += [_line(call, facts, frame, len(operations) > 1, len(processes) > 1) for call in shown]
    if not calls:
        lines.append(note("none of its calls in this window was captured"))
    rest = len(calls) - len(shown)
    if rest > 0:
        lines += more(rest)
    return Section("calls", tuple(lines))


def _line(call: CapturedCall, facts: RowFacts, frame: Frame, operation: bool, process: bool) -> PageLine:
    """Return the line of one call. ``operation`` and ``process``: whether the line names them."""
    began = f"  {figures.clock(call.start_ns // 10**9)}.{call.start_ns // 10**6 % 1000:03}"
    took = f"{figures.duration(call.duration_ns, frame.glyphs)}  "
    pieces = [(f"{began} ", "label"), (took, brightness(call.duration_ns))]
    if call.split_ns is None or len(call.split_ns) != len(SPLITS):
        parts = None
    else:
        parts = np.array(call.split_ns, np.uint64)
    pieces += bar(parts, glyphs=frame.glyphs, letters=frame.letters, most=_BAR)
    indent = len(began) + 1 + len(took) + _BAR + 2
    said = [f"  {call.operation}, thread {call.tid}" if operation else f"  thread {call.tid}"]
    if process:
        said.append(with_pid(call.process, call.pid))
        if len(facts.tenants) > 1:
            said.append(name_of(call.tenant, facts.window))
    pieces.append((", ".join(said), "text"))
    if call.returned:
        pieces.append((f", returned {call.returned}", "warn"))
    moved = figures.size(call.bytes, frame.glyphs).strip() if call.bytes else ""
    about = "  ".join(text for text in (moved, call.kernel, call.arguments) if text)
    pieces.append((f"  {about}" if about else "", "dim"))
    return PageLine(tuple(pieces), indent=indent)
