"""Trace for some seconds, print what was seen, and exit: for scripts, pipes and a quick look."""

from __future__ import annotations

import argparse
import sys
import time

from model.source import Source
from model.window import Window
from tui.commands.tracing import add_tracing_options, diagnosed, monitor_options, number

PART_SECONDS = 1.0
"""How often the source is read meanwhile."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--seconds",
        type=number(float, 0.1, 86400),
        default=3.0,
        help="how long to trace (default: %(default)g)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/json.md)")
    add_tracing_options(parser)


def run(options: argparse.Namespace) -> int:
    """Trace this host and print; 3 where tracing is impossible, after printing what is known all the same."""
    from probes.monitor import Monitor

    monitor = Monitor(monitor_options(options))
    try:
        if monitor.cannot_trace is None:
            print_window(watch(diagnosed(monitor), float(options.seconds)), as_json=options.json)
            return 0
        print_window(monitor.read(), as_json=options.json)
        print(f"stalltop: {monitor.cannot_trace}", file=sys.stderr)  # noqa: T201
        return monitor.cannot_trace.exit_code
    finally:
        monitor.close()


def watch(source: Source, seconds: float) -> Window:
    """One window of ``seconds`` from ``source``; what was counted before it began is left out.

    Read about once a second, as by the screen: processes that end meanwhile give back what they hold in the
    kernel and keep their names.
    """
    from model.sliding import Sliding

    source.read()
    began = time.monotonic()
    whole = Sliding(None)
    parts = max(round(seconds / PART_SECONDS), 1)
    for part in range(1, parts + 1):
        time.sleep(max(began + seconds * part / parts - time.monotonic(), 0.0))
        whole.push(source.read())
    return whole.window


def print_window(window: Window, *, as_json: bool) -> None:
    """Print ``window`` on stdout, for a program or for a person."""
    if as_json:
        import json

        from outputs.document import document

        json.dump(document(window), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    from outputs.text import table
    from tui.commands.printing import style

    sys.stdout.write(table(window, **style()._asdict()))
