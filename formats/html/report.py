"""Writes a recording, or one window, as one HTML page: problems and when they were open, charts, and tables.

The page is one file without scripts that loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stalltop.formats.course import Course, courses
from stalltop.formats.episodes import Episode, badness
from stalltop.formats.html.axes import Axis, time_axis
from stalltop.formats.html.page import (
    MOST_ROWS,
    chain_article,
    chain_section,
    foot,
    framed,
    host_lines,
    page_head,
    remark_sections,
    sheet_table,
    split_key,
)
from stalltop.formats.html.report_charts import containers, latency, machine
from stalltop.formats.html.report_style import REPORT_STYLE
from stalltop.formats.html.report_tables import kernels, slow_calls
from stalltop.formats.html.tags import Html, tag
from stalltop.formats.tables.sheet import others
from stalltop.formats.text import chains as chain_text
from stalltop.model.chain import SEVERITIES
from stalltop.model.merge.merging import merge
from stalltop.model.rows.pivot import pivot
from stalltop.model.text import figures
from stalltop.model.window import Window

POINTS: Final = 240
"""Maximum number of points of a line over time."""
MOST_CHAINS: Final = 30
"""Maximum number of chains that are described in full, the worst ones."""
OPEN_CHAINS: Final = 3
"""Number of chains, the worst ones, whose description is unfolded when the page opens."""
MOST_HOSTS: Final = 8
"""Maximum number of hosts that have charts."""
_TICKS: Final = 7
_FEW_TICKS: Final = 4
_MOST_BARS: Final = 30
_CELLS: Final = 240
_LAST_TICK: Final = 0.86
"""A tick at this position of the axis (0 to 1) or beyond is left out. Its label stands to the right of the
tick, and would not fit on the page."""
_AVERAGED: Final = (
    "those of a stretch of time come from all its calls, and are not averages. Lines have gaps where nothing "
    "was recorded, or no call returned."
)


def page(windows: Iterable[Window], start: float, end: float) -> str:
    """Return the page of ``windows``, which come in order of time and lie between ``start`` and ``end`` (Unix
    seconds). Raises ValueError if there are none."""
    found, episodes = courses(windows, max((end - start) / POINTS, 1e-3))
    if not found:
        raise ValueError("a report needs at least one window")
    wholes = [course.window(episodes) for course in found]
    whole = merge(wholes)
    # If the clock was set back, the first stretch is not the earliest one.
    start = min(stretch.start for course in found for stretch in course.stretches)
    end = max(stretch.end for course in found for stretch in course.stretches)
    times = time_axis(start, end, _TICKS)
    moving = any(len(course.stretches) > 1 for course in found)
    # A window also has chains that were closed before it began. A report of a single window keeps these
    # chains, because they may explain the window.
    told = [one for one in episodes.all() if not moving or one.end >= start]
    parts = [_head(whole, found, start, end, moving=moving), _summary(whole, found, told)]
    parts += [_wrong(told, wholes, episodes.lost_ms, times if moving else None, start, end)]
    for course, one in zip(found[:MOST_HOSTS], wholes, strict=False):
        of = f" of {course.host}" if len(found) > 1 else ""
        parts += [latency(course, one, times if moving else None, of)]
        if moving:
            parts += [containers(course, one, times, of), machine(course, times, of)]
    tables = others(whole, None)
    measured = any(row.split_ns for table in tables for row in table.rows)
    parts += [split_key()] if measured else []
    parts += [sheet_table(table, MOST_ROWS, split=measured) for table in tables]
    parts += [slow_calls(whole), kernels(whole), remark_sections(whole), foot("Written", _AVERAGED)]
    title = f"stalltop {whole.host} {figures.moment(start)}"
    return framed(title, REPORT_STYLE, *(part for part in parts if part))


# ---- head and summary


def _head(whole: Window, found: Sequence[Course], start: float, end: float, *, moving: bool) -> Html:
    covered = max(course.covered_s for course in found)
    when = f"{figures.moment(start)} to {figures.moment(end)}"
    told = tag("p", f"{when}, {_seconds(covered)} of it recorded")
    return page_head(whole, told, *([] if moving else host_lines(whole)))


def _seconds(seconds: float) -> str:
    return figures.duration(seconds * 1e9).strip()


def _summary(whole: Window, found: Sequence[Course], episodes: Sequence[Episode]) -> Html:
    """Return the tiles with the most important figures."""
    groups = pivot(whole, ())
    keys = [key for key in whole.rows.keys if key.outermost]
    faults = {(one.host, one.chain.identity) for one in episodes if one.chain.severity != "info"}
    tiles = [
        ("call", "calls", int(groups.calls[0])),
        ("error", "errors", int(groups.errors[0])),
        ("missed", "missed", whole.lost),
        *([("partial", "partial", whole.partial)] if whole.partial else []),
        ("problems", "problems", len(faults)),
        ("container", "containers", len({key.tenant for key in keys})),
        ("process", "processes", len({(key.host, key.pid) for key in keys})),
        ("operation", "operations", len({(key.layer, key.operation) for key in keys})),
        ("GPU", "GPUs", len(whole.devices.devices)),
        ("window", "windows", sum(course.windows for course in found)),
    ]
    boxes = [
        tag("div", tag("b", figures.count(number).strip()), tag("span", one if number == 1 else several))
        for one, several, number in tiles
    ]
    return tag("div", *boxes, class_="tiles")


# ---- problems


def _wrong(
    episodes: Sequence[Episode],
    wholes: Sequence[Window],
    lost_ms: Mapping[tuple[str, str], float],
    times: Axis | None,
    start: float,
    end: float,
) -> Html:
    """Return the section of chains. It has the ``MOST_CHAINS`` worst ones, the worst first: each as bars over
    time, and then each in full. There are no bars if ``times`` is None."""
    windows = {window.host: window for window in wholes}
    runs: dict[tuple[str, str], list[Episode]] = {}
    for episode in episodes:
        runs.setdefault((episode.host, episode.chain.identity), []).append(episode)
    ordered = sorted(runs.values(), key=lambda run: _rank(_worst(run)))
    parts: list[Html] = []
    if times is not None and ordered:
        rows = [_run(number, run, times, start, end) for number, run in enumerate(ordered[:MOST_CHAINS])]
        ticks = [
            tag("i", tick.label, style=f"left:{100 * tick.at:.2f}%")
            for tick in time_axis(start, end, _FEW_TICKS).ticks
            if tick.at < _LAST_TICK
        ]
        below = tag("div", tag("span"), tag("div", *ticks, class_="ticks"), class_="run")
        parts.append(tag("div", *rows, below, class_="runs"))
        parts.append(tag("p", "Each problem is shown as it was at its worst moment.", class_="dim"))
    for number, run in enumerate(ordered[:MOST_CHAINS]):
        worst = _worst(run)
        chain = worst.chain
        when = figures.moment(chain.since)
        often = f" · {len(run)} times, the worst of them {when}" if len(run) > 1 else f" · {when}"
        lost = lost_ms.get((worst.host, chain.identity), 0.0) / (windows[worst.host].seconds or 1.0)
        if times is not None and lost > 0:
            often += f" · {chain_text.rate(lost * 1e6).strip()} on average over all this time"
        text = f" {chain.summary or chain.title}"
        head = tag("summary", tag("b", chain.severity), text, tag("span", often, class_="dim"))
        # If a link leads to an element inside ``details``, a browser unfolds the ``details``.
        inside = tag("div", chain_article(chain, windows[worst.host]), id=f"chain-{number}")
        unfolded = {"open": "open"} if number < OPEN_CHAINS else {}
        parts.append(tag("details", head, inside, class_=chain.severity, **unfolded))
    more = len(ordered) - MOST_CHAINS
    parts += [tag("p", f"and {more} more", class_="dim")] if more > 0 else []
    return chain_section("Problems", (_worst(run).chain for run in ordered), parts)


def _worst(run: Sequence[Episode]) -> Episode:
    return min(run, key=_rank)


def _rank(episode: Episode) -> tuple[int, float, str]:
    return *badness(episode.chain), episode.chain.id


def _run(number: int, run: Sequence[Episode], times: Axis, start: float, end: float) -> Html:
    chain = _worst(run).chain
    bars = _dense(run, start, end) if len(run) > _MOST_BARS else _bars(run, times, start, end)
    text = chain.summary or chain.title
    link = tag("a", tag("b", chain.severity), f" {text}", href=f"#chain-{number}", title=text)
    return tag("div", link, tag("div", *bars, class_="track"), class_=f"run {chain.severity}")


def _bars(run: Sequence[Episode], times: Axis, start: float, end: float) -> list[Html]:
    """Return a bar for each episode in ``run`` that overlaps the time from ``start`` to ``end``. The position
    and the width of a bar show when the episode began and how long it lasted."""
    bars = []
    for episode in run:
        since, until = episode.chain.since, episode.end
        if until < start or since > end:
            continue
        left, right = times.place(since), times.place(until)
        told = f"{figures.moment(since)} for {_seconds(until - since)}"
        style = f"left:{100 * left:.2f}%;width:{100 * max(right - left, 0.002):.2f}%"
        bars.append(tag("i", title=told, class_=episode.chain.severity, style=style))
    return bars


def _dense(run: Sequence[Episode], start: float, end: float) -> list[Html]:
    """Return cells of equal length for episodes that are too many for single bars. A cell is the more opaque,
    the more of its time is covered by episodes."""
    length = max(end - start, 1e-3) / _CELLS
    covered = [0.0] * _CELLS
    worst = [len(SEVERITIES) - 1] * _CELLS
    for episode in run:
        since, until = max(episode.chain.since, start) - start, min(episode.end, end) - start
        for cell in range(max(int(since / length), 0), min(int(until / length) + 1, _CELLS)):
            covered[cell] += max(min(until, (cell + 1) * length) - max(since, cell * length), 0.0)
            worst[cell] = min(worst[cell], SEVERITIES.index(episode.chain.severity))
    return [
        tag(
            "i",
            class_=SEVERITIES[worst[cell]],
            title=f"{figures.moment(start + cell * length)}: {100 * min(seconds / length, 1):.0f}%",
            style=f"left:{100 * cell / _CELLS:.2f}%;width:{100 / _CELLS:.2f}%;"
            f"opacity:{0.2 + 0.8 * min(seconds / length, 1):.2f}",
        )
        for cell, seconds in enumerate(covered)
        if seconds
    ]
