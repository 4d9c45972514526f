"""Runs one trial: first without and then with a fault. Records the findings of the diagnosis before the
fault, the time until it finds the fault, and its findings at the end."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.faults.stage.device import looks_well
from bench.faults.stage.fault import Fault, Truth
from bench.faults.stage.stage import Files, Place, Stage
from bench.faults.stage.workloads import noise
from bench.faults.trial.judging import judge
from bench.faults.trial.outcome import Outcome
from bench.faults.trial.watcher import Seen, Watcher
from stalltop.demo.build import Built

_GLANCE_SECONDS: Final = 0.2
"""Time between two checks of what the diagnosis found."""
_WELL_SECONDS: Final = 15.0
"""Maximum time for which a trial waits until windows no longer show the faults that the previous trial
injected into the stand-in GPU."""


def run_trial(
    watcher: Watcher,
    built: Built,
    files: Files,
    faults: Sequence[Fault],
    seed: int,
    *,
    patience_seconds: float = 0.0,
) -> list[Outcome]:
    """Injects ``faults`` at the same time, watches for the longest ``watch_seconds`` of these faults, and
    returns one outcome per fault. If ``patience_seconds`` is not 0, watches only until all faults are
    diagnosed right, and for at most that time.

    Raises StalltopError if the trial cannot be set up on this host.
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
        # A random part of a second is added, so that the fault begins at any time within a window.
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
    """Returns a new outcome of ``fault`` in a trial of ``faults``, in which only the facts about the trial
    are filled in."""
    others = tuple(other.cause for other in faults if other is not fault)
    name = "" if fault.name == fault.cause else fault.name
    return Outcome(fault.cause, seed, others=others, name=name, error=error, strength=fault.strength)


def lost_share(paces: Sequence[tuple[float, int]]) -> float | None:
    """Returns the share of its time that the victim lost to the fault, computed from ``paces``: the time and
    the victim's count of steps at the beginning of the trial, at the injection, and at the end.

    The share is 1 minus the ratio of its steps per second after the injection to those before. Returns None
    if the victim made no step before the injection.
    """
    (began, first), (injected, before), (ended, last) = paces
    if before <= first:
        return None
    return 1.0 - (last - before) / (ended - injected) / ((before - first) / (injected - began))


def _paced(stage: Stage) -> tuple[float, int]:
    """Returns the time, and how many steps the victim has made so far (0 if it does not count steps)."""
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
