"""Trace this host for some seconds, print the result, and exit: for scripts, pipes and a quick check."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial

from stalltop.cli.host import HostWindows
from stalltop.cli.tracing import add_state_options, add_tracing_options, number, say
from stalltop.model.source import Source
from stalltop.model.window import Window

PART_SECONDS = 1.0
"""Seconds between two reads of the source."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "--seconds",
        type=number(float, 0.1, 86400),
        default=3.0,
        help="how long to trace (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/json.md)")
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Traces this host, prints the window and returns 0. If this host cannot be traced, prints a window
    without calls and returns 3."""
    return traced(options, partial(print_window, as_json=options.json))


def traced(options: argparse.Namespace, show: Callable[[Window], None]) -> int:
    """Passes one diagnosed window of this host, of ``options.seconds``, to ``show``. Returns 0. If tracing is
    impossible, passes a window without calls (tenants, devices, host), says why on stderr, and returns 3."""
    host = HostWindows(options)
    source = host.source()
    try:
        if host.link is not None:
            say(f"windows of the tracer of this host: {host.link.tracer.text}")
        if host.cannot_trace is None:
            show(watch(source, float(options.seconds)))
            return 0
        show(source.read())
        say(str(host.cannot_trace))
        return host.cannot_trace.exit_code
    finally:
        source.close()


def watch(source: Source, seconds: float) -> Window:
    """Returns one window of the next ``seconds`` from ``source``. Calls that were counted before are not in
    the window.

    The source is read about once a second, as the screen does: each read frees the BPF map entries of
    processes that have ended, and records the names of these processes.
    """
    from stalltop.model.merge.sliding import Sliding

    source.read()
    began = time.monotonic()
    whole = Sliding(None)
    parts = max(round(seconds / PART_SECONDS), 1)
    for part in range(1, parts + 1):
        time.sleep(max(began + seconds * part / parts - time.monotonic(), 0.0))
        whole.push(source.read())
    return whole.window


def print_window(window: Window, *, as_json: bool) -> None:
    """Prints ``window`` on stdout, as JSON or as text."""
    if as_json:
        import json

        from stalltop.formats.documents.window import document

        json.dump(document(window), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    from stalltop.cli.printing import style
    from stalltop.cli.tellings import tellings
    from stalltop.formats.text.answer import answer_lines
    from stalltop.formats.text.window import LEAST_WIDTH, table

    printed = style().at_least(LEAST_WIDTH)
    sys.stdout.write(table(window, printed, answer_lines(window, window.chains, tellings(), printed)))
