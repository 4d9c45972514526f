"""Draws docs/images/dashboard.svg: ``python scripts/dashboard_picture.py``. Needs the Prometheus that
``scripts/fetch-receivers`` downloads.

Ten minutes of simulated tenants are loaded into Prometheus, which answers the dashboard's queries.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from scripts.dashboard import PANELS, DashboardPanel, dashboard, filled  # noqa: E402
from stalltop.demo.simulated.windows import SimulatedSource  # noqa: E402
from stalltop.diagnosis.diagnosed import Diagnosed  # noqa: E402
from stalltop.diagnosis.engine import Diagnosis  # noqa: E402
from stalltop.formats.metrics.exposition import Exposition  # noqa: E402
from stalltop.formats.metrics.points import pass_on  # noqa: E402
from stalltop.formats.metrics.totals import HostTotals  # noqa: E402
from tests.kernel.receivers.prometheus import PROMTOOL, free_port, prometheus  # noqa: E402

PICTURE: Final = ROOT / "docs" / "images" / "dashboard.svg"
_SECONDS: Final = 600
"""Time that is shown, s."""
_AHEAD: Final = 60
"""Time that is simulated before, s: rates need it."""
_WINDOW: Final = 5
"""Length of a window, s."""
_STEP: Final = 10
"""Seconds from one scrape to the next."""
_COLUMN, _ROW, _GAP = 40.0, 25.0, 5
"""Size of a cell of Grafana's grid, and the space between panels, pixels."""
_LEFT, _TOP, _AXIS = 52, 34, 66
"""Space in a panel beside, above and below its lines, pixels. Below are the times and two rows of legend."""
_COLOURS: Final = ("#3274d9", "#e0752d", "#56a64b", "#e02f44", "#a352cc", "#f2cc0c", "#37872d", "#8ab8ff")
_UNITS: Final = {
    "percentunit": (100.0, " %"),
    "ops": (1.0, "/s"),
    "bytes": (1e-9, " GB"),
    "watt": (1.0, " W"),
    "s": (1.0, " s"),
}
"""By unit of Grafana: factor and unit that are shown."""
_STYLE: Final = (
    "text{font:11px sans-serif;fill:#ccccdc}.t{font-weight:600;font-size:12px}.m{fill:#8e8e9a;font-size:10px}"
    ".r{text-anchor:end}.c{text-anchor:middle}.p{fill:#181b1f;stroke:#2c3235}.g{stroke:#2c3235}"
    "path{fill:none;stroke-width:1.4}"
)


def samples(began: float) -> str:
    """Returns all scrapes of the simulated host from ``began`` (Unix seconds) on, as OpenMetrics."""
    now = began
    source = Diagnosed(SimulatedSource(clock=lambda: now), Diagnosis())
    totals = HostTotals(1000)
    families: dict[str, list[str]] = {}
    for second in range(0, _AHEAD + _SECONDS, _WINDOW):
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


def drawn(panel: DashboardPanel, found: Sequence[Any], began: float, width: float, height: float) -> str:
    """Returns one panel as SVG."""
    inside = (_table if panel.table else _graph)(panel, found, began, width, height)
    parts = [
        f'<rect width="{width}" height="{height}" rx="3" class="p"/>',
        f'<text x="10" y="19" class="t">{escape(panel.title)}</text>',
        *(inside or [f'<text x="{width / 2}" y="{height / 2}" class="m c">no data</text>']),
    ]
    return "\n".join(parts)


def _table(
    panel: DashboardPanel, found: Sequence[Any], began: float, width: float, height: float
) -> list[str]:
    rows = sorted(found, key=lambda one: -float(one["value"][1]))
    columns = ("tenant", "culprit", "cause", "severity", "instance", "")
    parts = []
    for number, row in enumerate([None, *rows][: int((height - _TOP) / 20)]):
        for at, column in enumerate(columns):
            value = column if row is None else row["metric"].get(column, "")
            if row is not None and not column:
                value = _shown(float(row["value"][1]), panel.unit)
            place = f'x="{10 + at * (width - 60) / (len(columns) - 1):.0f}" y="{_TOP + 8 + number * 20}"'
            parts.append(f'<text {place} class="{"m" if row is None else ""}">{escape(value)}</text>')
    return parts if rows else []


