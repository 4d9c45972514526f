"""Show the screen in a web page: each browser has a screen of its own, and all share one tracer
(docs/serve.md)."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import signal
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING

from stalltop.cli.host import PAST_BYTES, HostWindows
from stalltop.cli.listening import add_certificate_options, resolved, tls_of
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import (
    add_state_options,
    add_tracing_options,
    diagnosed,
    monitor_options,
    number,
    say,
)
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.merge.history import History
from stalltop.model.source import Source
from stalltop.tui.settings.settings import SINCE_START
from stalltop.tui.terminal.interrupts import INTERRUPTED, REQUESTS

if TYPE_CHECKING:
    from stalltop.serving.access import Access
    from stalltop.serving.server import ServeOptions

PORT = 8750
CLOSE_SECONDS = 1.0
"""Seconds that stalltop waits at exit for the tracer to close. A tracer that takes longer ends with the
process."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="listen on this address (default: %(default)s, this host only)",
    )
    group.add_argument(
        "--port",
        type=number(int, 0, 65535),
        default=PORT,
        help="TCP port; 0: any free one (default: %(default)s)",
    )
    add_certificate_options(group)
    group.add_argument(
        "--insecure-plain",
        action="store_true",
        help="serve without TLS even if other hosts can reach the address of --host; everyone who can read "
        "the traffic can then read the token and log in",
    )
    group.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="also accept this host name in requests, such as that of a proxy; may be repeated",
    )
    group.add_argument(
        "--sessions",
        type=number(int, 1, 64),
        default=4,
        help="maximum number of browsers at a time; each needs a process of about 80 MB (default: "
        "%(default)s)",
    )
    group.add_argument(
        "--demo",
        nargs="?",
        const="tour",
        metavar="SCENARIO",
        help="show sample tenants instead of this host (default scenario: tour)",
    )
    group.add_argument("--simulated", action="store_true", help="with --demo: simulate the tenants")
    add_screen_options(parser)
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Serves until a signal asks stalltop to end, and returns 130 for each of these signals (``REQUESTS``).
    Raises the source's error if the source fails."""
    try:
        import aiohttp  # noqa: F401
        import textual_serve  # noqa: F401
    except ImportError as error:
        raise StalltopError(
            f"stalltop serve needs the Python package {error.name}, which is not installed",
            "in a checkout, ./stalltop serve installs it; elsewhere: pipx inject stalltop textual-serve",
        ) from None
    from stalltop.serving.access import Access, known_hosts
    from stalltop.serving.confine import landlock_version
    from stalltop.serving.server import ServeOptions

    screen = run_options(options)  # reports an invalid config file here, not in every browser
    address = resolved(options.host)
    tls = tls_of(options.cert, options.key)
    refuse_what_is_open(address, tls, plain=options.insecure_plain)
    if not landlock_version():
        say(
            "this Linux kernel has no Landlock: the screens of browsers cannot write to files, but a "
            "compromised screen "
            "could create and delete files"
        )
    access = Access(known_hosts((socket.gethostname(), options.host, *options.allow_host)))
    where = ServeOptions(address, int(options.port), tls, int(options.sessions))
    return asyncio.run(_serve(options, screen.interval, access, where))


async def _serve(options: argparse.Namespace, interval: float, access: Access, where: ServeOptions) -> int:
    from stalltop.serving.feed import Feed
    from stalltop.serving.server import BrowserServer
    from stalltop.serving.session import screen_command

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    failures: list[BaseException] = []

    def failed(error: BaseException) -> None:
        failures.append(error)
        loop.call_soon_threadsafe(ended.set)

    for request in REQUESTS:
        if signal.getsignal(request) is not signal.SIG_IGN:  # nohup ignores SIGHUP: keep that
            loop.add_signal_handler(request, ended.set)
    feed = Feed(source_of(options), interval, failed)
    server = BrowserServer(feed, access, screen_command(screen_flags(options, interval)), where)
    try:
        port = await server.start()
    except OSError as error:
        raise StalltopError(
            f"cannot listen on {where.address}, port {where.port}: {error.strerror or error}",
            "choose another port with --port; --port 0 takes any free one",
        ) from error
    feed.start()
    try:
        announce(where, port, access.token)
        await ended.wait()
    finally:
        await server.stop()
        await asyncio.to_thread(feed.stop, CLOSE_SECONDS)
    if failures:
        raise failures[0]
    return INTERRUPTED


def announce(where: ServeOptions, port: int, token: str) -> None:
    """Prints the address of the page with the token, which is shown nowhere else."""
    scheme = "http" if where.tls is None else "https"
    ip = ipaddress.ip_address(where.address.partition("%")[0])
    name = socket.gethostname() if ip.is_unspecified else f"[{ip}]" if ip.version == 6 else str(ip)
    say(f"open {scheme}://{name}:{port}/?token={token}")
    if ip.is_loopback:
        say(
            f"from another host: run ssh -L {port}:{name}:{port} {socket.gethostname()} there, then open "
            "the same "
            "address"
        )
    say("everyone who knows this address can see all data of this stalltop; press Ctrl-C to stop")


def refuse_what_is_open(address: str, tls: ssl.SSLContext | None, *, plain: bool) -> None:
    """Raises UsageError if other hosts can reach ``address`` and there is no TLS, so that others could read
    the token and the data on the network. Allows this if ``plain`` (``--insecure-plain``)."""
    from stalltop.serving.access import is_loopback

    if not is_loopback(address) and tls is None and not plain:
        raise UsageError(
            f"{address} is reachable from other hosts, and without TLS others could read the token on "
            "the network",
            "add --cert and --key; or leave --host out and connect by ssh -L; or, on a trusted network, add "
            "--insecure-plain",
        )


def source_of(options: argparse.Namespace) -> Source:
    """Returns the source of windows that all browsers share: this host or sample tenants. Tracing begins at
    the first read."""
    from stalltop.cli.later import Later

    if options.demo is None:
        if options.simulated:
            raise UsageError("--simulated needs --demo")
        return Later(partial(_of_host, HostWindows(options, keeps=History(PAST_BYTES), patient=True)))
    from stalltop.demo.scenario import load_scenario

    scenario = load_scenario(options.demo)
    host = None if options.simulated else HostWindows(options, patient=True, only_join=True)

    def start() -> Source:
        from stalltop.demo.source import demo_source, simulated_source

        if host is None:
            return diagnosed(simulated_source(scenario))
        if host.link is not None:
            return diagnosed(demo_source(scenario, traced=host.source()))
        return diagnosed(demo_source(scenario, monitor_options(options)))

    return Later(start)


def _of_host(host: HostWindows) -> Source:
    source = host.source()
    if host.cannot_trace is not None:
        say(str(host.cannot_trace))
    return source


def screen_flags(options: argparse.Namespace, interval: float) -> list[str]:
    """Returns the options of the screen as arguments for a screen's process."""
    flags = [f"--interval={interval:g}"]
    if "window" in options:
        flags.append(f"--window={SINCE_START if options.window is None else format(options.window, 'g')}")
    if "theme" in options:
        flags.append(f"--theme={options.theme}")
    flags += ["--ascii"] if "ascii" in options else []
    flags += ["--plain"] if "plain" in options else []
    flags += ["--no-mouse"] if "mouse" in options else []
    flags += ["--low-bandwidth"] if "low_bandwidth" in options else []
    flags += [] if options.config else ["--no-config"]
    flags += [] if options.demo is None else ["--demo"]
    return flags
