"""Say what this host offers for tracing, what is missing, and what to do about it; changes nothing."""

from __future__ import annotations

import argparse
import json
import sys

from model.errors import CannotTrace


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    """Print the findings; 0 where this host can be traced, 3 where it cannot."""
    from model.finding import can_trace
    from outputs.readiness import document, text
    from probes.readiness import check
    from probes.surroundings import this_host
    from tui.commands.printing import style

    findings = check(this_host())
    if options.json:
        json.dump(document(findings), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(text(findings, **style()._asdict()))
    return 0 if can_trace(findings) else CannotTrace.exit_code
