"""Look at a saved window or a recording on the same screen as the live one: sort, pivot, filter, drill down.

A recording is shown at its end, and followed while it is written. --at goes elsewhere, and so do keys: [ ]
step, ( ) jump between faults, T goes to a moment that you type, P plays. In a pipe, one moment is printed.
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
"""Length of the window of a recording that is printed where none is named."""


class Still:
    """A source that has one window and gives it at every read."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def read(self) -> Window:
        """The window, unchanged."""
        return self._window

    def close(self) -> None:
        """Nothing is held."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="what the key w saved, or stalltop record wrote"
    )
    parser.add_argument("--at", metavar="TIME", help=f"the moment of a recording to begin with: {EXAMPLES}")
    parser.add_argument("--json", action="store_true", help="print that moment as JSON instead of showing it")
    add_screen_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show the file, or print a moment of it where stdout is not a terminal."""
    from stalltop.recordings.past.in_file import InFile
    from stalltop.recordings.past.opened import OpenedRecording
    from stalltop.recordings.read.reading import open_file

    file = open_file(options.file)
    shown = not options.json and sys.stdout.isatty()
    if file.kind == "window":
        with file:
            window = file.whole()
        if options.at is not None:
            raise UsageError(f"{options.file} is a saved window: one moment, without a past for --at")
        if shown:
            from stalltop.tui.app import run

            return run(Still(window), run_options(options, still=True))
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
    """Print the window that ended at ``at``, and say on stderr what of the recording that is."""
    length: float | None = getattr(options, "window", PRINTED_SECONDS)
    window = kept.window_at(at, length)
    assert window is not None, "nothing called it off"
    start, end = float(kept.stretch.start[0]), kept.end
    from stalltop.tui.main.status import length_text

    of = "all of it" if length is None else f"{length_text(length)} to {when(window.end, end)}"
    say(f"a recording from {when(start, end)} to {when(end, end)}: {of} (--at TIME, --window SECONDS)")
    for note in kept.notes:
        say(note)
    print_window(window, as_json=options.json)
