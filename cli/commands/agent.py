"""Pass this host's windows on to a fleet: a summary a second, its problems, and whole windows with their
histograms, through a NATS server (docs/fleet.md).

Takes the windows of the tracer of this host, or traces by itself if there is none. While the server is away,
windows wait in a bounded buffer, and what that cannot hold is taken from the host's recording. Runs until a
signal ends it, with exit code 0.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.cli.fleet.options import add_sending_options, server_access
from stalltop.cli.host import host_windows
from stalltop.cli.tracing import add_state_options, add_tracing_options, say

if TYPE_CHECKING:
    from stalltop.model.fleet.host_summary import HostAddress

SEND_SECONDS = 3.0
"""Longest wait at exit for windows that are being sent."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    sending = add_sending_options(parser)
    sending.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="recording of this host, for what the buffer cannot hold and for requests "
        "(default: that of stalltop record)",
    )
    sending.add_argument(
        "--simulated", action="store_true", help="send windows of simulated tenants instead of this host"
    )
    sending.add_argument(
        "--client",
        action="store_true",
        help="send the windows of the tracer of this host, and never trace by itself",
    )
    add_tracing_options(parser)
    add_state_options(parser)


def address(options: argparse.Namespace) -> HostAddress:
    """Returns the place of this host in the fleet."""
    from stalltop.model.fleet.host_summary import HostAddress
    from stalltop.model.text.clean import clean

    host = options.host or platform.node() or "localhost"
    return HostAddress(*(clean(one)[:64] for one in (options.cluster, options.rack, host)))


def run(options: argparse.Namespace) -> int:
    """Sends until a signal ends it, and returns 0. Raises TracingError if this host cannot be traced, and
    FleetError if the server refuses the user."""
    access = server_access(options)
    from stalltop.cli.ending import read_until, requests
    from stalltop.cli.fleet.recorded import HostRecording
    from stalltop.cli.host import this_process
    from stalltop.cli.main import program_version
    from stalltop.files.places import recording_path
    from stalltop.fleet.agent import AgentOptions, FleetAgent
    from stalltop.fleet.answers import HostAnswers
    from stalltop.model.window import Window

    recording = HostRecording(options.recording or recording_path())
    where, process = address(options), this_process()
    agent = FleetAgent(
        AgentOptions(
            access,
            where,
            program_version(),
            session=f"{process.user} {process.pid} {process.since:.0f}",
            windows=options.windows,
            buffer_bytes=options.buffer << 20,
            past=recording.past,
            answers=HostAnswers(recording.window, recording.query),
        ),
        say,
    )

    def take(window: Window) -> None:
        agent.check()
        agent.take(window)

    source, leave = host_windows(options, patient=True, only_join=options.client)
    try:
        with requests(leave) as ended:
            agent.start()
            say(f"sending {where.text} to {access.shown}; press Ctrl-C to stop")
            read_until(source, take, ended)
    finally:
        try:
            agent.stop(SEND_SECONDS)
        finally:
            source.close()
    return 0
