"""Options and set-up for sending by OTLP."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from stalltop.cli.tracing import number, say
from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    from stalltop.serving.otlp.output import OtlpOutput

HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
ATTRIBUTES: Final = "OTEL_RESOURCE_ATTRIBUTES"
"""Variables of the environment that all programs with OpenTelemetry read."""
STOP_SECONDS: Final = 5.0
"""Longest wait at exit for a receiver; what it does not take by then stays on disk."""
_FOLDER: Final = "otlp"
"""Name of the folder in the state directory with the queues."""


def add_otlp_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    group = parser.add_argument_group("OpenTelemetry")
    group.add_argument(
        "--otlp",
        type=web_address,
        metavar="URL",
        help="send metrics, and problems as log records, to this OTLP receiver (HTTP, protobuf; without "
        "/v1/metrics) instead of serving them; both if --listen is given, too. Headers: "
        f"{HEADERS}; further attributes of the host: {ATTRIBUTES}",
    )
    group.add_argument(
        "--otlp-interval",
        type=number(float, 1, 3600),
        default=30.0,
        metavar="SECONDS",
        help="time from one request with metrics to the next (default: %(default)g)",
    )


def web_address(text: str) -> str:
    """An argparse type: an http or https URL."""
    from stalltop.tui.settings.host_kinds import is_web_address

    if not is_web_address(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL; example: http://127.0.0.1:4318")
    return text


def pairs(variable: str) -> dict[str, str]:
    """Returns names and values in a variable of the environment: ``name=value,name=value``, with values as in
    URLs. Raises UsageError if it has another form."""
    found = {}
    for part in filter(None, (part.strip() for part in os.environ.get(variable, "").split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        value = unquote(value)
        if not equals or not name or not (name + value).isprintable():
            raise UsageError(
                f"{variable} has a part without a name and a value", "its form is name=value,name=value"
            )
        found[name] = value
    return found


@contextmanager
def otlp_output(options: argparse.Namespace) -> Iterator[OtlpOutput]:
    """Yields what takes windows; at the end waits ``STOP_SECONDS`` for the receiver. Raises StalltopError if
    a package is missing, or another stalltop uses the queues."""
    try:
        import opentelemetry.proto  # noqa: F401
    except ImportError:
        raise StalltopError(
            "--otlp needs the Python package opentelemetry-proto, which is not installed",
            "in a checkout, ./stalltop metrics --otlp installs it; "
            "elsewhere: pipx inject stalltop opentelemetry-proto",
        ) from None
    from stalltop.cli.main import program_version
    from stalltop.files.places import state_directory
    from stalltop.files.private_file import locked
    from stalltop.formats.otlp.answers import refused
    from stalltop.serving.otlp.exporter import OtlpExporter
    from stalltop.serving.otlp.output import OtlpOutput

    headers, given = pairs(HEADERS), pairs(ATTRIBUTES)
    with TemporaryDirectory(prefix="stalltop-otlp-") as none:
        folder = state_directory() / _FOLDER if options.state else Path(none)
        from stalltop.files.owner import make_folders

        make_folders(folder)
        try:
            with locked(folder / "lock"):
                exporter = OtlpExporter(options.otlp, folder, headers, refused, say)
                waiting = exporter.waiting
                if waiting:
                    say(f"{waiting} requests of earlier runs wait for the receiver")
                exporter.start()
                output = OtlpOutput(
                    exporter,
                    program_version(),
                    given,
                    series=int(options.series),
                    seconds=options.otlp_interval,
                )
                try:
                    yield output
                finally:
                    output.finish()
                    exporter.stop(STOP_SECONDS)
                    if exporter.waiting and options.state:
                        say(f"{exporter.waiting} requests wait in {folder} for the next run")
        except TimeoutError:
            raise StalltopError(
                f"another stalltop sends by OTLP already, from {folder}",
                "end it first, or give this one a queue of its own: XDG_STATE_HOME=FOLDER, or --no-state",
            ) from None
