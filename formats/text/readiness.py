"""Writes the findings of the readiness check as text or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

from stalltop.model.finding import Finding, Verdict, can_trace
from stalltop.model.text.style import Style

SCHEMA = "stalltop.readiness/1"

_COLOURS: dict[Verdict, str] = {"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}
_NARROWEST = 40


def document(findings: Sequence[Finding]) -> dict[str, object]:
    """Return a dict with ``schema``, ``can_trace`` and ``findings``. Each finding has name, verdict, seen and
    remedy."""
    return {
        "schema": SCHEMA,
        "can_trace": can_trace(findings),
        "findings": [
            {
                "name": finding.name,
                "verdict": finding.verdict,
                "seen": finding.seen,
                "remedy": finding.remedy,
            }
            for finding in findings
        ],
    }


def text(findings: Sequence[Finding], style: Style) -> str:
    """Return each finding, with its remedy below it. The last line says whether this host can be traced."""
    return listed(findings, _conclusion(findings), style)


def listed(findings: Sequence[Finding], conclusion: str, style: Style) -> str:
    """Return each finding, with its remedy below it, and ``conclusion`` as the last line."""
    glyphs, width = style.glyphs, max(style.width, _NARROWEST)
    names = max((cell_len(finding.name) for finding in findings), default=0)
    lines: list[str] = []
    for finding in findings:
        mark: str = getattr(glyphs, finding.verdict)
        indent = " " * (len(mark) + names + 3)
        first = f"{mark} {finding.name.ljust(names)}  "
        shown = _wrapped(finding.seen, indent, width)
        shown[0] = first + shown[0][len(indent) :]
        shown[0] = style.paint(mark, _COLOURS[finding.verdict]) + shown[0][len(mark) :]
        lines += shown
        if finding.remedy:
            lines += _wrapped(glyphs.remedy + finding.remedy, indent, width, hanging=len(glyphs.remedy))
    told = "\n".join((*lines, "", *textwrap.wrap(conclusion, width))) + "\n"
    return glyphs.plain(told.replace("µ", glyphs.micro).replace("…", glyphs.ellipsis))


def _conclusion(findings: Sequence[Finding]) -> str:
    failed = [finding.name for finding in findings if finding.verdict == "fail"]
    if failed:
        return f"This host cannot be traced as it is: see {', '.join(failed)}."
    warned = [finding.name for finding in findings if finding.verdict == "warn"]
    if warned:
        return f"This host can be traced; something is missing: see {', '.join(warned)}."
    return "This host can be traced."


def _wrapped(line: str, indent: str, width: int, hanging: int = 0) -> list[str]:
    return textwrap.wrap(
        line,
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_on_hyphens=False,
    ) or [indent]
