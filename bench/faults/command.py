"""``bench/run faults``: inject faults into sample tenants and tell how well they are diagnosed."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.faults import catalogue
from bench.faults.fault import FAULTS
from bench.faults.healthy import run_healthy
from bench.faults.score import Healthy, false_alarms, table
from bench.faults.stage import Files
from bench.faults.trial import Outcome, run_trial
from bench.faults.watcher import Watcher
from bench.machine import machine
from demo.build import Built, build
from demo.caller import CallerFailed
from model.errors import BadUsage, CannotTrace, Told

COMMON_TRIALS: Final = 20
OTHER_TRIALS: Final = 5
HEALTHY_MINUTES: Final = 30.0
TOGETHER_TRIALS: Final = 10
_HEALTHY_STRETCH_SECONDS: Final = 60.0
_TOGETHER: Final = (
    ("cpu_contention", "lock_contention"),
    ("slow_disk", "cfs_throttling"),
    ("loader_cpu", "tcp_retransmits"),
    ("loader_disk", "own_threads"),
)
"""Faults that hit different tenants at the same time."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="bench/run faults",
        description="Inject faults into sample tenants and tell how well they are diagnosed. Needs root.",
        epilog="causes: " + ", ".join(FAULTS),
    )
    made.add_argument("--cause", action="append", metavar="CAUSE", help="only this one (may be repeated)")
    made.add_argument(
        "--trials",
        type=int,
        metavar="N",
        help=f"of each (default: {COMMON_TRIALS}, rare ones {OTHER_TRIALS})",
    )
    made.add_argument(
        "--together",
        type=int,
        metavar="N",
        help="trials with two faults at once (default: %(default)s)",
        default=TOGETHER_TRIALS,
    )
    made.add_argument(
        "--healthy",
        type=float,
        metavar="MINUTES",
        default=HEALTHY_MINUTES,
        help="without a fault (default: %(default)g)",
    )
    made.add_argument(
        "--seed", type=int, default=1, help="of everything that chance decides (default: %(default)s)"
    )
    made.add_argument("--quick", action="store_true", help="one trial of each, one minute healthy")
    made.add_argument("--out", type=Path, metavar="FILE.json", help="write every trial there")
    return made


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Run it. Raises Told where this host cannot; returns the exit code."""
    options = parser().parse_args(arguments)
    causes = options.cause or list(FAULTS)
    unknown = [cause for cause in causes if cause not in FAULTS]
    if unknown:
        raise BadUsage(f"no fault has the cause {unknown[0]}", f"there are: {', '.join(FAULTS)}")
    minutes = options.healthy if not options.quick else min(options.healthy, 1.0)
    together = options.together if not options.cause else 0
    trials = [
        (cause,)
        for cause in causes
        for _ in range(
            1
            if options.quick
            else options.trials or (COMMON_TRIALS if FAULTS[cause].common else OTHER_TRIALS)
        )
    ] + [
        _TOGETHER[number % len(_TOGETHER)] for number in range(1 if options.quick and together else together)
    ]
    if os.geteuid() != 0:
        raise CannotTrace("injecting faults needs root", "run with sudo")
    chance = random.Random(options.seed)
    say(machine())
    outcomes, healthy = run(
        build(), trials, 0.0 if options.cause and minutes == HEALTHY_MINUTES else minutes, chance
    )
    one = [outcome for outcome in outcomes if not outcome.others]
    several = [outcome for outcome in outcomes if outcome.others]
    if one:
        say("\n" + table(one, f"faults: one at a time, {len(one)} trials").text().rstrip())
    if several:
        say("\n" + table(several, "faults: two tenants, a fault each, at the same time").text().rstrip())
    say("\n" + false_alarms(outcomes, healthy).text().rstrip())
    if options.out:
        options.out.write_text(json.dumps(document(options.seed, outcomes, healthy), indent=1) + "\n")
    return 0


def run(
    built: Built, trials: Sequence[tuple[str, ...]], healthy_minutes: float, chance: random.Random
) -> tuple[list[Outcome], list[Healthy]]:
    """All trials one after the other, with the healthy time in stretches between them."""
    outcomes: list[Outcome] = []
    healthy: list[Healthy] = []
    left = healthy_minutes * 60
    files = Files()
    try:
        with Watcher() as watcher:
            for number, causes in enumerate(trials):
                seed = chance.randrange(1 << 32)
                began = time.monotonic()
                found = _trial(watcher, built, files, causes, seed)
                outcomes += found
                _tell(number, len(trials), found, time.monotonic() - began)
            while left > 0:
                seconds = min(left, _HEALTHY_STRETCH_SECONDS)
                healthy.append(run_healthy(watcher, built, files, chance.randrange(1 << 32), seconds))
                left -= seconds
                print(
                    f"faults: healthy, {left / 60:.1f} min left: {healthy[-1].alarms or 'quiet'}",
                    file=sys.stderr,
                )
    finally:
        files.close()
    return outcomes, healthy


def document(seed: int, outcomes: Sequence[Outcome], healthy: Sequence[Healthy]) -> dict[str, Any]:
    """Everything, as JSON."""
    return {
        "machine": machine(),
        "seed": seed,
        "trials": [outcome.plain() for outcome in outcomes],
        "healthy": [
            {"seed": one.seed, "seconds": one.seconds, "alarms": one.alarms, "disturbed": one.disturbed}
            for one in healthy
        ],
    }


def _trial(watcher: Watcher, built: Built, files: Files, causes: Sequence[str], seed: int) -> list[Outcome]:
    """One trial; one that cannot be set up is told and not scored."""
    try:
        return run_trial(watcher, built, files, causes, seed)
    except (Told, CallerFailed, OSError) as error:
        return [Outcome(cause, seed, error=str(error)) for cause in causes]


def _tell(number: int, of: int, found: Sequence[Outcome], seconds: float) -> None:
    for outcome in found:
        said = outcome.error or f"found {outcome.found or 'nothing'}" + (
            f", at fault {'right' if outcome.culprit_right else 'wrong'}" if outcome.culprit_expected else ""
        )
        root = "" if outcome.root_seconds is None else f", root after {outcome.root_seconds:.1f} s"
        early = f", early: {outcome.early}" if outcome.early else ""
        print(
            f"faults: {number + 1}/{of} {outcome.cause}: {said}{root} ({seconds:.0f} s){early}",
            file=sys.stderr,
        )
        for line in outcome.said:
            print(f"    {line}", file=sys.stderr)


assert catalogue.ALL  # the faults are registered by being imported
