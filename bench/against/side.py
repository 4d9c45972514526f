"""One side of a comparison: runs one bench of the revision in whose environment it runs, a round at a time.

``python -P side.py NAME ROOT [--quick] [--program ROOT PYTHON]``. It is run as a file and imports nothing of
the revision that it comes from, so that ``bench`` is the bench of the revision that is measured, also of one
that knows nothing of comparisons. Speaks JSON, a line each: ``{"at": …}`` when a round is due, which then
waits for a line on stdin, so that the other side can have its turn; at last ``{"tables": […]}`` or
``{"failed": …}``.
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
"""What benches with rounds say on stderr when one begins."""


class _Link:
    """What the one that compares hears, and when it lets this side go on."""

    def __init__(self) -> None:
        # What compilers and tools print must not come between.
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def tell(self, **what: Any) -> None:
        self._out.write(json.dumps(what) + "\n")
        self._out.flush()

    def wait(self) -> None:
        if not sys.stdin.readline():
            sys.exit(1)  # nobody compares any more


class _Progress(io.TextIOBase):
    """Takes the place of stderr: a line that begins a round waits for the turn."""

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
    """Run the bench; returns the exit code."""
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
    try:
        return importlib.import_module("stalltop.demo.build").build
    except ModuleNotFoundError:  # a revision from before there was one name for all
        return importlib.import_module("demo.build").build


def _measure(options: argparse.Namespace) -> list[Any]:
    command = importlib.import_module("bench.__main__")
    spread = importlib.import_module("bench.spread").Spread
    build = _build()
    assert command.__file__ is not None
    found = Path(command.__file__).resolve().parent.parent
    if found != options.root.resolve():
        raise ImportError(f"{options.root} is to be measured, but what is imported is of {found}")
    if options.name not in command.BENCHES:
        raise LookupError(f"this revision has no benchmark {options.name}")
    if "values" not in getattr(spread, "__slots__", ()):
        _keep_values(spread)
    run = command.BENCHES[options.name][1]
    more: dict[str, Any] = {}
    if "alone" in inspect.signature(run).parameters:
        more["alone"] = True
    elif options.name == "screen":
        _ours_alone(importlib.import_module("bench.screen"))
    if options.program:
        program = importlib.import_module("bench.program").Program
        more["program"] = program(Path(options.program[0]), options.program[1])
    folder = Path(tempfile.mkdtemp(prefix="stalltop-bench-"))
    try:
        tables: list[Any] = run(build(), folder, quick=options.quick, **more)
        return tables
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Text(str):
    """A cell with the values of its rounds."""

    values: tuple[float, ...] = ()


def _keep_values(spread: Any) -> None:
    """Let cells of a revision whose spreads forget their rounds carry them."""
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
    """Leave other programs out in a revision whose bench always shows them, too: minutes each."""
    for name in ("_programs", "_on_slow_line"):
        every = getattr(screen, name, None)
        if every is not None:

            def ours(folder: Path, every: Any = every) -> Any:
                return (program for program in every(folder) if program.name == "stalltop")

            setattr(screen, name, ours)


def _plain(table: Any) -> dict[str, Any]:
    """A table as JSON: text, and what is known of columns and cells besides."""
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
