"""One trial: healthy for a while, then a fault; what the diagnosis said before, when, and in the end."""

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
"""Between two looks at what was said."""
_WELL_SECONDS: Final = 15.0
"""How long a trial waits at most until nothing of the one before is seen on the device."""


def run_trial(
    watcher: Watcher,
    built: Built,
    files: Files,
    causes: Sequence[str],
    seed: int,
    *,
    patience_seconds: float = 0.0,
) -> list[Outcome]:
    """Inject the faults of ``causes`` together and watch for as long as each needs; with ``patience_seconds``
    up to so long instead, and no longer than until everything is diagnosed right.

    Raises StalltopError where the host cannot do that.
    """
    outcomes = [Outcome(cause, seed, others=tuple(c for c in causes if c != cause)) for cause in causes]
    with Stage(built, files, random.Random(seed)) as stage:
        files.device.show()
        noise(stage)
        scripts = [FAULTS[cause].script(stage) for cause in causes]
        truths = [next(script) for script in scripts]
        _wait_for_a_well_device(watcher)
        watcher.begin()
        # Not in step with the looks: a fault begins at any time.
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
        for outcome, truth in zip(outcomes, truths, strict=True):
            outcome.notes = dict(stage.notes)
            judge(outcome, truth, seen, injected, stage.places)
    return outcomes


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
