"""Runs one trial: healthy for a while, then with a fault; notes what the diagnosis finds before, when, and at
the end."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.faults.device import looks_well
from bench.faults.fault import FAULTS, Truth
from bench.faults.judging import Outcome, judge
from bench.faults.stage import Files, Place, Stage
from bench.faults.watcher import Seen, Watcher
from bench.faults.workloads import noise
from stalltop.demo.build import Built

_GLANCE_SECONDS: Final = 0.2
"""Time between two checks of what the diagnosis found."""
_WELL_SECONDS: Final = 15.0
"""Longest time that a trial waits until the device shows nothing of the trial before."""


def run_trial(
    watcher: Watcher,
    built: Built,
    files: Files,
    causes: Sequence[str],
    seed: int,
    *,
    patience_seconds: float = 0.0,
) -> list[Outcome]:
    """Injects the faults of ``causes`` together and watches for as long as each needs. With
    ``patience_seconds``, watches at most for that long, and only until everything is diagnosed right.

    Raises StalltopError if the host cannot do that.
    """
    outcomes = [made_for(name, causes, seed) for name in causes]
    containers = "+".join(causes) if watcher.learns else ""
    with Stage(built, files, random.Random(seed), containers) as stage:
        files.device.show()
        noise(stage)
        scripts = [FAULTS[cause].script(stage) for cause in causes]
        truths = [next(script) for script in scripts]
        _wait_for_a_well_device(watcher)
        watcher.begin()
        # The random part lets the fault begin at any time within a window.
        time.sleep(max(FAULTS[cause].healthy_seconds for cause in causes) + stage.chance.random())
        injected = time.monotonic()
        for script in scripts:
            next(script, None)
        watched = patience_seconds or max(FAULTS[cause].watch_seconds for cause in causes)
        while time.monotonic() < injected + watched:
            time.sleep(_GLANCE_SECONDS)
            if patience_seconds and _all_right(outcomes, truths, watcher.seen(), injected, stage.places):
                break
        seen = watcher.seen()
        watcher.end()
        for outcome, truth in zip(outcomes, truths, strict=True):
            outcome.notes = dict(stage.notes)
            judge(outcome, truth, seen, injected, stage.places)
    return outcomes


def made_for(name: str, names: Sequence[str], seed: int, error: str = "") -> Outcome:
    """Returns the outcome, still empty, of the fault ``name`` in a trial of ``names``."""
    cause = FAULTS[name].cause
    others = tuple(FAULTS[other].cause for other in names if other != name)
    return Outcome(cause, seed, others=others, name="" if name == cause else name, error=error)


def _wait_for_a_well_device(watcher: Watcher) -> None:
    until = time.monotonic() + _WELL_SECONDS
    while time.monotonic() < until:
        seen = watcher.seen()
        if seen and looks_well(seen[-1].window.devices):
            return
        time.sleep(_GLANCE_SECONDS)


def _all_right(
    outcomes: Sequence[Outcome],
    truths: Sequence[Truth],
    seen: Sequence[Seen],
    injected: float,
    places: Sequence[Place],
) -> bool:
    for outcome, truth in zip(outcomes, truths, strict=True):
        judged = replace(outcome)
        judge(judged, truth, seen, injected, places)
        if not judged.right:
            return False
    return True
