"""``python -m bench``: see ``--help``; ``bench/run`` also installs what is needed."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from bench import cost, gpu, recording, screen, start, switching, watching
from bench.machine import machine
from bench.table import Table
from demo.build import Built, build
from model.errors import CannotTrace, Told


class Measure(Protocol):
    """A benchmark: gives its tables. The folder is empty and removed afterwards. Raises Told."""

    def __call__(self, built: Built, folder: Path, *, quick: bool) -> list[Table]:
        """Measure, quickly or well."""
        ...


BENCHES: Final[dict[str, tuple[str, Measure]]] = {
    "cost": (cost.SUMMARY, cost.run),
    "gpu": (gpu.SUMMARY, gpu.run),
    "recording": (recording.SUMMARY, recording.run),
    "screen": (screen.SUMMARY, screen.run),
    "start": (start.SUMMARY, start.run),
    "switching": (switching.SUMMARY, switching.run),
    "watching": (watching.SUMMARY, watching.run),
}
"""Every benchmark with what it measures."""
FAULTS_SUMMARY: Final = "how well injected faults are diagnosed (see faults --help)"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    lines = "\n".join(f"  {name:10}{summary}" for name, (summary, _) in BENCHES.items())
    made = argparse.ArgumentParser(
        prog="bench/run",
        description="Measure what stalltop costs on this machine. Needs root. Without names: everything.",
        epilog=f"benchmarks:\n{lines}\nand, not of cost:\n  faults    {FAULTS_SUMMARY}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks")
    made.add_argument("--quick", action="store_true", help="few, short rounds: a first look")
    made.add_argument("--list", action="store_true", help="list the benchmarks and exit")
    return made


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Run the benchmarks that are asked for; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["faults"]:
            from bench.faults.command import main as faults

            return faults(arguments[1:], say)
        return _measure(arguments, say)
    except Told as told:
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
        print(f"bench: no such benchmark: {unknown[0]} (there are {', '.join(BENCHES)})", file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        raise CannotTrace("measuring needs root", "run with sudo")
    say(machine())
    built = build()
    for name in options.names or BENCHES:
        folder = Path(tempfile.mkdtemp(prefix="stalltop-bench-"))
        try:
            for table in BENCHES[name][1](built, folder, quick=options.quick):
                say("\n" + table.text().rstrip())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    # Whatever ends it, what it started has to end too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    sys.exit(main())
