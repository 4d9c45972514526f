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
from bench.faults.judging import Outcome
from bench.faults.score import Healthy, false_alarms, table
from bench.faults.stage import Files
from bench.faults.trial import run_trial
from bench.faults.watcher import Watcher
from bench.machine import machine
from bench.table import Table
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
        help=f"without a fault (default: {HEALTHY_MINUTES:g}, with --cause 0)",
    )
    made.add_argument(
        "--seed", type=int, default=1, help="of everything that chance decides (default: %(default)s)"
    )
    made.add_argument("--quick", action="store_true", help="one trial of each, one minute healthy")
    made.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="watch every trial up to so long, and only until it is diagnosed right",
    )
    made.add_argument("--list", action="store_true", help="say what is injected for each cause, and exit")
    made.add_argument("--out", type=Path, metavar="FILE.json", help="write every trial there")
    return made


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Run it. Raises Told where this host cannot; returns the exit code."""
    options = parser().parse_args(arguments)
    if options.list:
        for cause, about in injected().items():
            say(f"{cause:22}{about}")
        return 0
    causes = options.cause or list(FAULTS)
    unknown = [cause for cause in causes if cause not in FAULTS]
    if unknown:
        raise BadUsage(f"no fault has the cause {unknown[0]}", f"there are: {', '.join(FAULTS)}")
    if os.geteuid() != 0:
        raise CannotTrace("injecting faults needs root", "run with sudo")
    minutes = options.healthy if options.healthy is not None else 0.0 if options.cause else HEALTHY_MINUTES
    if options.quick:
        minutes = min(minutes, 1.0)
    together = 0 if options.cause else min(options.together, 1) if options.quick else options.together
    trials: list[tuple[str, ...]] = [(cause,) for cause in causes for _ in range(_trials(cause, options))]
    trials += [_TOGETHER[number % len(_TOGETHER)] for number in range(together)]
    say(machine())
    results = Results(options.seed, options.out)
    try:
        run(results, build(), trials, minutes, options.patience)
    finally:
        # An interrupted run has results, too.
        for made in results.tables():
            say("\n" + made.text().rstrip())
    return 0


def injected() -> dict[str, str]:
    """What each fault does, by cause: the first words of its script."""
    return {cause: " ".join((one.script.__doc__ or "").split()) for cause, one in FAULTS.items()}


def _trials(cause: str, options: argparse.Namespace) -> int:
    if options.quick:
        return 1
    usual = COMMON_TRIALS if FAULTS[cause].common else OTHER_TRIALS
    return usual if options.trials is None else int(options.trials)


class Results:
    """What came of all trials so far: written to ``path``, if any, after each of them."""

    def __init__(self, seed: int, path: Path | None) -> None:
        self.seed = seed
        self.outcomes: list[Outcome] = []
        self.healthy: list[Healthy] = []
        self._path = path

    def write(self) -> None:
        """Write the file anew."""
        if self._path is not None:
            fresh = self._path.with_name(self._path.name + ".new")
            fresh.write_text(json.dumps(document(self.seed, self.outcomes, self.healthy), indent=1) + "\n")
            fresh.replace(self._path)

    def tables(self) -> list[Table]:
        """What they say."""
        one = [outcome for outcome in self.outcomes if not outcome.others]
        several = [outcome for outcome in self.outcomes if outcome.others]
        made = []
        if one:
            made.append(table(one, f"faults: one at a time, {len(one)} trials"))
        if several:
            made.append(table(several, "faults: two tenants, a fault each, at the same time"))
        if self.outcomes or self.healthy:
            made.append(false_alarms(self.outcomes, self.healthy))
        return made


def run(
    results: Results, built: Built, trials: Sequence[tuple[str, ...]], minutes: float, patience: float
) -> None:
    """All trials one after the other, then ``minutes`` of healthy tenants."""
    chance = random.Random(results.seed)
    left = minutes * 60
    files = Files()
    try:
        with Watcher() as watcher:
            for number, causes in enumerate(trials):
                seed = chance.randrange(1 << 32)
                began = time.monotonic()
                try:
                    found = run_trial(watcher, built, files, causes, seed, patience_seconds=patience)
                except (Told, CallerFailed, OSError) as error:  # it could not be set up: told, and not scored
                    found = [Outcome(cause, seed, error=str(error)) for cause in causes]
                results.outcomes += found
                results.write()
                _tell(number, len(trials), found, time.monotonic() - began)
            while left > 0:
                seconds = min(left, _HEALTHY_STRETCH_SECONDS)
                results.healthy.append(run_healthy(watcher, built, files, chance.randrange(1 << 32), seconds))
                results.write()
                left -= seconds
                said = results.healthy[-1].alarms or "quiet"
                print(f"faults: healthy, {left / 60:.1f} min left: {said}", file=sys.stderr)
    finally:
        files.close()


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
