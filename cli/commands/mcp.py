"""Answer a language model's questions about this host, by the Model Context Protocol (docs/mcp.md).

Speaks on stdin and stdout, for an agent that starts it; with --listen over HTTP, with a token. Takes the
windows of the tracer of this host, or traces by itself if there is none. Nothing that a model can ask changes
the host.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.cli.commands.metrics import listen_address, refuse_what_is_open
from stalltop.cli.host import host_settings, host_windows
from stalltop.cli.listening import add_certificate_options, resolved, tls_of
from stalltop.cli.tracing import add_state_options, add_tracing_options, diagnosed, say
from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    from stalltop.cli.agent.places import LivePlace, WholeFilePlace
    from stalltop.model.chain import Chain
    from stalltop.model.source import Source
    from stalltop.model.window import Window


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="answer about a saved window or a recording instead of this host",
    )
    parser.add_argument(
        "--recording",
        type=Path,
        metavar="FILE",
        help="recording of this host for the tools history, query and diff (default: that of the settings)",
    )
    parser.add_argument(
        "--simulated",
        nargs="?",
        const="",
        metavar="SCENARIO",
        help="answer about simulated tenants instead of this host (scenarios: stalltop demo --list)",
    )
    parser.add_argument(
        "--demo",
        metavar="SCENARIO",
        help="start the sample tenants of a scenario of stalltop demo, and answer about them",
    )
    group = parser.add_argument_group("HTTP")
    group.add_argument(
        "--listen",
        type=listen_address,
        metavar="ADDRESS:PORT",
        help="serve HTTP here instead of stdin and stdout",
    )
    add_certificate_options(group)
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="with --listen: file with the token that each request must have (Authorization: Bearer TOKEN); "
        "if there is no such file, it is made with a new token",
    )
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Serves until stdin ends, or a signal ends it, and returns 0. Raises TracingError if this host cannot be
    traced."""
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise StalltopError(
            "stalltop mcp needs the Python package mcp, which is not installed",
            "in a checkout, ./stalltop mcp installs it; elsewhere: pipx inject stalltop mcp",
        ) from None
    from stalltop.cli.agent.server import agent_server, serve_http
    from stalltop.cli.agent.tools import HostTools
    from stalltop.cli.main import program_version
    from stalltop.cli.tellings import tellings
    from stalltop.files.token_file import token_in
    from stalltop.serving.access import Access
    from stalltop.tui.terminal.interrupts import RequestedEndError

    if options.listen is None:
        with place(options) as found:
            server = agent_server(HostTools(found, tellings()), program_version())
            server.run("stdio")
        return 0
    host, port = options.listen
    address = resolved(host, "--listen")
    tls = tls_of(options.cert, options.key)
    if options.token_file is None:
        raise UsageError("--listen needs --token-file", "name a file; stalltop makes it with a new token")
    refuse_what_is_open(address, tls, options.token_file)
    token, made = token_in(options.token_file)
    if made:
        say(f"made {options.token_file} with a new token")
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, port), family=family)
    except OSError as error:
        raise StalltopError(
            f"cannot listen on {address}, port {port}: {error.strerror or error}",
            "choose another port with --listen; port 0 takes any free one",
        ) from error
    with listener, place(options) as found:
        server = agent_server(HostTools(found, tellings()), program_version())
        shown = f"[{host}]" if ":" in host else host or socket.gethostname()
        scheme = "http" if tls is None else "https"
        say(f"tools at {scheme}://{shown}:{listener.getsockname()[1]}/mcp; press Ctrl-C to stop")
        # uvicorn has ended all requests when it raises the signal again
        with suppress(KeyboardInterrupt, RequestedEndError):
            serve_http(
                server, listener, Access(frozenset(), token), str(options.cert or ""), str(options.key or "")
            )
    return 0


@contextmanager
def place(options: argparse.Namespace) -> Iterator[WholeFilePlace | LivePlace]:
    """Yields where the tools get their windows from."""
    from stalltop.cli.agent.places import LivePlace, WholeFilePlace
    from stalltop.cli.ending import read_until

    if options.file is not None:
        yield WholeFilePlace(options.file, _whole)
        return
    recording = options.recording or host_settings().notify.recording
    found = LivePlace(_source(options), read_until, recording)
    try:
        yield found
    finally:
        found.close()


def _whole(path: Path) -> tuple[Window, tuple[Chain, ...]]:
    from stalltop.cli.whole_file import whole_file

    window, chains = whole_file(path)
    return window, tuple(chains)


def _source(options: argparse.Namespace) -> Source:
    if options.demo is not None:
        return _demo_source(options)
    if options.simulated is None:
        options.simulated = False
        return host_windows(options, patient=True)[0]
    from stalltop.demo.simulated.host import EVERYTHING
    from stalltop.demo.simulated.plots import PLOTS
    from stalltop.demo.simulated.windows import SimulatedSource

    if options.simulated and options.simulated not in PLOTS:
        raise UsageError(
            f"no scenario {options.simulated!r} can be simulated", f"use one of {', '.join(PLOTS)}"
        )
    return diagnosed(SimulatedSource(plot=PLOTS.get(options.simulated, EVERYTHING)))


def _demo_source(options: argparse.Namespace) -> Source:
    from stalltop.cli.commands.demo import sample_tenants, tracer_of_demo
    from stalltop.demo.scenario import load_scenario
    from stalltop.model.progress import Progress

    if options.simulated is not None:
        raise UsageError("--demo and --simulated exclude each other", "leave one of them out")
    scenario = load_scenario(options.demo)
    return diagnosed(sample_tenants(options, scenario, tracer_of_demo(options, say), Progress()))
