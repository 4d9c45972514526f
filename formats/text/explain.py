"""The text that ``stalltop explain`` prints: all chains of a window in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stalltop.formats.examined import examined, is_healthy
from stalltop.formats.text import chains as chain_text
from stalltop.formats.text.sharing_lines import sharing_lines
from stalltop.formats.text.window import LEAST_WIDTH
from stalltop.model.chain import Chain, information_last
from stalltop.model.text import figures
from stalltop.model.text.style import BOLD, DIM, YELLOW, Style
from stalltop.model.window import Window

_ONE: Final = {
    "calls": "call",
    "operations": "operation",
    "processes": "process",
    "tenants": "tenant",
    "devices": "device",
}
"""The singular of each key that ``examined`` returns."""


def explain_text(window: Window, chains: Sequence[Chain], style: Style, answer: Sequence[str] = ()) -> str:
    """Return ``chains`` of ``window`` as text that fits ``style`` (40 cells or more) and ends in a newline.
    Commands are never broken into several lines, so that they can be copied. The lines of ``answer`` come
    first."""
    style = style.at_least(LEAST_WIDTH)
    parts = [list(answer), _head(window, style)]
    ordered = sorted(chains, key=information_last)
    parts += [chain_text.explained(chain, window, style) for chain in ordered]
    parts.append(_conclusion(window, ordered, style))
    parts += sharing_lines(window, style)
    if window.evidence.unknown:
        lines = [line for text in window.evidence.unknown for line in style.folded("  ", text)]
        parts.append([style.paint("not measured here", BOLD), *lines])
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _head(window: Window, style: Style) -> list[str]:
    facts = [f"stalltop {window.host}", figures.moment(window.start), f"{window.seconds:.1f} s"]
    if window.simulated:
        facts.insert(1, "SIMULATED")
    lines = [style.paint(line, BOLD) for line in style.wrapped(facts)]
    if window.coverage.tracing:
        lines += [
            style.paint(line, YELLOW) for line in style.folded("not tracing: ", window.coverage.tracing)
        ]
    return lines


def _conclusion(window: Window, chains: Sequence[Chain], style: Style) -> list[str]:
    """Return lines that say how many problems were found, and how many calls, processes and so on were
    examined."""
    seen = examined(window)
    rests = ", ".join(
        f"{figures.count(number).strip()} {_ONE[name] if number == 1 else name}"
        for name, number in seen.items()
        if number
    )
    healthy = is_healthy(window, chains)
    if healthy is None:
        text = f"Nothing to explain: no CUDA or NCCL call returned in {window.seconds:.1f} s."
        if not window.coverage.attached:
            text += " No process here has a CUDA or NCCL library loaded, or nothing can be traced:"
            text += " run stalltop check"
        return style.folded("", text)
    faults = [chain for chain in chains if chain.severity != "info"]
    if healthy:
        return style.folded("", f"No problems detected. Examined: {rests}.")
    going_on = sum(chain.open for chain in faults)
    ended = len(faults) - going_on
    found = [f"{going_on} going on"] * bool(going_on) + [f"{ended} ended"] * bool(ended)
    text = f"Found: {', '.join(found)}. Examined: {rests}."
    return [style.paint(line, DIM) for line in style.folded("", text)]
