"""Computes the texts of the first line from a window. Pure functions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stalltop.model.chain import Chain
from stalltop.model.progress import ProgressStep
from stalltop.model.text import figures
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.window import Window
from stalltop.tui.past.times import ago_text
from stalltop.tui.problems.chains import MARK, ROLE, counts
from stalltop.tui.reading.collector import Snapshot
from stalltop.tui.views.outermost import calls_per_s
from stalltop.widgets.header import HeaderState

if TYPE_CHECKING:
    from stalltop.recordings.write.recorder import RecorderState

QUIET_SECONDS = 2.0
"""The first line reports missing data if the newest data is older than three intervals, and older than one
interval plus this many seconds."""
NEARLY = 0.15
"""If the length of a window differs from the chosen length by more than this share, the first line shows the
real length. Small differences are normal: readings are never exactly on time."""
LATE_WINDOWS = 5
"""If more windows than this wait to be written to disk, the text about the recording is drawn as a
warning."""
BAR_CELLS = 12
"""Cells of the progress bar of the start. The bar is never full, because the duration is an estimate."""
LEAST_AGE = 0.5
"""If the moment that is shown is at least this many seconds old, the first line shows how old it is."""


def window_text(window: Window, length: float | None, began: float | None = None) -> str:
    """Return the time that ``window`` covers, as text. ``length`` is the chosen length in seconds; None:
    since the start.

    ``began`` is the Unix time at which counting began. The oldest windows may have been dropped since then.
    """
    seconds = window.seconds
    if length is None:
        whole = began is None or window.start < began + 1.0
        return f"{'since start' if whole else 'all kept'} {figures.duration(seconds * 1e9).strip()}"
    if seconds < length * (1.0 - NEARLY):
        return f"last {seconds:.0f}s of {length:.0f}s"
    return f"last {length if seconds <= length * (1.0 + NEARLY) else seconds:.0f}s"


def starting_text(step: ProgressStep | None, glyphs: Glyphs = UNICODE) -> str:
    """Return the text about the start: its current step, and its progress if the usual duration is known."""
    if step is None:
        return "starting"
    seconds = time.monotonic() - step.began
    if not step.usual_seconds:
        return f"starting: {step.text}"
    done = min(round(BAR_CELLS * seconds / step.usual_seconds), BAR_CELLS - 1)
    bar = glyphs.done * done + glyphs.undone * (BAR_CELLS - done)
    return f"starting: {step.text}: {seconds:.0f}s, usually {step.usual_seconds:.0f}s  {bar}"


def silent_seconds(snapshot: Snapshot | None, began: float, interval: float) -> float:
    """Return for how many seconds no data has come, if that is longer than usual; else 0.

    ``began`` is a time of time.monotonic(); ``interval`` is in seconds.
    """
    if snapshot is None:
        waited, patience = time.monotonic() - began, 10.0
    else:
        waited, patience = time.monotonic() - snapshot.at, max(3.0 * interval, interval + QUIET_SECONDS)
    return waited if waited > patience else 0.0


def recording_text(state: RecorderState | None, glyphs: Glyphs = UNICODE) -> tuple[str, str] | None:
    """Return the text about the running recording, and the style of that text; None without one."""
    if state is None:
        return None
    if state.failure:
        return "REC FAILED ", "bad"
    role = "warn" if state.waiting > LATE_WINDOWS else "good"
    return f"REC {figures.memory(state.bytes, glyphs)}", role


def header_state(
    window: Window | None,
    length: float | None,
    *,
    frozen_at: float | None,
    age: float = 0.0,
    pending: bool = False,
    began: float | None = None,
    silent: float,
    still: bool,
    file: bool = False,
    grows: bool = False,
    playing: float = 0.0,
    demo: bool = False,
    chains: Iterable[Chain] = (),
    silenced: int = 0,
    glyphs: Glyphs = UNICODE,
) -> HeaderState:
    """Return what the header shows.

    ``length``: the chosen length of the window in seconds, None: since the start. ``frozen_at``: Unix time of
    the moment at which the screen is frozen, ``age`` seconds ago; None: not frozen. ``pending``: the figures
    of that moment are still being computed. ``began``: Unix time at which counting began. ``silent``: seconds
    without data, 0 if data comes in time. ``still``: the window is a saved one. ``file``: the window comes
    from a recording. ``grows``: another program still writes that recording. ``playing``: seconds of the past
    that pass in one second, 0: not playing. ``demo``: the data is a demonstration. ``chains``: the open
    problems that are shown; ``silenced``: the number of open problems that ``chains`` leaves out because the
    user silenced them.
    """
    if window is None:
        if silent:
            return HeaderState(state=f"NO DATA {silent:.0f}s", level="bad")
        return HeaderState()
    origin = "SIMULATED" if window.simulated else "DEMO" if demo else ""
    state, level = "LIVE", "good"
    if still:
        state, level = f"SAVED {figures.moment(window.end)[:19]}", "label"
    elif frozen_at is not None:
        at = figures.moment(frozen_at)[:19] if file else figures.clock(frozen_at)
        name = f"PLAY {playing:g}x" if playing else "RECORDED" if file else "FROZEN"
        state, level = f"{name} {at}", "good" if playing else "warn"
        if age >= LEAST_AGE:
            state += f" {ago_text(age)}"
        if pending:
            state += glyphs.dots
    elif file:
        state, level = f"{'RECORDING' if grows else 'RECORDED'} {figures.moment(window.end)[:19]}", "label"
    elif window.simulated:
        state, level = "", "label"
    if silent and not still:
        # Simulated data keeps its label even if no new data comes.
        state, level = "" if frozen_at is None else state, "bad"
        origin = f"{origin} NO DATA {silent:.0f}s".lstrip()
    state = f"{state} {origin}".strip()
    coverage = window.coverage
    untraced = len({missing.pid or missing.what for missing in coverage.missing if missing.untraced})
    traced = f"traced {coverage.processes}/{coverage.processes + untraced}"
    if not coverage.processes + untraced:
        traced = "nothing to trace"
    if coverage.tracing:
        traced = "NOT TRACING"
    return HeaderState(
        host=window.host,
        state=state,
        level=level,  # type: ignore[arg-type]
        window=f"{window.seconds:.0f}s" if still else window_text(window, length, began),
        calls_per_s=calls_per_s(window),
        lost=window.lost,
        partial=window.partial,
        over_quota=next((gap.what.removeprefix("the ") for gap in coverage.missing if gap.over_quota), ""),
        silenced=silenced,
        traced=traced,
        partly=bool(untraced or coverage.tracing),
        chains=tuple((f"{number}{MARK[severity]}", ROLE[severity]) for severity, number in counts(chains)),
        probe_percent=None if coverage.tracing else coverage.cost_percent,
        tracer="" if still or file or coverage.tracer is None else coverage.tracer.short,
    )
