"""Convert a saved window or a recording for other programs: to a table, a trace, histogram logs, or a report
for a browser."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.cli.durations import duration
from stalltop.cli.progress import ProgressLine
from stalltop.cli.tracing import say
from stalltop.files.places import SUFFIX
from stalltop.formats.registry import EXPORTED, Format, narrowed
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.text.words import numbered
from stalltop.tui.past.when import EXAMPLES, moment
from stalltop.tui.terminal.streams import drop_output

if TYPE_CHECKING:
    from stalltop.model.rows.filter import Filter
    from stalltop.model.window import Window
    from stalltop.recordings.read.reading import Recorded

STDOUT: Final = "-"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a saved window or a recording")
    parser.add_argument(
        "--to", required=True, choices=tuple(EXPORTED), dest="format", help="output format (docs/export.md)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="output file or folder; - is stdout (default: the name of FILE with another suffix, in the "
        "current folder)",
    )
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    group = parser.add_argument_group("what is exported (default: all of it)")
    group.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help=f"start at this time: {EXAMPLES}",
    )
    group.add_argument("--until", metavar="TIME", help="end at this time")
    group.add_argument(
        "--container", metavar="TEXT", help="only containers whose name contains TEXT or matches /REGEX/"
    )
    group.add_argument(
        "--operation", metavar="TEXT", help="only operations whose name contains TEXT or matches /REGEX/"
    )
    group.add_argument(
        "--filter", metavar="FILTER", default="", help="only rows that match this filter (docs/keys.md)"
    )
    group.add_argument(
        "--every",
        type=duration,
        metavar="TIME",
        help="merge windows to this length, such as 90, 5m or 1h (default: windows as recorded)",
    )


def run(options: argparse.Namespace) -> int:
    """Exports the file and returns 0. If some windows could not be read, exports the others, says why on
    stderr, and returns 1."""
    from stalltop.recordings.read.reading import open_file

    made = EXPORTED[options.format]
    rows = _filter(options)
    target = _target(options, made)
    beside = "" if target is None or target.parent.is_dir() else f" in a new folder, {target.parent}"
    with open_file(options.file) as recorded, recorded.held():
        start, end = _span(recorded, options)
        reading = _Reading(recorded, rows, start, end, options.every)
        if target is None:
            _to_stdout(made, reading)
        else:
            _to_path(made, reading, target, force=options.force)
        reading.ended()
        if target is not None:
            counted = numbered(reading.count, "window")
            say(f"wrote {target}{beside}: {counted}")
        for warning in recorded.warnings:
            say(f"left out: {warning}")
        return 1 if recorded.warnings else 0


# ---- output


def _target(options: argparse.Namespace, made: Format) -> Path | None:
    """Returns the path of the output, None for stdout. Raises UsageError if the format cannot be written
    there."""
    file: Path = options.file
    default = file.name.removesuffix(SUFFIX) + made.suffix
    if options.output == STDOUT:
        if made.write is None:
            raise UsageError(
                f"cannot write {made.name} to stdout: it is a folder of files", "name a folder with -o"
            )
        if made.binary and sys.stdout.isatty():
            raise UsageError(f"cannot write {made.name} to a terminal: it is binary", "name a file with -o")
        return None
    path = Path(options.output or default)
    if made.write is not None and os.path.isdir(path):
        path /= default
    with contextlib.suppress(OSError):
        if os.path.samefile(path, file):
            raise UsageError(f"cannot write {path}: it is the input file", "name another one with -o")
    if os.path.lexists(path) and not options.force:
        raise UsageError(f"{path} exists", "name another path with -o, or replace it with --force")
    return path


def _to_stdout(made: Format, reading: _Reading) -> None:
    assert made.write is not None
    sys.stdout.flush()
    try:
        made.write(reading.windows(), reading.span, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        drop_output(keep_errors=True)
        raise StalltopError(f"cannot write to stdout: {error.strerror or error}") from error


def _to_path(made: Format, reading: _Reading, path: Path, *, force: bool) -> None:
    from stalltop.files.complete import opened
    from stalltop.files.new_folder import filled

    if made.write is not None:
        with opened(path, overwrite=force) as file:
            made.write(reading.windows(), reading.span, file)
    elif made.fill is not None:
        with filled(path, replaces=made.replaces if force else None) as folder:
            made.fill(reading.windows(), reading.span, folder)


# ---- selection


def _filter(options: argparse.Namespace) -> Filter:
    from stalltop.model.rows.filter import parse

    terms = [
        _term(name, typed)
        for name in ("container", "operation")
        if (typed := getattr(options, name)) is not None
    ]
    found = parse(" ".join([*terms, options.filter]).strip())
    if found.error:
        raise UsageError(f"invalid filter: {found.error}", "docs/keys.md describes filters")
    return found


def _term(name: str, typed: str) -> str:
    """Returns a filter term for rows whose ``name`` (container or operation) contains ``typed``, or matches
    ``typed`` if it is a /REGEX/. Raises UsageError if ``typed`` contains a quotation mark."""
    if '"' in typed:
        raise UsageError(f'--{name}: the text may not contain "', f"use --filter '{name}:/REGEX/' instead")
    return f"{name}:{typed}" if typed.startswith("/") else f'{name}:"{typed}"'


def _span(recorded: Recorded, options: argparse.Namespace) -> tuple[float, float]:
    """Returns the start and end of the wanted windows in Unix seconds. Raises UsageError if ``--until`` is
    not after ``--from``."""
    moments = recorded.moments
    if not len(moments):
        raise StalltopError(f"{options.file} has no windows")
    first, last = float(moments.start.min()), float(moments.end.max())
    times = [first, last]
    for at, (option, typed) in enumerate((("--from", options.begin), ("--until", options.until))):
        if typed is not None:
            try:
                times[at] = moment(typed, start=first, end=last)
            except ValueError as error:
                raise UsageError(f"{option}: {error}") from None
    if times[0] >= times[1] and first < last:
        raise UsageError("--from must be before --until")
    return times[0], times[1]


class _Reading:
    """Reads and filters windows, with progress on stderr."""

    def __init__(
        self, recorded: Recorded, rows: Filter, start: float, end: float, every: float | None
    ) -> None:
        self._recorded = recorded
        self._rows = rows
        self._wanted = start, end
        self._every = every
        self._passed = 0
        self.count = 0
        """Number of windows read so far."""
        moments = recorded.moments
        chosen = (moments.start < end) & (moments.end > start)
        self._all = int(chosen.sum())
        self.span = start, end
        """Start of the first and end of the last wanted window, Unix seconds."""
        if self._all:
            self.span = float(moments.start[chosen].min()), float(moments.end[chosen].max())
        self._progress = ProgressLine("window")

    def windows(self) -> Iterator[Window]:
        """Yields the wanted windows, oldest first. Raises StalltopError if none can be read or no row
        passes."""
        from stalltop.formats.stretches import stretches

        found = self._read()
        yield from found if self._every is None else stretches(found, self._every)
        if self._recorded.warnings and not self.count:
            raise StalltopError(f"no window could be read: {self._recorded.warnings[0]}")
        if self._rows and not self._passed:
            raise StalltopError("no row passes the filter", "stalltop open FILE shows the rows of the file")

    def _read(self) -> Iterator[Window]:
        for window in self._recorded.windows(*self._wanted):
            self.count += 1
            self._progress.at(self.count, self._all)
            narrow = narrowed(window, self._rows)
            self._passed += len(narrow.rows) + len(narrow.open_calls)
            yield narrow

    def ended(self) -> None:
        """Erases the progress from the terminal."""
        self._progress.ended()
