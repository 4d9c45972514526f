"""Show the live screen of this host."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from stalltop.cli.commands.record import add_recording_options, recorded, shown
from stalltop.cli.host import HostWindows
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options, add_tracing_options, begun
from stalltop.model.source import Source

JOIN_SECONDS = 1.5
"""The screen appears after this time at the latest, even if neither the tracer of this host has answered nor
tracing has begun."""


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
    from stalltop.cli.later import Ahead, Later
    from stalltop.cli.messages import ScreenMessages
    from stalltop.model.merge.history import History
    from stalltop.model.progress import Progress
    from stalltop.probes import helpers
    from stalltop.tui.reading.own_cost import OwnCost

    progress, history, messages = Progress(), History(), ScreenMessages()
    joined: list[HostWindows] = []

    def join() -> Callable[[], Source]:
        host = HostWindows(options, tell=messages.tell, history=history, patient=True)
        joined.append(host)
        tracing = begun(options, progress) if host.traces else None
        return lambda: host.source(tracing)

    # A tracer that is stopped does not answer: the screen does not wait for it.
    joining = Ahead(join)
    joining.wait(JOIN_SECONDS)
    source = recorded(Later(lambda: joining.take()()), options)
    messages.show_on(source)
    screen = run_options(
        options,
        recorded=source,
        progress=progress,
        own_cost=OwnCost(helpers.running),
        history=history,
        paced=lambda: any(host.paced for host in joined),
        suspend_note=lambda: "".join(host.suspend_note() for host in joined),
    )
    try:
        return shown(source, screen, at_once=options.record is not None)
    finally:
        messages.print()
