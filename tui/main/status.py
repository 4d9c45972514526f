"""What the first line says about a window. Pure functions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stalltop.model.chain import Chain
from stalltop.model.progress import ProgressStep
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.tui.chain.chains import MARK, ROLE, counts
from stalltop.tui.collector import Snapshot
from stalltop.tui.past.moments import Picture
from stalltop.tui.tables.groups import calls_per_s
from stalltop.widgets.header import HeaderState

if TYPE_CHECKING:
    from stalltop.recordings.write.recorder import RecorderState

QUIET_SECONDS = 2.0
"""How much longer than usual there may be no data before that is said."""
NEARLY = 0.15
"""By what part of it a window may be longer or shorter than was chosen without a word: readings are never
quite in time."""
LATE_WINDOWS = 5
"""When more windows wait for the disk, the recording is late."""
BAR_CELLS = 12
"""Of the bar that shows how far a start is. It is never full: nobody knows how long it really takes."""
LEAST_AGE = 0.5
"""Seconds from which on it is said how long ago the moment shown was."""


def length_text(length: float | None) -> str:
    """A chosen length of the window, for a person."""
    return "since start" if length is None else f"last {length:.0f}s"


def ago_text(seconds: float) -> str:
    """A time before now, for a person: ``-7s``, ``-2m05s``, ``-3h20m``, ``-4d03h``."""
    whole = round(seconds)
    if whole < 100:
        return f"-{whole}s"
    if whole < 6_000:
        return f"-{whole // 60}m{whole % 60:02}s"
    if whole < 172_800:
        return f"-{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"-{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def changes_text(against: Picture) -> str:
    """What the title of a table says that compares with ``against``."""
    return f"   changes since {figures.clock(against.at)} ({length_text(against.length)})"


def window_text(window: Window, length: float | None, began: float | None = None) -> str:
    """How much time ``window`` really stands for, where ``length`` was chosen.

    ``began``: when counting did, Unix time in seconds; not all since then may be kept.
    """
    seconds = window.seconds
    if length is None:
        whole = began is None or window.start < began + 1.0
        return f"{'since start' if whole else 'all kept'} {figures.duration(seconds * 1e9).strip()}"
    if seconds < length * (1.0 - NEARLY):
        return f"last {seconds:.0f}s of {length:.0f}s"
    return f"last {length if seconds <= length * (1.0 + NEARLY) else seconds:.0f}s"


def starting_text(step: ProgressStep | None, *, unicode: bool = True) -> str:
    """What is done until there is a first window; how far it is, where that is known."""
    if step is None:
        return "starting"
    seconds = time.monotonic() - step.began
    if not step.usual_seconds:
        return f"starting: {step.text}"
    full, empty = ("▰", "▱") if unicode else ("#", "-")
    done = min(round(BAR_CELLS * seconds / step.usual_seconds), BAR_CELLS - 1)
    bar = full * done + empty * (BAR_CELLS - done)
    return f"starting: {step.text}: {seconds:.0f}s, usually {step.usual_seconds:.0f}s  {bar}"


def silent_seconds(snapshot: Snapshot | None, began: float, interval: float) -> float:
    """Seconds without data, once that is longer than it should be; else 0. Times are of time.monotonic()."""
    if snapshot is None:
        waited, patience = time.monotonic() - began, 10.0
    else:
        waited, patience = time.monotonic() - snapshot.at, max(3.0 * interval, interval + QUIET_SECONDS)
    return waited if waited > patience else 0.0


def recording_text(state: RecorderState | None, *, unicode: bool = True) -> tuple[str, str] | None:
    """What is said of a recording that is being made, and its role; None where there is none."""
    if state is None:
        return None
    if state.failure:
        return "REC FAILED ", "bad"
    role = "warn" if state.waiting > LATE_WINDOWS else "good"
    return f"REC {figures.memory(state.bytes, unicode=unicode)}", role


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
    unicode: bool = True,
) -> HeaderState:
    """What the header says.

    ``frozen_at``: Unix time of the moment that is held, ``age`` seconds ago; ``pending``: its picture is on
    its way; ``began``: when counting did; ``silent``: seconds without data, 0 while they come; ``still``: the
    window comes from a file that has no other; ``file``: it is of a recording, which ``grows`` where another
    program writes it; ``playing``: seconds of the past that pass in one; ``demo``: the tenants are samples;
    ``chains``: open.
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
            state += "…" if unicode else "..."
    elif file:
        state, level = f"{'RECORDING' if grows else 'RECORDED'} {figures.moment(window.end)[:19]}", "label"
    elif window.simulated:
        state, level = "", "warn"
    if silent and not still:
        # What was made up stays called so, also while nothing comes.
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
        traced=traced,
        partly=bool(untraced or coverage.tracing),
        chains=tuple((f"{number}{MARK[severity]}", ROLE[severity]) for severity, number in counts(chains)),
        probe_percent=None if coverage.tracing else coverage.cost_percent,
    )
