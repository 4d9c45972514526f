"""Runs the benchmarks: ``python -m bench``; ``bench/run`` also installs what they need."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from bench.against import command as against
from bench.fleet import failures, many_hosts
from bench.measuring import document
from bench.measuring.machine import machine
from bench.measuring.program import ROOT
from bench.measuring.revision import commit_of, revision
from bench.measuring.table import TextTable
from bench.monitor import profile, recording, scale, scraping, screen, start, takeover, watching
from bench.tracing import budget, cost, gpu, stacks, switching
from stalltop.demo.build import Built, build
from stalltop.model.errors import StalltopError, TracingError, UsageError


class Measure(Protocol):
    """A function that runs one benchmark and returns its tables. ``folder`` is an empty folder, which is
    removed afterwards. Raises StalltopError if the benchmark cannot run."""

    def __call__(self, built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
        """Measures and returns the tables; if ``quick``, with fewer and shorter rounds."""
        ...


BENCHES: Final[dict[str, tuple[str, Measure]]] = {
    "budget": (budget.SUMMARY, budget.run),
    "cost": (cost.SUMMARY, cost.run),
    "fleet": (many_hosts.SUMMARY, many_hosts.run),
    "gpu": (gpu.SUMMARY, gpu.run),
    "outages": (failures.SUMMARY, failures.run),
    "profile": (profile.SUMMARY, profile.run),
    "recording": (recording.SUMMARY, recording.run),
    "scale": (scale.SUMMARY, scale.run),
    "scraping": (scraping.SUMMARY, scraping.run),
    "screen": (screen.SUMMARY, screen.run),
    "stacks": (stacks.SUMMARY, stacks.run),
    "start": (start.SUMMARY, start.run),
    "steady": (many_hosts.STEADY, many_hosts.steady),
    "switching": (switching.SUMMARY, switching.run),
    "takeover": (takeover.SUMMARY, takeover.run),
    "watching": (watching.SUMMARY, watching.run),
}
"""By name of a benchmark: a one-line summary, and the function that runs it."""
OTHERS: Final = {
    "attack": "what others lose if a stranger attacks the tracer (see attack --help)",
    "faults": "how well injected faults are diagnosed (see faults --help)",
    "stragglers": "how soon the fleet names the late rank of a job, and why (see stragglers --help)",
    "soak": "whether a recorder stays as it is while a host lives fast (see soak --help)",
}
"""Summaries of what is measured with options of its own."""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    lines = "\n".join(f"  {name:10}{summary}" for name, (summary, _) in BENCHES.items())
    others = "\n".join(f"  {name:10}{summary}" for name, summary in OTHERS.items())
    made = argparse.ArgumentParser(
        prog="bench/run",
        description="Measure what stalltop costs on this machine. Needs root. Without names: everything.",
        epilog=f"benchmarks:\n{lines}\nand others, with options of their own:\n{others}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks")
    made.add_argument("--quick", action="store_true", help="few, short rounds: a first impression")
    made.add_argument(
        "--against",
        metavar="REV",
        help="measure this revision and REV (a commit, tag or branch) in turns, and print the ratio of each "
        "figure; for example, `--against REV --quick cost start switching` takes about five minutes",
    )
    made.add_argument(
        "--json", action="store_true", help="print figures as one JSON object instead of tables"
    )
    made.add_argument(
        "--write-docs",
        action="store_true",
        help="write the tables into docs/performance.md, each in its place",
    )
    made.add_argument("--list", action="store_true", help="list the benchmarks and exit")
    return made


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Runs the benchmarks that ``arguments`` (default: the command line) name; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        with tempfile.TemporaryDirectory(prefix="stalltop-bench-") as folder:
            # What is measured must not be a client of a tracer that runs on this host already.
            os.environ["STALLTOP_SOCKET"] = f"{folder}/tracer.sock"
            if arguments[:1] == ["faults"]:
                from bench.faults.command import main as faults

                return faults(arguments[1:], say)
            if arguments[:1] == ["attack"]:
                from bench.attack.command import main as attack

                return attack(arguments[1:], say)
            if arguments[:1] == ["soak"]:
                from bench.soak.command import main as soak

                return soak(arguments[1:], say)
            if arguments[:1] == ["stragglers"]:
                from bench.stragglers.command import main as stragglers

                return stragglers(arguments[1:], say)
            return _measure(arguments, say)
    except StalltopError as told:
        print(f"bench: {told}", file=sys.stderr)
        return told.exit_code
    except KeyboardInterrupt:
        return 130


def _measure(arguments: Sequence[str], say: Callable[[str], None]) -> int:
    options = parser().parse_args(arguments)
    if options.list:
        for name, (summary, _) in BENCHES.items():
            say(f"{name:10}{summary}")
        return 0
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        print(f"bench: no such benchmark: {unknown[0]}; choose from {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    commit = commit_of(ROOT, options.against) if options.against is not None else ""
    if os.geteuid() != 0:
        raise TracingError("measuring needs root", "run with sudo")
    if options.write_docs:
        for name in options.names:
            if not document.has_place(_place(name, commit)):
                raise UsageError(
                    f"{document.DOCUMENT} has no place for the figures of {_place(name, commit)}",
                    f"add the lines {document.BEGIN.format(_place(name, commit))} and "
                    f"{document.END.format(_place(name, commit))} to it, or leave out --write-docs",
                )
    report = _Report(say, options.json, options.write_docs)
    try:
        _run(options, commit, report)
    finally:
        report.end()  # also after an interruption, so that the results so far are not lost
    return 0


def _run(options: argparse.Namespace, commit: str, report: _Report) -> None:
    """Runs the benchmarks in ``options``; if ``commit`` is not '', compares them with that revision. Raises
    StalltopError if a benchmark fails."""
    if commit:
        report.head(against.described(ROOT, commit))
        found = against.run(options.names, list(BENCHES), commit, ROOT, quick=options.quick)
        with contextlib.closing(found):
            for comparison in found:
                report.add(_place(comparison.name, commit), comparison.tables(), comparison.plain())
    else:
        built = build()
        for name in options.names or BENCHES:
            folder = Path(tempfile.mkdtemp(prefix="stalltop-bench-"))
            try:
                tables = BENCHES[name][1](built, folder, quick=options.quick)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            figures = [figure.plain() for table in tables for figure in table.figures()]
            report.add(_place(name, commit), tables, {"bench": name, "figures": figures})


def _place(name: str, commit: str) -> str:
    """Returns the name of the place in docs/performance.md for the figures of the benchmark ``name``.
    ``commit`` is the revision with which this revision is compared, or ''."""
    return f"{name}, against" if commit else name


class _Report:
    """Prints each benchmark's tables when it is done, or one JSON object at the end. If ``in_document``, also
    writes the tables into docs/performance.md."""

    def __init__(self, say: Callable[[str], None], as_json: bool, in_document: bool) -> None:
        self._say, self._as_json, self._in_document = say, as_json, in_document
        self._machine = machine()
        self._benches: list[dict[str, Any]] = []
        self._revision = revision()
        if not as_json:
            say(self._machine)

    def head(self, text: str) -> None:
        """Prints ``text`` before the tables. In JSON and in the document, ``text`` follows the description of
        the machine."""
        self._machine += f"\n{text}"
        if not self._as_json:
            self._say(text)

    def add(self, place: str, tables: Sequence[TextTable], plain: dict[str, Any]) -> None:
        """Adds the results of one benchmark: ``tables`` for people, ``plain`` for JSON. ``place`` is the name
        of the place in the document where the tables belong."""
        self._benches.append(plain)
        text = "\n\n".join(table.text().rstrip() for table in tables)
        if not self._as_json:
            self._say(f"\n{text}")
        if self._in_document and document.has_place(place):
            document.put_figures(place, f"{self._machine}\n\n{text}")

    def end(self) -> None:
        """Prints the JSON object, if it was asked for."""
        if self._as_json:
            whole = {
                "schema": "stalltop.bench/1",
                "machine": self._machine,
                "revision": self._revision,
                "benches": self._benches,
            }
            self._say(json.dumps(whole))


if __name__ == "__main__":
    # Make these signals raise SystemExit: it runs the cleanup code, so that child processes end, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    sys.exit(main())