def _graph(
    panel: DashboardPanel, found: Sequence[Any], began: float, width: float, height: float
) -> list[str]:
    """Draws the series with the greatest values, from the greatest on; if stacked, above each other."""
    times = [began + _STEP * number for number in range(_SECONDS // _STEP + 1)]
    series = [(one["metric"], {float(t): float(v) for t, v in one["values"] if v != "NaN"}) for one in found]
    series = sorted((one for one in series if one[1]), key=lambda one: -max(one[1].values()))
    series = series[: len(_COLOURS)]
    if not series:
        return []
    below, lines = dict.fromkeys(times, 0.0), []
    for _, values in series:
        lines.append({t: values[t] + (below[t] if panel.stacked else 0.0) for t in times if t in values})
        below |= lines[-1]
    top = _round_up(max(value for line in lines for value in line.values()))
    bottom, right = height - _AXIS, width - 12

    def x(t: float) -> float:
        return _LEFT + (t - began) / _SECONDS * (right - _LEFT)

    def y(value: float) -> float:
        return bottom - value / top * (bottom - _TOP)

    parts = []
    for share in (0.0, 0.5, 1.0):
        at = y(top * share)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{right}" class="g"/>')
        parts.append(
            f'<text x="{_LEFT - 5}" y="{at + 3:.1f}" class="m r">{_shown(top * share, panel.unit)}</text>'
        )
        minutes = round((1 - share) * _SECONDS / 60)
        told = f"{minutes} min ago" if minutes else "now"
        anchor = {0.0: "m", 0.5: "m c", 1.0: "m r"}[share]
        parts.append(
            f'<text x="{x(began + share * _SECONDS):.1f}" y="{bottom + 15}" class="{anchor}">{told}</text>'
        )
    columns = 3 if panel.wide else 2
    for number, ((metric, _), line) in reversed(list(enumerate(zip(series, lines, strict=True)))):
        path = "L".join(f"{x(t):.1f} {y(value):.1f}" for t, value in line.items())
        colour = _COLOURS[number]
        if panel.stacked:  # The areas of the series before cover the lower part.
            first, last = x(min(line)), x(max(line))
            parts.append(
                f'<path d="M{first:.1f} {bottom}L{path}L{last:.1f} {bottom}Z" style="fill:{colour}"/>'
            )
        else:
            parts.append(f'<path d="M{path}" stroke="{colour}"/>')
        if number < 2 * columns:
            across = 10 + number % columns * (width - 10) / columns
            down = bottom + 33 + number // columns * 16
            most = int((width / columns - 25) / 5.5)
            label = escape(textwrap.shorten(_label(panel, metric), most, placeholder="…"))
            parts.append(f'<rect x="{across:.0f}" y="{down - 6}" width="10" height="3" fill="{colour}"/>')
            parts.append(f'<text x="{across + 15:.0f}" y="{down}" class="m">{label}</text>')
    return parts


def _label(panel: DashboardPanel, metric: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda name: metric.get(name[1], ""), panel.legend).strip()


def _round_up(value: float) -> float:
    """Returns the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999)


def _shown(value: float, unit: str) -> str:
    factor, name = _UNITS[unit]
    return f"{value * factor:.3g}{name}" if value * factor < 1000 else f"{value * factor:,.0f}{name}"


def picture(folder: Path) -> str:
    """Returns the picture: every panel at its place in the dashboard."""
    began = float(int(time.time()) - _SECONDS - _AHEAD - 60)
    text = folder / "samples.txt"
    text.write_text(samples(began))
    command = [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "tsdb")]
    subprocess.run(command, check=True, capture_output=True)
    began += _AHEAD
    end, parts, bottom = str(began + _SECONDS), [], 0.0
    with prometheus(folder, free_port()) as server:
        for panel, placed in zip(PANELS, dashboard()["panels"], strict=True):
            query, box = filled(panel.query), placed["gridPos"]
            if panel.table:
                found = server.get("query", query=query, time=end)["result"]
            else:
                found = server.get("query_range", query=query, start=str(began), end=end, step=str(_STEP))[
                    "result"
                ]
            across, down = _GAP + box["x"] * _COLUMN, _GAP + box["y"] * _ROW
            width, height = box["w"] * _COLUMN - _GAP, box["h"] * _ROW - _GAP
            bottom = max(bottom, down + height + _GAP)
            inside = drawn(panel, found, began, width, height)
            parts.append(f'<g transform="translate({across} {down})">{inside}</g>')
    whole = f'width="{24 * _COLUMN + _GAP}" height="{bottom}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {whole}><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#111217"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(picture(Path(folder)), encoding="utf-8")
