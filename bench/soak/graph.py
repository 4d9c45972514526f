"""Draws what a recorder held over a soak: an SVG with panels for memory, descriptors, BPF objects, CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final

from bench.soak.footprint import Footprint
from bench.soak.results import Soak

_WIDTH, _HEIGHT = 430, 200
"""Width and height of a panel including its margins, SVG units."""
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 30, 14, 28
_ACROSS: Final = 2
_FOOT_HEIGHT: Final = 44
_STEPS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_MOST_TICKS: Final = 5
Curve = tuple[str, Callable[[Footprint], float]]
_PANELS: Final[tuple[tuple[str, tuple[Curve, ...]], ...]] = (
    (
        "Memory, MB",
        (("resident", lambda one: one.resident_mb), ("own of its helpers", lambda one: one.helpers_mb)),
    ),
    (
        "Descriptors and threads",
        (("descriptors", lambda one: one.descriptors), ("threads", lambda one: one.threads)),
    ),
    (
        "BPF objects",
        (
            ("BPF maps", lambda one: one.maps),
            ("programs", lambda one: one.programs),
            ("links", lambda one: one.links),
        ),
    ),
)
_STYLE: Final = """
text { font: 11px system-ui, sans-serif; fill: #24292f }
polyline { fill: none !important; stroke-width: 1.5 }
.title { font-weight: 600 } .axis { fill: #57606a }
.page { fill: #ffffff } .grid { stroke: #d0d7de; fill: none } .event { stroke: #cf222e; stroke-width: 1 }
.c0 { stroke: #0969da } .c1 { stroke: #1a7f37; stroke-dasharray: 5 2 }
.c2 { stroke: #8250df; stroke-dasharray: 2 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .axis { fill: #9198a1 } .page { fill: #0d1117 }
.grid { stroke: #30363d } .event { stroke: #f85149 }
.c0 { stroke: #4493f8 } .c1 { stroke: #3fb950 } .c2 { stroke: #ab7df8 }
}
"""
"""CSS of the SVG: colours with enough contrast on a light and on a dark background. The curves
also differ in their dashes."""


def drawing(soak: Soak) -> str:
    """Returns the SVG of ``soak``."""
    panels = [*_PANELS, ("CPU time, percent of a core", (("recorder and helpers", _nothing),))]
    width = _ACROSS * _WIDTH
    height = (len(panels) + 1) // _ACROSS * _HEIGHT + _FOOT_HEIGHT
    minutes = max(soak.footprints[-1].seconds / 60, 1e-6)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">',
        "<title>What a recorder holds while the life of a host is played fast</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]
    for number, (title, curves) in enumerate(panels):
        row, column = divmod(number, _ACROSS)
        places = [
            [(one.seconds / 60, value(one)) for one in soak.footprints]
            if value is not _nothing
            else _cpu(soak.footprints)
            for _, value in curves
        ]
        lines.append(f'<g transform="translate({column * _WIDTH} {row * _HEIGHT})">')
        lines += _panel(title, [name for name, _ in curves], places, minutes)
        lines.append("</g>")
    lines += _events(soak, width, height - _FOOT_HEIGHT + 6, minutes)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _nothing(_: Footprint) -> float:
    return 0.0


def _cpu(footprints: Sequence[Footprint], seconds: float = 60.0) -> list[tuple[float, float]]:
    """Returns minutes and CPU time in percent of a core, for stretches of ``seconds``."""
    found = []
    before = footprints[0]
    for one in footprints:
        if one.seconds - before.seconds >= seconds:
            share = (one.cpu_seconds - before.cpu_seconds) / (one.seconds - before.seconds)
            found.append((one.seconds / 60, 100 * share))
            before = one
    return found


def _panel(
    title: str, names: Sequence[str], places: Sequence[Sequence[tuple[float, float]]], minutes: float
) -> Iterator[str]:
    most = max((value for curve in places for _, value in curve), default=1.0) or 1.0
    step = next((step for step in _STEPS if most / step <= _MOST_TICKS), most)
    top = step * -(-most // step)
    yield _text(title, _LEFT, 18, "title")
    for tick in range(int(top // step) + 1):
        y = _y(tick * step / top)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield _text(f"{tick * step:g}", _LEFT - 5, y + 4, "axis", "end")
    for share in (0.0, 0.5, 1.0):
        label = f"{share * minutes:.0f}" + (" min" if share == 1.0 else "")
        yield _text(label, _x(share), _HEIGHT - 12, "axis", "end" if share == 1.0 else "middle")
    at = _WIDTH - _RIGHT
    for number, (name, curve) in reversed([*enumerate(zip(names, places, strict=True))]):
        line = " ".join(f"{_x(x / minutes):.1f},{_y(y / top):.1f}" for x, y in curve)
        yield f'<polyline class="c{number}" points="{line}"/>'
        yield _text(name, at, 18, "", "end")
        at -= 6 * len(name) + 6
        yield f'<polyline class="c{number}" points="{at - 18},14 {at},14"/>'
        at -= 28


def _events(soak: Soak, width: int, top: float, minutes: float) -> Iterator[str]:
    """Yields a mark for each disturbance, at its time, below the panels, and the kinds of disturbances."""
    for seconds, _ in soak.events:
        x = _LEFT + min(seconds / 60 / minutes, 1.0) * (width - _LEFT - _RIGHT)
        yield f'<path class="event" d="M{x:.1f} {top}v8"/>'
    kinds = ", ".join(dict.fromkeys(kind for _, kind in soak.events))
    yield _text(f"Marks: {kinds}", _LEFT, top + 26, "axis")


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _text(text: str, x: float, y: float, style: str = "", anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
