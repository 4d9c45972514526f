"""Show the live screen of this host."""

from __future__ import annotations

import argparse

from stalltop.cli.commands.record import add_recording_options, recorded, shown
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options, add_tracing_options, begun, diagnosed, say
from stalltop.model.source import Source


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
    from stalltop.model.progress import Progress
    from stalltop.tui.reading.own_cost import OwnCost

    progress = Progress()
    tracing = begun(options, progress)
    told: list[str] = []  # messages are printed after the screen, not over it

    def start() -> Source:
        from stalltop.probes.monitor import Monitor

        return diagnosed(
            Monitor(tracing),
            keep=options.state,
            tell=told.append,
        )

    source = recorded(Later(start), options)
    screen = run_options(options, recorded=source, progress=progress, own_cost=OwnCost())
    try:
        return shown(source, screen, at_once=options.record is not None)
    finally:
        for line in told:
            say(line)
