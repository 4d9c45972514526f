"""The course of a host: its figures for each stretch of time, and for the whole time. Reports show them as
charts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from stalltop.formats.episodes import Episode, Episodes
from stalltop.formats.stretches import stretches
from stalltop.model.calls import CapturedCall, CapturedCalls
from stalltop.model.devices.device import Device, System
from stalltop.model.merge.sliding import Sliding
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import pivot
from stalltop.model.window import Window

MOST_SLOW: Final = 2_000
"""Maximum number of captured calls in a report of a recording: the slowest ones are used."""
Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CourseFigures:
    """Rate and durations of the calls of one operation, container or host in one stretch of time."""

    calls_per_s: float
    p50_ns: int | None
    """Median duration; None if no call returned. ``p99_ns`` and ``max_ns`` are None in the same case."""
    p99_ns: int | None
    max_ns: int | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Figures of one stretch of time; times are Unix seconds."""

    start: float
    end: float
    outermost: CourseFigures
    """Figures of all outermost calls."""
    operations: dict[Name, CourseFigures]
    """Figures by operation and layer."""
    containers: dict[Name, CourseFigures]
    """Figures by container."""
    system: System | None
    devices: tuple[Device, ...]


@dataclass(slots=True)
class Course:
    """The figures of one host over the time of a recording."""

    host: str
    stretches: list[Stretch] = field(default_factory=list)
    whole: Sliding = field(default_factory=lambda: Sliding(None))
    slow: list[CapturedCall] = field(default_factory=list)
    windows: int = 0
    covered_s: float = 0.0
    """Sum of the lengths of the windows, in seconds."""

    def window(self, episodes: Episodes) -> Window:
        """Return one window for the whole time. It merges all windows, and has all tenants, the slowest
        captured calls, and the last episode of every chain: the chain as it was at its worst in it."""
        tenants = {name: tenant for (host, name), tenant in episodes.tenants.items() if host == self.host}
        whole = self.whole.window
        calls = CapturedCalls(
            sorted(self.slow, key=lambda call: -call.duration_ns)[:MOST_SLOW], whole.calls.passed_over
        )
        chains = tuple(one.chain for one in latest(episodes.all(), self.host))
        return replace(whole, tenants={**tenants, **whole.tenants}, chains=chains, calls=calls)


def latest(episodes: Iterable[Episode], host: str) -> list[Episode]:
    """Return the last episode of each chain of ``host``. ``episodes`` must be ordered by their beginning."""
    found = {one.chain.identity: one for one in episodes if one.host == host}
    return list(found.values())


def courses(windows: Iterable[Window], seconds: float) -> tuple[list[Course], Episodes]:
    """Return the course of each host, divided into stretches of ``seconds``, and the episodes of all chains.
    ``windows`` must be in order of time."""
    found: dict[str, Course] = {}
    episodes = Episodes()

    def seen() -> Iterable[Window]:
        for window in windows:
            episodes.add(window)
            course = found.setdefault(window.host, Course(window.host))
            course.windows += 1
            course.covered_s += window.seconds
            course.slow += [call for call in window.calls.kept if call.why == "slow"]
            if len(course.slow) > 4 * MOST_SLOW:
                course.slow = sorted(course.slow, key=lambda call: -call.duration_ns)[:MOST_SLOW]
            yield replace(window, calls=CapturedCalls(passed_over=window.calls.passed_over))

    for window in stretches(seen(), seconds):
        course = found[window.host]
        course.whole.take_in(window)
        course.stretches.append(_stretch(window))
    return sorted(found.values(), key=lambda course: course.host), episodes


def _stretch(window: Window) -> Stretch:
    return Stretch(
        window.start,
        window.end,
        _figures(window, ())[()],
        _figures(window, ("operation", "layer")),
        _figures(window, ("container",)),
        window.system,
        window.devices.devices,
    )


def _figures(window: Window, by: tuple[Dimension, ...]) -> dict[Name, CourseFigures]:
    groups = pivot(window, by)
    columns = zip(
        groups.keys,
        groups.calls.tolist(),
        groups.calls_per_s.tolist(),
        groups.p50_ns.tolist(),
        groups.p99_ns.tolist(),
        groups.max_ns.tolist(),
        strict=True,
    )
    return {
        key: CourseFigures(rate, p50, p99, longest) if calls else CourseFigures(rate, None, None, None)
        for key, calls, rate, p50, p99, longest in columns
    }
