"""Injects faults into sample tenants and measures how well they are diagnosed: ``bench/run faults``."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.faults.catalogue import GROUPS
from bench.faults.graded import GRADED, REHEARSAL_SECONDS, STRENGTHS
from bench.faults.real import environment
from bench.faults.real.healthy import run_healthy_programs
from bench.faults.scoring.results import PLACES, Results
from bench.faults.stage.fault import FAULTS, Fault
from bench.faults.stage.stage import Files
from bench.faults.trial.healthy import run_healthy
from bench.faults.trial.outcome import Healthy, Outcome
from bench.faults.trial.trial import made_for, run_trial
from bench.faults.trial.watcher import Watcher
from bench.measuring.program import ROOT
from stalltop.demo.build import Built, build
from stalltop.demo.caller import CallerError
from stalltop.diagnosis.normals import Normals
from stalltop.files.normals_file import NormalsDamagedError, NormalsNewerError, read_normals, write_normals
from stalltop.model.errors import StalltopError, TracingError, UsageError

COMMON_TRIALS: Final = 20
OTHER_TRIALS: Final = 5
HEALTHY_MINUTES: Final = 30.0
TOGETHER_TRIALS: Final = 10
STRENGTH_TRIALS: Final = 3
"""Default number of trials of each cause at each strength."""
SETTING_UP_SECONDS: Final = 1.6
"""Approximate time to start and end the processes of a trial; used to estimate how long a trial takes."""
DOCUMENT: Final = ROOT / "docs/faults.md"
_TOGETHER: Final = (
    ("cpu_contention", "lock_contention"),
    ("slow_disk", "cfs_throttling"),
    ("loader_cpu", "tcp_retransmits"),
    ("loader_disk", "own_threads"),
)
"""Pairs of faults that hit different tenants at the same time."""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the options."""
    made = argparse.ArgumentParser(
        prog="bench/run faults",
        description="Inject faults into sample tenants and measure how well they are diagnosed. Needs root.",
        epilog="causes: " + ", ".join(FAULTS),
    )
    made.add_argument("--cause", action="append", metavar="CAUSE", help="only this cause (may be repeated)")
    made.add_argument(
        "--group",
        action="append",
        choices=GROUPS,
        help="only the causes of this group (may be repeated)",
    )
    made.add_argument(
        "--trials",
        type=int,
        metavar="N",
        help=f"trials of each cause (default: {COMMON_TRIALS}, of rare ones {OTHER_TRIALS})",
    )
    made.add_argument(
        "--together",
        type=int,
        metavar="N",
        help=f"trials with two faults at once (default: {TOGETHER_TRIALS}, with --cause or --group 0)",
    )
    made.add_argument(
        "--healthy",
        type=float,
        metavar="MINUTES",
        help=f"minutes without a fault (default: {HEALTHY_MINUTES:g}, with --cause or --group 0); "
        "with --group real alone, programs that use public packages run without a fault",
    )
    made.add_argument("--seed", type=int, default=1, help="seed of all random choices (default: %(default)s)")
    made.add_argument(
        "--strength",
        action="store_true",
        help=f"find out how small a fault may be: for each of the causes {', '.join(GRADED)}, "
        f"{STRENGTH_TRIALS} trials in which the victim is meant to lose each of "
        f"{', '.join(f'{share:.0%}' for share in STRENGTHS)} of its time".replace("%", "%%"),
    )
    made.add_argument("--quick", action="store_true", help="one trial of each cause, one healthy minute")
    made.add_argument(
        "--within",
        type=float,
        metavar="MINUTES",
        help="end the run within this time: start no trial that would end later",
    )
    made.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="end each trial as soon as its fault is diagnosed right, at the latest after this time "
        "(0: always watch for the whole time of the trial)",
    )
    made.add_argument(
        "--normals",
        type=Path,
        metavar="FILE",
        help="begin with the baselines in this file, if it exists, and write into it what was learned",
    )
    made.add_argument("--list", action="store_true", help="list what is injected for each cause, and exit")
    made.add_argument("--out", type=Path, metavar="FILE.json", help="write every trial to this file")
    made.add_argument(
        "--go-on",
        action="store_true",
        help="keep the trials that --out has already, and run only the others",
    )
    made.add_argument(
        "--write-docs",
        choices=PLACES,
        metavar="PLACE",
        help="write the figures into docs/faults.md, at this place",
    )
    return made


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Runs the trials that ``arguments`` ask for; returns the exit code. Raises StalltopError if this host
    cannot run them."""
    options = parser().parse_args(arguments)
    if options.list:
        for cause, about in injected().items():
            say(f"{cause:22}{about}")
        return 0
    if options.go_on and options.out is None:
        raise UsageError("--go-on needs a file with the trials so far", "add --out FILE.json")
    trials, minutes = planned(options)
    trials = without_packages(trials)
    if os.geteuid() != 0:
        raise TracingError("injecting faults needs root", "run with sudo")
    results = Results(options.seed, options.out, tuple(arguments), len(trials), minutes)
    if options.go_on:
        results.read()
    say(results.machine)
    estimate = sum(map(trial_seconds, trials)) / 60 + minutes
    print(f"faults: {len(trials)} trials, {minutes:g} min healthy: {estimate:.0f} min", file=sys.stderr)
    try:
        watch = run_healthy_programs if options.group == ["real"] else run_healthy
        with baselines(options.normals) as normals:
            run(results, build(), trials, minutes, options.patience, options.within, normals, watch)
    finally:
        # Also after an interruption, so that the trials so far are reported.
        for made in results.tables():
            say("\n" + made.text().rstrip())
        if options.write_docs and results.tables():
            results.write_docs(DOCUMENT, options.write_docs)
    return 0


@contextlib.contextmanager
def baselines(path: Path | None) -> Iterator[Normals | None]:
    """Yields the baselines in the file at ``path``; when the block is left, writes the updated baselines
    back. Yields None if ``path`` is None. Raises UsageError if the file cannot be used."""
    if path is None:
        yield None
        return
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} is in no folder that exists", "make the folder, or name another file")
    try:
        plain = read_normals(path)
        normals = Normals() if plain is None else Normals.from_plain(plain)
    except (NormalsDamagedError, NormalsNewerError, OSError, ValueError) as error:
        raise UsageError(f"cannot use the baselines in {path}: {error}", "name another file") from None
    try:
        yield normals
    finally:
        # Also after an interruption, so that the updated baselines are not lost.
        write_normals(path, normals.to_plain())


def planned(options: argparse.Namespace) -> tuple[list[tuple[Fault, ...]], float]:
    """Returns the faults of each trial in the order of the run, and the minutes of healthy tenants. The
    faults take turns, so that a run that ends early has some trials of each. Raises UsageError if ``options``
    name an unknown fault."""
    chosen = [*(options.cause or ()), *(cause for group in options.group or () for cause in GROUPS[group])]
    among = GRADED if options.strength else FAULTS
    causes = list(dict.fromkeys(chosen)) or list(among)
    unknown = [cause for cause in causes if cause not in among]
    if unknown:
        raise UsageError(f"no fault has the cause {unknown[0]}", f"choose from: {', '.join(among)}")
    if options.strength:
        return _by_strength([GRADED[cause] for cause in causes], options), 0.0
    minutes = options.healthy if options.healthy is not None else 0.0 if chosen else HEALTHY_MINUTES
    together = options.together if options.together is not None else 0 if chosen else TOGETHER_TRIALS
    if options.quick:
        minutes, together = min(minutes, 1.0), min(together, 1)
    counts = {cause: _trials(cause, options) for cause in causes}
    trials = [
        (FAULTS[cause],)
        for turn in range(max(counts.values(), default=0))
        for cause, count in counts.items()
        if turn < count
    ]
    pairs = [_TOGETHER[number % len(_TOGETHER)] for number in range(together)]
    return [*trials, *((FAULTS[one], FAULTS[other]) for one, other in pairs)], minutes


def _by_strength(faults: Sequence[Fault], options: argparse.Namespace) -> list[tuple[Fault, ...]]:
    """Returns trials of ``faults`` at all strengths."""
    count = 1 if options.quick else STRENGTH_TRIALS if options.trials is None else options.trials
    return [
        (replace(fault, strength=strength),)
        for _ in range(count)
        for strength in STRENGTHS
        for fault in faults
    ]


def without_packages(trials: list[tuple[Fault, ...]]) -> list[tuple[Fault, ...]]:
    """Returns ``trials``. If the public packages of ``bench.faults.real`` are not installed, leaves out the
    trials that need them and says so on stderr."""
    if not any(fault.real for trial in trials for fault in trial):
        return trials
    try:
        environment.python()
    except StalltopError as error:
        print(
            f"faults: programs that use public packages: NOT RUN: {error.reason}: {error.remedy}",
            file=sys.stderr,
        )
        return [trial for trial in trials if not any(fault.real for fault in trial)]
    return trials


def trial_seconds(faults: Sequence[Fault]) -> float:
    """Returns the approximate length of a trial that injects ``faults`` together, s."""
    healthy = max(fault.healthy_seconds for fault in faults)
    rehearsal = REHEARSAL_SECONDS if faults[0].strength else 0.0
    return SETTING_UP_SECONDS + rehearsal + healthy + 0.5 + max(fault.watch_seconds for fault in faults)


def injected() -> dict[str, str]:
    """Returns a description of each fault, by name: the docstring of the fault's script."""
    return {cause: " ".join((one.script.__doc__ or "").split()) for cause, one in FAULTS.items()}


