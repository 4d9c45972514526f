"""Runs one trial: healthy for a while, then with a fault; notes what the diagnosis finds before, when, and at
the end."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.faults.device import looks_well
from bench.faults.fault import Fault, Truth
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
    faults: Sequence[Fault],
    seed: int,
    *,
    patience_seconds: float = 0.0,
) -> list[Outcome]:
    """Injects ``faults`` together and watches for as long as each needs. With
    ``patience_seconds``, watches at most for that long, and only until everything is diagnosed right.

    Raises StalltopError if the host cannot do that.
    """
    outcomes = [made_for(fault, faults, seed) for fault in faults]
    containers = "+".join(fault.name for fault in faults) if watcher.learns else ""
    with Stage(built, files, random.Random(seed), containers, faults[0].strength) as stage:
        files.device.show()
        noise(stage)
        scripts = [fault.script(stage) for fault in faults]
        truths = [next(script) for script in scripts]
        _wait_for_a_well_device(watcher)
        watcher.begin()
        paces = [_paced(stage)]
        # The random part lets the fault begin at any time within a window.
        time.sleep(max(fault.healthy_seconds for fault in faults) + stage.chance.random())
        paces.append(_paced(stage))
        injected = time.monotonic()
        for script in scripts:
            next(script, None)
        watched = patience_seconds or max(fault.watch_seconds for fault in faults)
        while time.monotonic() < injected + watched:
            time.sleep(_GLANCE_SECONDS)
            if patience_seconds and _all_right(outcomes, truths, watcher.seen(), injected, stage.places):
                break
        seen = watcher.seen()
        watcher.end()
        paces.append(_paced(stage))
        for outcome, truth in zip(outcomes, truths, strict=True):
            outcome.notes = dict(stage.notes)
            outcome.lost_share = lost_share(paces)
            judge(outcome, truth, seen, injected, stage.places)
    return outcomes


def made_for(fault: Fault, faults: Sequence[Fault], seed: int, error: str = "") -> Outcome:
    """Returns the outcome, still empty, of ``fault`` in a trial of ``faults``."""
    others = tuple(other.cause for other in faults if other is not fault)
    name = "" if fault.name == fault.cause else fault.name
    return Outcome(fault.cause, seed, others=others, name=name, error=error, strength=fault.strength)


def lost_share(paces: Sequence[tuple[float, int]]) -> float | None:
    """Returns the share of its time that the victim lost between the last two of three counts of its steps,
    compared with that between the first two. None if it made no step before."""
    (began, first), (injected, before), (ended, last) = paces
    if before <= first:
        return None
    return 1.0 - (last - before) / (ended - injected) / ((before - first) / (injected - began))


def _paced(stage: Stage) -> tuple[float, int]:
    """Returns the time, and how many steps the victim has made; 0 if it counts none."""
    return time.monotonic(), stage.steps() if stage.steps is not None else 0


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
