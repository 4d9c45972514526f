"""Show the live screen of this host."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stalltop.cli.commands.record import add_recording_options, recorded, shown
from stalltop.cli.host import HostWindows
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options, add_tracing_options, begun, say

if TYPE_CHECKING:
    from stalltop.recordings.write.recorded_source import RecordedSource


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    add_screen_options(parser)
    add_recording_options(parser)
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Shows the screen until the user leaves it. If this host cannot be traced, the screen says why and shows
    tenants, devices and the host."""
    from stalltop.cli.opening import opening

    with opening():
        return _shown(options)


def _shown(options: argparse.Namespace) -> int:
    from stalltop.cli.later import Later
    from stalltop.model.merge.history import History
    from stalltop.model.progress import Progress
    from stalltop.tui.reading.own_cost import OwnCost

    progress, history = Progress(), History()
    # Messages are shown on the screen, once there is one, and printed after it, not over it.
    told: list[str] = []
    shown_on: list[RecordedSource] = []

    def tell(line: str) -> None:
        told.append(line)
        for recording in shown_on:
            recording.tell(line)

    host = HostWindows(options, tell=tell, history=history, patient=True)
    tracing = begun(options, progress) if host.traces else None
    source = recorded(Later(lambda: host.source(tracing)), options)
    shown_on.append(source)
    screen = run_options(
        options,
        recorded=source,
        progress=progress,
        own_cost=OwnCost(),
        history=history,
        paced=host.link is not None,
    )
    try:
        return shown(source, screen, at_once=options.record is not None)
    finally:
        for line in told:
            say(line)
