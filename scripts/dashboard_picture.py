"""Draws docs/images/dashboard.svg: ``python scripts/dashboard_picture.py``. Needs the Prometheus that
``scripts/fetch-receivers`` downloads.

Ten minutes of simulated tenants are loaded into Prometheus, which answers the dashboard's queries.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from scripts.dashboard import PANELS, DashboardPanel, filled  # noqa: E402
from stalltop.demo.simulated.windows import SimulatedSource  # noqa: E402
from stalltop.diagnosis.diagnosed import Diagnosed  # noqa: E402
from stalltop.diagnosis.engine import Diagnosis  # noqa: E402
from stalltop.formats.metrics.exposition import Exposition  # noqa: E402
from stalltop.formats.metrics.points import pass_on  # noqa: E402
from stalltop.formats.metrics.totals import HostTotals  # noqa: E402
from tests.kernel.receivers.prometheus import PROMTOOL, free_port, prometheus  # noqa: E402

PICTURE: Final = ROOT / "docs" / "images" / "dashboard.svg"
_SECONDS: Final = 600
_WINDOW: Final = 5
"""Length of a window, s."""
_STEP: Final = 10
"""Seconds from one scrape to the next."""
_WIDTH, _HEIGHT, _PAD = 460, 170, 10
_COLOURS: Final = ("#3274d9", "#e0752d", "#56a64b", "#e02f44", "#a352cc", "#f2cc0c", "#37872d", "#8ab8ff")
_MOST_LINES: Final = 8
_UNITS: Final = {
    "percentunit": (100.0, "%"),
    "ops": (1.0, "per s"),
    "bytes": (1e-9, "GB"),
    "watt": (1.0, "W"),
}
"""By unit of Grafana: factor and unit that are shown."""


def samples(began: float) -> str:
    """Returns all scrapes of the simulated host from ``began`` (Unix seconds) on, as OpenMetrics."""
    now = began
    source = Diagnosed(SimulatedSource(clock=lambda: now), Diagnosis())
    totals = HostTotals(1000)
    families: dict[str, list[str]] = {}
    for second in range(0, _SECONDS, _WINDOW):
        now = began + second + _WINDOW
        totals.add(source.read())
        if second % _STEP == 0:
            made = Exposition(openmetrics=True)
            pass_on(totals, "0", made)
            family: list[str] = []
            for line in made.text().splitlines()[:-1]:
                if line.startswith("# HELP"):
                    family = families.setdefault(line, [])
                elif not line.startswith("#"):
                    labels, _, value = line.rpartition(" ")
                    name, brace, rest = labels.partition("{")
                    host = f'{name}{{instance="gpu7"{"," if rest[:-1] else ""}{rest[:-1] if brace else ""}}}'
                    family.append(f"{host} {value} {now:.3f}")
    source.close()
    kept = [line for family in families.values() for line in family if "_created{" not in line]
    return "\n".join([*kept, "# EOF", ""])


def drawn(panel: DashboardPanel, series: Sequence[Any], began: float, x: int, y: int) -> str:
    """Returns one panel as SVG: its title, the lines of its series and their greatest value."""
    values = [(s, [(float(t), float(v)) for t, v in s["values"] if v != "NaN"]) for s in series]
    values = sorted((one for one in values if one[1]), key=lambda one: -max(v for _, v in one[1]))[
        :_MOST_LINES
    ]
    top = max((v for _, points in values for _, v in points), default=0.0) or 1.0
    parts = [
        f'<g transform="translate({x} {y})"><rect width="{_WIDTH}" height="{_HEIGHT}" rx="3" class="p"/>',
        f'<text x="{_PAD}" y="18" class="t">{escape(panel.title)}</text>',
        f'<text x="{_WIDTH - _PAD}" y="18" class="m">{_greatest(top, panel.unit) if values else ""}</text>',
    ]
    for number, (one, points) in enumerate(values):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(
            f"{_PAD + (t - began) / _SECONDS * (_WIDTH - 2 * _PAD):.1f},{120 - v / top * 90:.1f}"
            for t, v in points
        )
        parts.append(f'<polyline points="{line}" stroke="{colour}"/>')
        label = panel.legend
        for name, value in one["metric"].items():
            label = label.replace(f"{{{{{name}}}}}", value)
        label = re.sub(r"\{\{\w+\}\}", "", label)
        column, row = number % 2, number // 2
        if row < 3:
            parts.append(
                f'<text x="{_PAD + column * 225}" y="{136 + row * 12}" class="l" style="fill:{colour}">'
                f"{escape(label[:42])}</text>"
            )
    if not values:
        parts.append(f'<text x="{_WIDTH / 2}" y="80" class="n">no series</text>')
    return "\n".join([*parts, "</g>"])


def _greatest(value: float, unit: str) -> str:
    factor, shown = _UNITS.get(unit, (1.0, unit))
    return f"max {value * factor:.3g} {shown}"


def picture(folder: Path) -> str:
    """Returns the picture."""
    began = float(int(time.time()) - _SECONDS - 60)
    text = folder / "samples.txt"
    text.write_text(samples(began))
    command = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "tsdb")]
    subprocess.run(command, check=True, capture_output=True)
    parts = []
    panels = [panel for panel in PANELS if not panel.table]
    with prometheus(folder, free_port()) as server:
        for number, panel in enumerate(panels):
            end = str(began + _SECONDS)
            found = server.get(
                "query_range", query=filled(panel.query), start=str(began), end=end, step=str(_STEP)
            )["result"]
            column, row = number % 2, number // 2
            parts.append(drawn(panel, found, began, 5 + column * (_WIDTH + 5), 5 + row * (_HEIGHT + 5)))
    height = 5 + (len(panels) + 1) // 2 * (_HEIGHT + 5)
    style = (
        "text{font:11px sans-serif;fill:#ccccdc}.t{font-weight:600;font-size:12px}"
        ".m{text-anchor:end;fill:#8e8e9a}"
        ".n{text-anchor:middle;fill:#8e8e9a}.l{font-size:9px}.p{fill:#181b1f;stroke:#2c3235}"
        "polyline{fill:none;stroke-width:1.3}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * _WIDTH + 15}" height="{height}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#111217"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(picture(Path(folder)), encoding="utf-8")