def _trials(cause: str, options: argparse.Namespace) -> int:
    if options.quick:
        return 1
    usual = COMMON_TRIALS if FAULTS[cause].common else OTHER_TRIALS
    return usual if options.trials is None else int(options.trials)


def run(
    results: Results,
    built: Built,
    trials: Sequence[tuple[Fault, ...]],
    minutes: float,
    patience: float = 0.0,
    within: float | None = None,
    normals: Normals | None = None,
    watch: Callable[[Watcher, Built, Files, Healthy, float, Callable[[], None]], None] = run_healthy,
) -> None:
    """Runs all trials one after the other, then ``minutes`` of healthy tenants, and adds the outcomes to
    ``results``.

    ``patience`` is passed to `run_trial`, s. ``within`` limits the minutes of the whole run, including the
    healthy ones; trials that would end later are left out. ``normals`` are baselines from earlier runs, which
    also learn from this run; if None, every trial begins without baselines. ``watch`` is the function that
    runs and watches the healthy tenants.
    """
    chance = random.Random(results.seed)
    last = None if within is None else time.monotonic() + max(within - minutes, 0.0) * 60
    files = Files(built)
    try:
        with Watcher(files.device.environment, normals) as watcher:
            for number, faults in enumerate(trials):
                seed = chance.randrange(1 << 32)
                began = time.monotonic()
                if last is not None and began + trial_seconds(faults) > last:
                    continue
                if results.has(faults, seed):
                    continue
                try:
                    found = run_trial(watcher, built, files, faults, seed, patience_seconds=patience)
                except (
                    StalltopError,
                    CallerError,
                    OSError,
                ) as error:  # a trial that could not be set up is reported, but not scored
                    found = [made_for(fault, faults, seed, str(error)) for fault in faults]
                results.outcomes += found
                results.write()
                _tell(number, len(trials), found, time.monotonic() - began)
            if minutes:
                healthy = Healthy(seed=chance.randrange(1 << 32))
                results.healthy.append(healthy)

                def tell() -> None:
                    results.write()
                    said = f"{healthy.alarms or 'no alarm'}, disturbed by others {len(healthy.disturbed)}"
                    print(f"faults: healthy {healthy.seconds / 60:.1f} min: {said}", file=sys.stderr)

                watch(watcher, built, files, healthy, minutes * 60, tell)
    finally:
        files.close()


def _tell(number: int, of: int, found: Sequence[Outcome], seconds: float) -> None:
    for outcome in found:
        said = outcome.error or f"found {outcome.found or 'nothing'}" + (
            ", wrong culprit" if outcome.found == outcome.cause and not outcome.culprit_right else ""
        )
        if outcome.open_before:
            said += ", reported before the fault"
        if not outcome.quiet:
            said += f", other processes took {outcome.outside_share:.0%}"
        root = "" if outcome.root_seconds is None else f", root after {outcome.root_seconds:.1f} s"
        early = f", alarms before the fault: {outcome.early}" if outcome.early else ""
        strength = f" {outcome.strength:.0%}" if outcome.strength else ""
        lost = f", lost {outcome.lost_share:.1%}" if outcome.lost_share is not None else ""
        told = f"{outcome.fault}{strength}: {said}{root}{lost} ({seconds:.0f} s){early}"
        print(f"faults: {number + 1}/{of} {told}", file=sys.stderr)
        for line in outcome.said:
            print(f"    {line}", file=sys.stderr)
