"""Serve this host's figures to Prometheus, at http://127.0.0.1:9470/metrics, or send them by OpenTelemetry's
protocol (docs/metrics.md).

Takes the windows of the tracer of this host, or traces by itself if there is none; --record also records
them, in the same process. Runs until a signal ends it, with exit code 0. Addresses that other hosts can reach
need TLS and a token.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.cli.commands.record import add_recording_options, closed, opened, say_begun
from stalltop.cli.ending import read_until, requests
from stalltop.cli.host import host_windows
from stalltop.cli.listening import add_certificate_options, resolved, tls_of
from stalltop.cli.otlp import add_otlp_options, otlp_output
from stalltop.cli.tracing import add_state_options, add_tracing_options, number, say
from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    import ssl

    from stalltop.formats.metrics.points import MetricSink
    from stalltop.model.window import Window
    from stalltop.serving.metrics.endpoint import MetricsEndpoint

LISTEN: Final = "127.0.0.1:9470"
SERIES: Final = 1000
"""Default of ``--series``: an endpoint of about 40,000 samples."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    group = parser.add_argument_group("endpoint")
    add_endpoint_options(group)
    group.add_argument(
        "--series",
        type=number(int, 1, 20_000),
        default=SERIES,
        metavar="N",
        help="combinations of tenant and operation that have series of their own, about 40 samples each; "
        "further ones are added up as other (default: %(default)s)",
    )
    group.add_argument(
        "--native-histograms",
        dest="native",
        action="store_true",
        help="also serve native histograms, with buckets 2.2 %% wide, to a Prometheus that asks for them",
    )
    group.add_argument(
        "--simulated", action="store_true", help="serve figures of simulated tenants instead of this host"
    )
    add_otlp_options(parser)
    add_recording_options(parser, "record in the same process, as `stalltop record` does")
    add_tracing_options(parser)
    add_state_options(parser)


def add_endpoint_options(group: argparse._ActionsContainer) -> None:
    """Adds the options that say where to listen, and who may read."""
    group.add_argument(
        "--listen",
        type=listen_address,
        metavar="ADDRESS:PORT",
        help=f"where to listen; port 0: any free one (default: {LISTEN}, this host only)",
    )
    add_certificate_options(group)
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that each request must have (Authorization: Bearer TOKEN); if there is no "
        "such file, it is made with a new token",
    )


def listen_address(text: str) -> tuple[str, int]:
    """An argparse type: an address or name and a TCP port, such as ``127.0.0.1:9470``, ``[::1]:0`` or
    ``:9470``."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no address with a port; examples: {LISTEN}, [::1]:9470"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def run(options: argparse.Namespace) -> int:
    """Serves, sends or both until a signal ends it, and returns 0. Raises TracingError if this host cannot be
    traced, the source's error if the source fails, and StalltopError if it cannot record."""
    from stalltop.cli.main import program_version
    from stalltop.formats.metrics.exponential import EXPONENTIAL
    from stalltop.formats.metrics.points import pass_on
    from stalltop.formats.metrics.totals import HostTotals

    with ExitStack() as ending:
        takers: list[Callable[[Window], object]] = []
        endpoint = None
        if options.listen or not options.otlp:
            options.listen = options.listen or listen_address(LISTEN)
            totals = HostTotals(int(options.series))
            native = HostTotals(int(options.series), EXPONENTIAL) if options.native else None
            version = program_version()
            endpoint = listening(
                options,
                lambda made: pass_on(totals, version, made),
                None if native is None else lambda made: pass_on(native, version, made),
            )
            ending.callback(endpoint.stop)
            takers += [one.add for one in (totals, native) if one is not None]
        if options.otlp:
            takers.append(ending.enter_context(otlp_output(options)).take)
        recorder = None
        if options.record is not None:
            recorder = opened(options, Path(options.record) if options.record else None)
            ending.callback(closed, recorder)
            takers.append(recorder.add)
        source, leave = host_windows(options, patient=True)
        ending.callback(source.close)
        if recorder is not None:
            recorder.start()
            say_begun(recorder, options)
        with requests(leave) as ended:
            if endpoint is not None:
                endpoint.start()
                announce(options, endpoint.port)
            else:
                say("sending metrics and problems by OTLP; press Ctrl-C to stop")
            read_until(source, lambda window: [take(window) for take in takers], ended)
    return 0


def listening(
    options: argparse.Namespace,
    fill: Callable[[MetricSink], object],
    native: Callable[[MetricSink], object] | None = None,
) -> MetricsEndpoint:
    """Returns the endpoint, which listens, but does not answer yet. ``fill`` passes on the series; ``native``
    those with the buckets of native histograms. Raises UsageError if the address needs TLS or a token that
    was not given."""
    from stalltop.files.token_file import token_in
    from stalltop.serving.access import Access, known_hosts
    from stalltop.serving.metrics.endpoint import EndpointOptions, MetricsEndpoint
    from stalltop.serving.metrics.process import pass_on_process

    host, port = options.listen
    address = resolved(host, "--listen")
    tls = tls_of(options.cert, options.key)
    refuse_what_is_open(address, tls, options.token_file)
    access = Access(known_hosts((socket.gethostname(), host)))
    if options.token_file is not None:
        token, made = token_in(options.token_file)
        access = Access(access.hosts, token)
        if made:
            say(f"made {options.token_file} with a new token; let Prometheus read it (credentials_file)")

    def with_process(fill: Callable[[MetricSink], object]) -> Callable[[MetricSink], None]:
        def both(made: MetricSink) -> None:
            fill(made)
            pass_on_process(made)

        return both

    where = EndpointOptions(address, port, access, options.token_file is not None, tls)
    try:
        return MetricsEndpoint(with_process(fill), where, None if native is None else with_process(native))
    except OSError as error:
        raise StalltopError(
            f"cannot listen on {address}, port {port}: {error.strerror or error}",
            "choose another port with --listen; port 0 takes any free one",
        ) from error


def refuse_what_is_open(address: str, tls: ssl.SSLContext | None, token_file: Path | None) -> None:
    """Raises UsageError if other hosts can reach ``address`` and there is no TLS, or no token."""
    from stalltop.serving.access import is_loopback

    if not is_loopback(address) and (tls is None or token_file is None):
        raise UsageError(
            f"{address} is reachable from other hosts: without TLS and a token, everyone there could read "
            "the metrics",
            "add --cert, --key and --token-file; or leave --listen out and scrape on this host",
        )


def announce(options: argparse.Namespace, port: int) -> None:
    """Prints the address of the metrics."""
    host = options.listen[0] or socket.gethostname()
    scheme = "https" if options.cert else "http"
    say(f"metrics at {scheme}://{f'[{host}]' if ':' in host else host}:{port}/metrics; press Ctrl-C to stop")
