"""Measures how this revision differs from another one: ``bench/run --against REV``."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.against.pairs import LEAST_PAIRS, Pairs, paired
from bench.against.turns import SideProcess, Tables, closing, in_turns
from bench.against.worktree import checked_out
from bench.measuring.figures import FigureText
from bench.measuring.program import Program
from bench.measuring.revision import git, revision
from bench.measuring.table import TextTable
from bench.monitor.start import CACHE_VARIABLE
from stalltop.model.errors import StalltopError

_WITH_ROUNDS: Final = ("cost", "gpu", "start", "switching")
"""Benchmarks that measure in rounds: both revisions take turns round by round. In all other benchmarks they
take turns run by run, with runs as short as those of --quick."""
_RUNS: Final = 5
"""Number of times that each revision runs a benchmark without rounds."""
_QUICK_RUNS: Final = 2
"""Number of times that each revision runs a benchmark in a quick comparison. It is also the maximum for a
benchmark with rounds: such a benchmark runs again if the first run has given fewer than `LEAST_PAIRS`
pairs."""
_LIST_SECONDS: Final = 120.0
_MOST_ALONE: Final = 12
"""Maximum number of lines that list rows and figures that only one revision has."""


@dataclass(slots=True)
class Comparison:
    """Results of comparing two revisions by one benchmark."""

    name: str
    against: str
    """Short commit id of the other revision."""
    pairs: list[Pairs]
    alone: list[str]
    """Rows and figures that only one of the two revisions has."""

    def tables(self) -> list[TextTable]:
        """Returns one table for each table of the benchmark."""
        made: dict[str, TextTable] = {}
        for pair in self.pairs:
            name = pair.figure.table
            if name not in made:
                made[name] = TextTable(
                    f"{name}: this revision against {self.against}, {len(pair.here)} pairs of rounds, "
                    "medians (middle half)",
                    ("what", "figure", "this", self.against, "this / other", "beyond noise"),
                )
            found = pair.ratio
            made[name].add(
                ", ".join(pair.figure.row),
                pair.figure.name,
                _text(pair.here),
                _text(pair.there),
                found.text(".3f") if found else "-",
                pair.verdict,
            )
        tables = list(made.values())
        if not tables:
            tables = [TextTable(f"{self.name}: no figure that both revisions have", ("",))]
        if self.alone:
            left = len(self.alone) - _MOST_ALONE
            tables[-1].notes += ["", *self.alone[:_MOST_ALONE], *([f"and {left} more"] if left > 0 else [])]
        return tables

    def plain(self) -> dict[str, Any]:
        """Returns the comparison as a dict for JSON."""
        return {
            "bench": self.name,
            "figures": [pair.plain() for pair in self.pairs],
            "only_one_side": self.alone,
        }


def described(root: Path, commit: str) -> str:
    """Describes both revisions and the method in a few lines."""
    return (
        f"this: {revision(root)}; against: {git(root, 'log', '-1', '--format=%h %s', commit)}\n"
        "each revision runs its own benchmarks; only `start` of this revision measures both revisions\n"
        "both measure once in each round; the one that was first in a round is second in the next\n"
        "beyond noise: Student's t test of the differences of the pairs, at 1 %: of a hundred figures\n"
        "that are equal in both revisions, about one is reported by chance;\n"
        f"fewer than {LEAST_PAIRS} pairs: too few to decide"
    )


def compare(name: str, there: Program, against: str, folder: Path, *, quick: bool) -> Comparison:
    """Runs the benchmark ``name`` of this checkout and that of the checkout ``there`` in turns, and returns
    the comparison. ``against`` is the short commit id of ``there``. Raises StalltopError if either run
    fails."""
    by_rounds = name in _WITH_ROUNDS
    runs = _QUICK_RUNS if quick or by_rounds else _RUNS
    found: list[list[Tables]] = []
    for number in range(runs):
        sides: list[SideProcess] = []
        with closing(sides):
            for label, program in (("this", Program()), (against, there)):
                # The benchmark "start" measures a program from outside, so that this revision's "start" can
                # measure both revisions in the same way.
                driven = name == "start"
                options = ["--program", str(program.root), program.python] if driven else []
                if quick or not by_rounds:
                    options.append("--quick")
                cache = Path(tempfile.mkdtemp(prefix="programs-", dir=folder))
                runner = Program() if driven else program
                sides.append(SideProcess(label, runner, name, options, {CACHE_VARIABLE: str(cache)}))
            found.append(in_turns(sides, number))
        pairs, alone = paired(found)
        if by_rounds and any(len(pair.here) >= LEAST_PAIRS for pair in pairs):
            break
    return Comparison(name, against, pairs, alone)


def benches_of(there: Program) -> list[str]:
    """Returns the names of the benchmarks of another revision. Raises StalltopError if ``python -m bench`` of
    that revision fails."""
    done = subprocess.run(
        [there.python, "-P", "-m", "bench", "--list"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIST_SECONDS,
        cwd=there.root,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise StalltopError(f"the benchmarks of that revision do not start: {said[-1]}")
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]


def run(
    names: Sequence[str], every: Sequence[str], commit: str, root: Path, *, quick: bool
) -> Generator[Comparison, None, None]:
    """Compares this revision with ``commit`` by the benchmarks ``names``. If ``names`` is empty, runs all
    benchmarks of ``every`` that both revisions have.

    Yields the `Comparison` of one benchmark after the other. If a benchmark fails, the others still run, and
    StalltopError is raised at the end.
    """
    against = git(root, "rev-parse", "--short", commit)
    with (
        checked_out(commit, root) as there,
        tempfile.TemporaryDirectory(prefix="stalltop-bench-") as folder,
    ):
        known = benches_of(there)
        missing = [name for name in names if name not in known]
        if missing:
            raise StalltopError(f"{against} has no benchmark {missing[0]}", f"it has {', '.join(known)}")
        failed = []
        for name in names or [name for name in every if name in known]:
            try:
                yield compare(name, there, against, Path(folder), quick=quick)
            except StalltopError as told:  # the results of the other benchmarks must not be lost
                print(f"bench: {name}: {told}", file=sys.stderr)
                failed.append(name)
    if failed:
        raise StalltopError(f"could not be compared (see above): {', '.join(failed)}")


def _text(values: Sequence[float]) -> FigureText:
    """Returns the text of the median of ``values``, with at least three significant digits."""
    middle = statistics.median(values)
    form = ",.0f" if abs(middle) >= 1000 else ".0f" if abs(middle) >= 100 else ".3g"
    return FigureText(f"{middle:{form}}", (middle,))
