"""Runs one side of a comparison: one benchmark of one revision, a round at a time.

``python -P side.py NAME ROOT [--quick] [--program ROOT PYTHON]``, started with the Python of the revision
that is measured. This file is run as a script and imports nothing from its own revision, so ``bench`` is the
package of the measured revision, even if that revision does not support comparisons.

It writes JSON lines to stdout. When a round is due, it writes ``{"at": …}`` and waits for a line on stdin, so
that the other side has its turn. At the end it writes ``{"tables": […]}`` or ``{"failed": …}``.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_ROUND: Final = re.compile(r"round \d+ of \d+")
"""Matches the text that benchmarks with rounds write on stderr when a round begins."""


class _Link:
    """Sends messages to the process that compares both revisions, and waits until that process lets this side
    continue."""

    def __init__(self) -> None:
        # Output of compilers and tools must not mix with the messages, so it goes to stderr.
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def tell(self, **what: Any) -> None:
        self._out.write(json.dumps(what) + "\n")
        self._out.flush()

    def wait(self) -> None:
        if not sys.stdin.readline():
            sys.exit(1)  # the process that compares has ended


class _Progress(io.TextIOBase):
    """Replaces stderr. When the benchmark writes that a round begins, the write blocks until it is this
    side's turn. Other text goes to the real stderr."""

    def __init__(self, link: _Link, behind: Any) -> None:
        self._link, self._behind = link, behind

    def write(self, text: str) -> int:
        if _ROUND.search(text):
            self._link.tell(at=text.strip())
            self._link.wait()
        elif text.strip():
            self._behind.write(text.rstrip() + "\n")
        return len(text)

    def flush(self) -> None:
        self._behind.flush()


def main(arguments: Sequence[str]) -> int:
    """Runs the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("root", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--program", nargs=2, metavar=("ROOT", "PYTHON"))
    options = parser.parse_args(arguments)
    link = _Link()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    sys.stderr = _Progress(link, sys.stderr)
    try:
        link.tell(tables=[_plain(table) for table in _measure(options)])
    except Exception as error:
        link.tell(failed=str(error) if hasattr(error, "exit_code") else f"{type(error).__name__}: {error}")
        return 1
    return 0


def _build() -> Any:
    # Older revisions have no package "stalltop".
    return _module("stalltop.demo.build", "demo.build").build


def _module(name: str, older: str) -> Any:
    """Imports and returns the module ``name``. If the revision does not have it, imports the module ``older``
    instead."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return importlib.import_module(older)


def _measure(options: argparse.Namespace) -> list[Any]:
    command = importlib.import_module("bench.__main__")
    spread = _module("bench.measuring.spread", "bench.spread").Spread
    build = _build()
    assert command.__file__ is not None
    found = Path(command.__file__).resolve().parent.parent
    if found != options.root.resolve():
        raise ImportError(f"{options.root} should be measured, but Python imports from {found}")
    if options.name not in command.BENCHES:
        raise LookupError(f"this revision has no benchmark {options.name}")
    if "values" not in getattr(spread, "__slots__", ()):
        _keep_values(spread)
    run = command.BENCHES[options.name][1]
    more: dict[str, Any] = {}
    # "watching" compares with a program that has to run in the same minutes.
    if "alone" in inspect.signature(run).parameters and options.name != "watching":
        more["alone"] = True
    elif options.name == "screen":
        _ours_alone(sys.modules[run.__module__])
    if options.program:
        program = importlib.import_module("bench.measuring.program").Program
        more["program"] = program(Path(options.program[0]), options.program[1])
    folder = Path(tempfile.mkdtemp(prefix="stalltop-bench-"))
    try:
        tables: list[Any] = run(build(), folder, quick=options.quick, **more)
        return tables
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Text(str):
    """Text of a table's cell that also holds the figure's value in each round."""

    values: tuple[float, ...] = ()


def _keep_values(spread: Any) -> None:
    """Changes the class ``spread`` of an old revision, whose cells hold only a median, so that its cells also
    hold the value of each round."""
    kept: dict[Any, tuple[float, ...]] = {}
    of, text = spread.of, spread.text

    def remember(values: Any) -> Any:
        rounds = tuple(values)
        made = of(rounds)
        kept[made] = rounds
        return made

    def tell(self: Any, *form: str) -> str:
        cell = _Text(text(self, *form))
        cell.values = kept.get(self, ())
        return cell

    spread.of, spread.text = staticmethod(remember), tell


def _ours_alone(screen: Any) -> None:
    """Changes the module ``screen`` of an old revision so that it measures stalltop only: the other programs
    take minutes each, and its benchmark has no option to leave them out."""
    for name in ("_programs", "_on_slow_line"):
        every = getattr(screen, name, None)
        if every is not None:

            def ours(folder: Path, every: Any = every) -> Any:
                return (program for program in every(folder) if program.name == "stalltop")

            setattr(screen, name, ours)


def _plain(table: Any) -> dict[str, Any]:
    """Returns ``table`` as a dict for JSON: the text of its columns and cells, and the attributes that the
    comparison needs."""
    return {
        "title": table.title,
        "head": [_attributes(name, "unit", "better", "told_only") for name in table.head],
        "rows": [[_attributes(cell, "values", "unit") for cell in row] for row in table.rows],
        "others": list(getattr(table, "others", ())),
    }


def _attributes(text: str, *names: str) -> dict[str, Any]:
    found = {name: getattr(text, name) for name in names if hasattr(text, name)}
    return {"text": str(text), **found}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
