"""Show a saved window or a recording on the same screen as the live one: sort, pivot, filter, drill down.

The screen begins at the end of a recording and follows it while it is written. --at begins at another moment,
and keys move in time: [ and ] step, ( and ) jump between problems, T goes to a time that you type, P plays.
In a pipe, one window is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.cli.commands.once import print_window
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options, say
from stalltop.model.errors import UsageError
from stalltop.model.window import Window
from stalltop.tui.past.when import EXAMPLES, moment, when

if TYPE_CHECKING:
    from stalltop.recordings.past.in_file import InFile

PRINTED_SECONDS = 10.0
"""Default length, in seconds, of the window that is printed if FILE is a recording, and stdout is not a
terminal or ``--json`` is given."""


class SavedWindowSource:
    """A source that yields the same window at every read."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def read(self) -> Window:
        """Returns the window."""
        return self._window

    def close(self) -> None:
        """Does nothing: the source holds no resources."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a window saved by the key w, or a recording of stalltop record",
    )
    parser.add_argument("--at", metavar="TIME", help=f"begin at this moment of a recording: {EXAMPLES}")
    parser.add_argument(
        "--json", action="store_true", help="print one window as JSON and exit: that of --at, or the last one"
    )
    add_screen_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Shows the file. Prints one window of it instead if stdout is not a terminal or ``--json`` is given."""
    from stalltop.recordings.past.in_file import InFile
    from stalltop.recordings.past.opened import OpenedRecording
    from stalltop.recordings.read.reading import open_file

    file = open_file(options.file)
    shown = not options.json and sys.stdout.isatty()
    if file.kind == "window":
        with file:
            window = file.whole()
        if options.at is not None:
            raise UsageError(
                f"{options.file} is a saved window: --at works only with recordings", "leave --at out"
            )
        if shown:
            from stalltop.tui.app import run

            return run(SavedWindowSource(window), run_options(options, still=True))
        print_window(window, as_json=options.json)
        return 0
    recording = OpenedRecording(file)
    try:
        kept = InFile.of(recording)
        at = _moment(options.at, kept)
        if not shown:
            _print(kept, kept.end if at is None else at, options)
            return 0
    except BaseException:
        recording.close()
        raise
    from stalltop.tui.app import run

    return run(recording, run_options(options, at=at))


def _moment(typed: str | None, kept: InFile) -> float | None:
    if typed is None:
        return None
    try:
        at = moment(typed, start=float(kept.stretch.start[0]), end=kept.end)
    except ValueError as error:
        raise UsageError(f"--at: {error}") from None
    from stalltop.tui.past.recall import named

    return named(kept.stretch, at)


def _print(kept: InFile, at: float, options: argparse.Namespace) -> None:
    """Prints the window that ended at ``at``, and says on stderr which part of the recording it is."""
    length: float | None = getattr(options, "window", PRINTED_SECONDS)
    window = kept.window_at(at, length)
    assert window is not None, "window_at returns None only if its caller can cancel"
    start, end = float(kept.stretch.start[0]), kept.end
    from stalltop.tui.past.times import length_text

    of = "all of it" if length is None else f"{length_text(length)} up to {when(window.end, end)}"
    say(
        f"a recording from {when(start, end)} to {when(end, end)}; printed: {of} "
        "(choose with --at TIME, --window SECONDS)"
    )
    for note in kept.notes:
        say(note)
    print_window(window, as_json=options.json)
