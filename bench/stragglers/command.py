"""Makes ranks of a job on several traced hosts late, and measures how soon and how rightly the fleet says
which rank it is, and why: ``bench/run stragglers``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.measuring.machine import machine
from bench.measuring.revision import revision
from bench.measuring.spread import Spread
from bench.measuring.table import TextTable
from bench.stragglers.hosts import HOSTS, NICE, SpreadJob
from bench.stragglers.injections import INJECTIONS
from bench.stragglers.trial import (
    CALM_SECONDS,
    WATCH_SECONDS,
    StragglerOutcome,
    alarms_until,
    await_calm,
    run_trial,
)
from stalltop.demo.build import build
from stalltop.demo.caller import CallerError
from stalltop.fleet.connection import FleetLoop, ServerAccess, close, connected
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.streams import make_streams
from stalltop.fleet.watch import FleetWatch
from stalltop.model.errors import StalltopError, TracingError, UsageError

TRIALS: Final = 10
"""Default number of trials of each fault: 60 in all."""
HEALTHY_MINUTES: Final = 30.0
_SAID_SECONDS: Final = 60.0
_JOIN_SECONDS: Final = 30.0


@dataclass(slots=True)
class StragglerResults:
    """What the trials and the healthy minutes have shown so far."""

    seed: int
    out: Path | None
    machine: str
    outcomes: list[StragglerOutcome] = field(default_factory=list)
    healthy_seconds: float = 0.0
    alarms: list[str] = field(default_factory=list)
    """Lines about a late rank in the healthy minutes."""

    def write(self) -> None:
        """Writes everything to the file ``out``, if one was given."""
        if self.out is not None:
            plain = {**asdict(self), "out": None, "revision": revision()}
            self.out.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")

    def read(self) -> None:
        """Takes what the file ``out`` has already. Raises UsageError if that is no such file."""
        assert self.out is not None
        try:
            plain: dict[str, Any] = json.loads(self.out.read_text(encoding="utf-8"))
            self.outcomes = [StragglerOutcome(**one) for one in plain["outcomes"]]
            self.healthy_seconds, self.alarms = plain["healthy_seconds"], plain["alarms"]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.out} has no such results: {error}") from None


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the options."""
    made = argparse.ArgumentParser(
        prog="bench/run stragglers",
        description=f"Run a job with a rank on each of {HOSTS} traced hosts, inject faults into one host at "
        "a time, and measure how soon and how rightly the fleet names the late rank and the cause. Needs "
        "root.",
    )
    made.add_argument(
        "--fault", action="append", choices=tuple(INJECTIONS), help="only this fault (may be repeated)"
    )
    made.add_argument(
        "--trials",
        type=int,
        default=TRIALS,
        metavar="N",
        help="trials of each fault (default: %(default)s)",
    )
    made.add_argument(
        "--healthy",
        type=float,
        default=HEALTHY_MINUTES,
        metavar="MINUTES",
        help="minutes without a fault (default: %(default)g)",
    )
    made.add_argument("--seed", type=int, default=1, help="seed of all random choices (default: %(default)s)")
    made.add_argument(
        "--within", type=float, metavar="MINUTES", help="start no trial that would end later than this"
    )
    made.add_argument("--out", type=Path, metavar="FILE.json", help="write every trial to this file")
    made.add_argument(
        "--go-on", action="store_true", help="keep what --out has already, and run only the rest"
    )
    return made


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Runs the trials that ``arguments`` ask for; returns the exit code. Raises StalltopError if this host
    cannot run them."""
    options = parser().parse_args(arguments)
    if options.go_on and options.out is None:
        raise UsageError("--go-on needs a file with the trials so far", "add --out FILE.json")
    if os.geteuid() != 0:
        raise TracingError("injecting faults needs root", "run with sudo")
    results = StragglerResults(options.seed, options.out, machine())
    if options.go_on:
        results.read()
    last = None if options.within is None else time.monotonic() + options.within * 60
    try:
        _run(results, options, last)
    finally:
        say(results.machine)
        say("\n" + table(results).text().rstrip())
    return 0


def _run(results: StragglerResults, options: argparse.Namespace, last: float | None) -> None:
    chance = Random(options.seed)
    faults = options.fault or list(INJECTIONS)
    trials = [(fault, chance.randrange(1 << 32)) for _ in range(options.trials) for fault in faults]
    known = {(one.fault, one.seed) for one in results.outcomes}
    left = [trial for trial in trials if trial not in known]
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        _make_streams(access)
        job = SpreadJob(build(), server.url, chance)
        watch = FleetWatch(access)
        try:
            watch.start()
            watch.join(_JOIN_SECONDS)
            await_calm(watch)
            for fault, seed in left:
                longest = CALM_SECONDS + WATCH_SECONDS + 8.0
                if last is not None and time.monotonic() + longest > last:
                    break
                try:
                    outcome = run_trial(job, watch, fault, seed)
                except (StalltopError, CallerError) as error:
                    outcome = StragglerOutcome(fault, -1, seed, error=str(error))
                results.outcomes.append(outcome)
                results.write()
                _tell(len(results.outcomes), len(trials), outcome)
            _healthy(results, watch, options.healthy * 60, last)
        finally:
            watch.stop()
            job.close()


def _make_streams(access: ServerAccess) -> None:
    async def make() -> None:
        client = await connected(access, "stalltop bench")
        try:
            await make_streams(client)
        finally:
            await close(client)

    loop = FleetLoop("stalltop-bench")
    try:
        loop.wait(make(), _JOIN_SECONDS)
    finally:
        loop.stop()


def _healthy(results: StragglerResults, watch: FleetWatch, seconds: float, last: float | None) -> None:
    while results.healthy_seconds < seconds:
        until = time.monotonic() + min(_SAID_SECONDS, seconds - results.healthy_seconds)
        if last is not None and until > last:
            return
        if not results.healthy_seconds:
            await_calm(watch)
        began = time.monotonic()
        results.alarms += alarms_until(watch, until)
        results.healthy_seconds += time.monotonic() - began
        results.write()
        said = results.alarms or "no alarm"
        print(f"stragglers: healthy {results.healthy_seconds / 60:.1f} min: {said}", file=sys.stderr)


def _tell(number: int, of: int, outcome: StragglerOutcome) -> None:
    if outcome.error:
        said = outcome.error
    else:
        rank = "no rank" if outcome.told is None else f"rank {outcome.told}"
        right = "right" if outcome.rank_right else f"WRONG, it is {outcome.host}"
        cause = f"{outcome.cause or 'no cause'} by {outcome.culprit or 'nobody'}"
        cause += " right" if outcome.cause_right else " WRONG"
        times = "".join(
            f", {what} after {seconds:.1f} s"
            for what, seconds in (("rank", outcome.told_seconds), ("cause", outcome.cause_seconds))
            if seconds is not None
        )
        said = f"{rank} {right}, late by {outcome.late_ms:.1f} (+-{outcome.error_ms:.2f}) ms, {cause}{times}"
    alarms = f", alarms before: {outcome.alarms}" if outcome.alarms else ""
    print(f"stragglers: {number}/{of} {outcome.fault}: {said}{alarms}", file=sys.stderr)
    print(f"    {outcome.said}", file=sys.stderr)


def table(results: StragglerResults) -> TextTable:
    """Returns the figures of all trials, by fault and together."""
    minutes = results.healthy_seconds / 60
    calm = sum(one.calm_seconds for one in results.outcomes) / 60
    alarms = len(results.alarms) + sum(len(one.alarms) for one in results.outcomes)
    failed = sum(bool(one.error) for one in results.outcomes)
    disturbed = sum(one.disturbed for one in results.outcomes)
    made = TextTable(
        f"stragglers: a job with a rank on each of {HOSTS} traced hosts, a fault on one",
        ("fault", "trials", "rank right", "cause right", "rank after (s)", "cause after (s)"),
        notes=[
            f"alarms in {minutes + calm:.1f} healthy minutes ({calm:.1f} of them between trials): {alarms}",
            *([f"trials that could not be set up: {failed}"] if failed else []),
            *([f"trials disturbed by other programs, which do not count: {disturbed}"] if disturbed else []),
        ],
    )
    valid = [one for one in results.outcomes if not one.error and not one.disturbed]
    for fault in [*INJECTIONS, "all"]:
        found = [one for one in valid if fault in (one.fault, "all")]
        if found:
            made.add(
                fault,
                str(len(found)),
                _share(sum(one.rank_right for one in found), len(found)),
                _share(sum(one.rank_right and one.cause_right for one in found), len(found)),
                _median([one.told_seconds for one in found]),
                _median([one.cause_seconds for one in found]),
            )
    return made


def _share(right: int, of: int) -> str:
    return f"{100 * right / of:.0f} %"


def _median(seconds: Sequence[float | None]) -> str:
    known = [one for one in seconds if one is not None]
    return Spread.of(known).text(".1f") if known else "-"
