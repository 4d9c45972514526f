"""Show the live screen of this host."""

from __future__ import annotations

import argparse

from stalltop.cli.commands.record import add_recording_options, recorded, shown
from stalltop.cli.host import HostWindows
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options, add_tracing_options, begun, say


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
    told: list[str] = []  # messages are shown on the screen, and printed after it, not over it

    def tell(line: str) -> None:
        told.append(line)
        source.tell(line)

    host = HostWindows(options, tell=tell, history=history, patient=True)
    tracing = begun(options, progress) if host.traces else None
    source = recorded(Later(lambda: host.source(tracing)), options)
    screen = run_options(options, recorded=source, progress=progress, own_cost=OwnCost(), history=history)
    try:
        return shown(source, screen, at_once=options.record is not None)
    finally:
        for line in told:
            say(line)
