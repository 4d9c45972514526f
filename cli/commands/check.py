"""Check whether this host can be traced. Prints what is missing and what to do about it; changes nothing."""

from __future__ import annotations

import argparse
import json
import sys

from stalltop.model.errors import TracingError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="also measure the duration of each NVML call on this host (3 s)",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the findings; returns 0 if this host can be traced, else 3."""
    from stalltop.cli.printing import style
    from stalltop.formats.text import call_costs
    from stalltop.formats.text.readiness import document, text
    from stalltop.model.finding import can_trace
    from stalltop.probes.readiness.checks import check
    from stalltop.probes.readiness.surroundings import nvml_costs, this_host

    findings = check(this_host())
    costs = nvml_costs() if options.verbose else ()
    if options.json:
        told = document(findings)
        if options.verbose:
            told["nvml_calls"] = call_costs.document(costs)
        json.dump(told, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        shape = style()
        sys.stdout.write(text(findings, shape))
        if options.verbose:
            sys.stdout.write(call_costs.text(costs, width=shape.width, glyphs=shape.glyphs))
    return 0 if can_trace(findings) else TracingError.exit_code
