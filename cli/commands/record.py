"""Record this host into one file, without a screen, for weeks. Size and age are bounded; a crash does not
damage the file.

Runs for --seconds, or until a signal ends it, with exit code 0. Windows of one second are merged into windows
of ten seconds after an hour and of one minute after half a day; counts and histograms stay exact. `stalltop
open FILE` shows the file while it is written.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.cli.durations import age, duration
from stalltop.cli.ending import read_until, requests
from stalltop.cli.fleet.options import add_sending_options
from stalltop.cli.host import host_windows
from stalltop.cli.tracing import add_state_options, add_tracing_options, say, size
from stalltop.model.source import Source

if TYPE_CHECKING:
    from stalltop.model.window import Window
    from stalltop.recordings.write.bounds import Bounds
    from stalltop.recordings.write.recorded_source import RecordedSource
    from stalltop.recordings.write.recorder import Recorder
    from stalltop.tui.screens.run_options import RunOptions

CLOSE_SECONDS = 20.0
"""Seconds that stalltop waits at exit for the disk to write the last windows."""
WHILE_SHOWN = "record while the screen is shown, as `stalltop record` does; also the key R"


def add_bounds(parser: argparse._ActionsContainer) -> None:
    """Adds the options that bound a recording."""
    from stalltop.recordings.write.bounds import LEAST_BYTES

    parser.add_argument(
        "--max-size",
        type=size(LEAST_BYTES, 1 << 50),
        default="1GiB",
        metavar="SIZE",
        help="maximum file size (default: %(default)s)",
    )
    parser.add_argument(
        "--max-age",
        type=age,
        default="14d",
        metavar="AGE",
        help="delete older windows (default: %(default)s)",
    )


def bounds(options: argparse.Namespace) -> Bounds:
    """Returns the limits of size and age that the options set for a recording."""
    from stalltop.recordings.write.bounds import Bounds

    return Bounds(int(options.max_size), float(options.max_age))


def add_recording_options(parser: argparse.ArgumentParser, help_text: str = WHILE_SHOWN) -> None:
    """Adds the options for recording while something else is done with the windows."""
    group = parser.add_argument_group("recording (docs/recordings.md)")
    group.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="FILE",
        help=help_text,
    )
    add_bounds(group)


def recorded(source: Source, options: argparse.Namespace, name: str | None = None) -> RecordedSource:
    """Adds a recorder to ``source``. ``name`` replaces the host's name in the default file name."""
    from stalltop.files.places import recording_path
    from stalltop.recordings.write.recorded_source import RecordedSource

    path = Path(options.record) if options.record else recording_path(name)
    return RecordedSource(source, path, bounds(options))


def shown(recorded: RecordedSource, screen: RunOptions, *, at_once: bool) -> int:
    """Shows ``recorded`` until the user leaves, and returns the exit code.

    With ``at_once``, recording begins before the screen appears; otherwise the user begins it with the key R.
    Raises StalltopError if recording cannot begin although ``at_once`` is set.
    """
    from stalltop.tui.app import run

    try:
        if at_once:
            recorded.begin()
        return run(recorded, screen)
    finally:
        for line in recorded.finish(CLOSE_SECONDS):
            say(line)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="file to write; an existing recording is continued "
        "(default: recording-HOST.stalltop in ~/.local/state/stalltop)",
    )
    parser.add_argument(
        "--seconds",
        type=duration,
        metavar="TIME",
        help="how long to record, such as 90 or 1h (default: until a signal ends it)",
    )
    add_bounds(parser)
    parser.add_argument(
        "--simulated", action="store_true", help="record simulated tenants instead of this host"
    )
    add_tracing_options(parser)
    add_state_options(parser)
    add_sending_options(parser, "nothing is sent")


def run(options: argparse.Namespace) -> int:
    """Records, and returns 0, or 1 if the newest windows could not be written. Raises TracingError if this
    host cannot be traced."""
    from stalltop.cli.fleet.agent_process import agent_beside

    agent = agent_beside(options, _path(options, options.to))
    recorder = opened(options, options.to)
    try:
        source, leave = host_windows(options)
    except BaseException:
        recorder.close(CLOSE_SECONDS)
        raise
    recorder.start()
    code = 0
    try:
        with requests(leave) as ended:

            def take(window: Window) -> None:
                recorder.add(window)
                if agent is not None and not ended.is_set:
                    agent.check()

            say_begun(recorder, options)
            read_until(source, take, ended, options.seconds)
    finally:
        try:
            if agent is not None:
                agent.stop()
        finally:
            try:
                source.close()
            finally:
                code = closed(recorder)
    return code


def opened(options: argparse.Namespace, given: Path | None) -> Recorder:
    """Returns a recorder that has opened its file, but does not write yet. Call this before tracing begins:
    most mistakes of users are in the path of the file. ``given``: None: the file of this host. Raises
    StalltopError."""
    from stalltop.recordings.write.recorder import Recorder

    path = _path(options, given)
    missing = [folder for folder in path.parents if not folder.exists()]
    recorder = Recorder(path, bounds(options), tell=say)
    recorder.open(_host(options))
    if missing and given:
        say(f"created the folder {missing[-1]}")
    return recorder


def say_begun(recorder: Recorder, options: argparse.Namespace) -> None:
    """Tells the user where and how much is recorded."""
    path, most = recorder.state.path, options.max_size / (1 << 20)
    say(f"recording to {path}, at most {most:,.0f} MiB; press Ctrl-C to stop")


def closed(recorder: Recorder) -> int:
    """Ends the recording, and prints a summary. Returns the exit code: 1 if the newest windows could not be
    written."""
    written = recorder.close(CLOSE_SECONDS)
    say(
        recorder.summary
        if written
        else f"{recorder.summary}; the newest windows are lost: the disk did not write them within "
        f"{CLOSE_SECONDS:g} s"
    )
    return 0 if written and not recorder.state.failure else 1


def _path(options: argparse.Namespace, given: Path | None) -> Path:
    """Returns the file to write."""
    from stalltop.files.places import recording_path

    return given or recording_path(_host(options))


def _host(options: argparse.Namespace) -> str:
    """Returns the name of the recorded host."""
    if options.simulated:
        from stalltop.demo.simulated.windows import HOST

        return HOST
    from stalltop.model.text.clean import clean

    return clean(platform.node()) or "localhost"
