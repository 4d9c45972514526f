"""Check this host for Kubernetes' Node Problem Detector: a plug-in for its custom plug-in monitor
(docs/alerts.md).

Prints one line, and ends with 0 if there is no problem, 1 if there is one, and 2 if that is not known, such
as without a tracer on this host. Never traces by itself.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from stalltop.cli.host import HostWindows
from stalltop.cli.tracing import add_state_options, add_tracing_options
from stalltop.model.chain import SEVERITIES, Chain, worst_first
from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    from stalltop.model.window import Window

OK: Final = 0
NOT_OK: Final = 1
UNKNOWN: Final = 2
"""Exit codes of the protocol: https://github.com/kubernetes/node-problem-detector,
docs/custom_plugin_monitor.md."""
MOST_CHARACTERS: Final = 80
"""Longest line that the Node Problem Detector takes by default (max_output_length)."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "--severity",
        choices=SEVERITIES[:-1],
        default="high",
        help="least severity of a problem (default: %(default)s)",
    )
    parser.add_argument(
        "--cause",
        action="append",
        default=[],
        metavar="CAUSE",
        help="only problems of this cause (docs/causes.md), such as gpu_xid; may be repeated",
    )
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Prints the worst problem of the newest window of this host's tracer, and returns the exit code."""
    from stalltop.diagnosis.causes import CAUSES

    unknown = sorted(set(options.cause) - set(CAUSES))
    if unknown:
        raise UsageError(f"no cause is called {unknown[0]!r}", "docs/causes.md lists all")
    try:
        window = newest(options)
        code, line = judged(window, options.severity, frozenset(options.cause))
    except StalltopError as error:
        code, line = UNKNOWN, str(error).splitlines()[0]
    sys.stdout.write(f"{line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + '…'}\n")
    return code


def newest(options: argparse.Namespace) -> Window:
    """Returns the next window of the tracer. Raises StalltopError if there is none."""
    host = HostWindows(options, only_join=True)
    if host.link is None:
        raise StalltopError("no stalltop traces this host")
    source = host.source()
    try:
        return source.read()
    finally:
        source.close()


def judged(window: Window, severity: str, causes: frozenset[str]) -> tuple[int, str]:
    """Returns exit code and line for a window. ``causes``: only these; empty: all."""
    if window.coverage.tracing:
        return UNKNOWN, window.coverage.tracing
    least = SEVERITIES.index(severity)
    found = sorted(
        (
            chain
            for chain in window.chains
            if chain.open
            and SEVERITIES.index(chain.severity) <= least
            and (not causes or chain.cause in causes)
        ),
        key=worst_first,
    )
    return (NOT_OK, told(found)) if found else (OK, "no problem")


def told(chains: list[Chain]) -> str:
    """Returns the worst problem in a few words."""
    more = f" (+{len(chains) - 1})" if len(chains) > 1 else ""
    return f"{chains[0].cause}: {chains[0].summary or chains[0].title}{more}"
