"""Draws how often a fault's cause is found, depending on the strength of the fault: an SVG with a panel for
each cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Final

from bench.faults.scoring.strength import AIM, CurvePoint

_ACROSS: Final = 4
"""Panels in a row."""
_WIDTH, _HEIGHT = 215, 170
"""Width and height of a panel including its margins, SVG units."""
_LEFT, _TOP, _RIGHT, _BOTTOM = 38, 30, 8, 34
"""Margins of a panel."""
_LEGEND_HEIGHT: Final = 34
_FOOT_HEIGHT: Final = 14
_CAPTION: Final = "Share of the trials, by the share of its time that the victim loses; dashed: 10 %"
_SHARES: Final = (0.025, 1.0)
"""Least and greatest value on the horizontal axis, which is logarithmic and shows the share that the victim
lost."""
_TICKS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
_LINES: Final = (
    ("found", "a problem about the victim opened"),
    ("named", "its first problem has the right cause"),
    ("culprit", "and blames the right tenant"),
)
"""The curves: the attribute of `CurvePoint` that a curve shows, and its text in the legend. Later curves are
drawn over earlier ones, which they may cover."""
_STYLE: Final = """
text { font: 11px system-ui, sans-serif; fill: #24292f }
polyline { fill: none !important }
.title { font-weight: 600 } .axis { fill: #57606a }
.page { fill: #ffffff } .grid { stroke: #d0d7de; fill: none } .aim { stroke: #8c959f; stroke-dasharray: 3 3 }
.found { stroke-width: 5; stroke: #8c959f; fill: #8c959f }
.named { stroke-width: 3; stroke: #0969da; fill: #0969da }
.culprit { stroke-width: 1.5; stroke: #1a7f37; fill: #1a7f37 }
.alarm { stroke-width: 2; stroke: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .axis { fill: #9198a1 } .page { fill: #0d1117 }
.grid { stroke: #30363d } .aim { stroke: #6e7681 }
.found { stroke: #6e7681; fill: #6e7681 } .named { stroke: #4493f8; fill: #4493f8 }
.culprit { stroke: #3fb950; fill: #3fb950 } .alarm { stroke: #f85149 }
}
"""
"""CSS of the SVG: colours with enough contrast on a light and on a dark background. The curves also differ in
width, for readers who do not see the colours."""


def drawing(points: Sequence[CurvePoint]) -> str:
    """Returns the SVG of all ``points``, which are sorted by cause and strength."""
    panels = [list(own) for _, own in groupby(points, key=lambda point: point.cause)]
    width = _ACROSS * _WIDTH
    height = _LEGEND_HEIGHT + math.ceil(len(panels) / _ACROSS) * _HEIGHT + _FOOT_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">',
        "<title>How well causes are found, by the share of its time that the victim loses</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        *_legend(),
    ]
    for number, own in enumerate(panels):
        row, column = divmod(number, _ACROSS)
        lines += _panel(own, column * _WIDTH, _LEGEND_HEIGHT + row * _HEIGHT)
    return "\n".join([*lines, _text(_CAPTION, _LEFT, height - 8, "axis"), "</svg>"]) + "\n"


def _legend() -> Iterator[str]:
    x = _LEFT
    for name, text in _LINES:
        yield f'<polyline class="{name}" points="{x},17 {x + 22},17"/>'
        yield _text(text, x + 28, 21)
        x += 40 + 6 * len(text)
    yield _cross(x + 6, 17)
    yield _text("false alarm", x + 16, 21)


def _panel(points: Sequence[CurvePoint], left: float, top: float) -> Iterator[str]:
    """Yields the SVG elements of the panel of one cause."""
    yield f'<g transform="translate({left} {top})">'
    yield _text(points[0].cause, _LEFT, _TOP - 10, "title")
    for part in (0.0, 0.5, 1.0):
        yield f'<path class="grid" d="M{_LEFT} {_y(part):.1f}H{_WIDTH - _RIGHT}"/>'
        yield _text(f"{part:.0%}", _LEFT - 5, _y(part) + 4, "axis", "end")
    for share in _TICKS:
        label = f"{share:.0%}" if share == _TICKS[-1] else f"{100 * share:.0f}"
        yield _text(label, _x(share), _HEIGHT - _BOTTOM + 15, "axis", "middle")
    yield f'<path class="aim" d="M{_x(AIM):.1f} {_y(1.0):.1f}V{_y(0.0):.1f}"/>'
    for name, _ in _LINES:
        yield from _curve(points, name)
    for point in points:
        if point.alarms:
            yield _cross(_x(point.typical_lost), _y(0.0))
    yield "</g>"


def _curve(points: Sequence[CurvePoint], name: str) -> Iterator[str]:
    ordered = sorted(points, key=lambda point: point.typical_lost)
    places = [(_x(one.typical_lost), _y(getattr(one, name) / one.trials)) for one in ordered]
    yield f'<polyline class="{name}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>'
    for x, y in places:
        yield f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="1.5"/>'


def _x(share: float) -> float:
    low, high = map(math.log, _SHARES)
    part = (math.log(min(max(share, _SHARES[0]), _SHARES[1])) - low) / (high - low)
    return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)


def _y(part: float) -> float:
    return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)


def _cross(x: float, y: float) -> str:
    return f'<path class="alarm" d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"/>'


def _text(text: str, x: float, y: float, style: str = "", anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
