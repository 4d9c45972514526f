"""Compare two saved windows or recordings: which operations became slower or faster, whether the change is
significant, and which problems are new. For scripts, --fail-if sets the exit code by your own conditions."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stalltop.cli.tracing import say
from stalltop.cli.whole_file import whole_file
from stalltop.formats.documents.diff import diff_document
from stalltop.formats.text.chains import name_of
from stalltop.model.chain import Chain
from stalltop.model.comparing.chain_difference import compare_chains
from stalltop.model.comparing.compared_windows import ComparedWindows
from stalltop.model.comparing.condition import FIGURES, Condition, condition
from stalltop.model.comparing.difference import compare
from stalltop.model.comparing.likeness import alike, tenant_names
from stalltop.model.comparing.line_difference import compare_lines
from stalltop.model.errors import UsageError
from stalltop.model.rows.dimensions import COMPARED_BY, Dimension
from stalltop.model.rows.filter import parse
from stalltop.model.window import Window
from stalltop.widgets.drawing.strips import printable


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument("then", type=Path, metavar="A", help="the earlier saved window or recording")
    parser.add_argument("now", type=Path, metavar="B", help="the later saved window or recording")
    parser.add_argument(
        "--by",
        type=_dimensions,
        metavar="DIMENSIONS",
        help=f"compare by these, separated by commas: {', '.join(COMPARED_BY)} (default: "
        "container,operation)",
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="compare only rows that match this filter (docs/keys.md)"
    )
    parser.add_argument(
        "--fail-if",
        type=_condition,
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 1 if a row of B meets the condition, such as 'p99 > 1.5x', 'max > 20ms', 'errors "
        "> 0'; with 'faults > 0', if a problem is new in B; "
        f"may be repeated. Figures: {', '.join(FIGURES)}",
    )
    parser.add_argument(
        "--unsure",
        action="store_true",
        help="with --fail-if, also exit with 1 if a row has too few calls to decide the condition",
    )
    parser.add_argument("--all", action="store_true", help="also print rows that have not changed")
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/diff.md)")


def run(options: argparse.Namespace) -> int:
    """Prints what changed. Returns 1 if a condition of ``--fail-if`` is met, or may be met and ``--unsure``
    is given, or if ``--fail-if`` is given and a file could not be read completely; otherwise 0."""
    files = whole_file(options.then), whole_file(options.now)
    diff = compared(*files, options)
    if options.json:
        json.dump(diff_document(diff), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        from stalltop.cli.printing import style
        from stalltop.formats.text.diff import diff_text
        from stalltop.model.text.style import ENDLESS

        folded = sys.stdout.isatty() or "COLUMNS" in os.environ
        shown = style() if folded else style().at_least(ENDLESS)
        sys.stdout.write(diff_text(diff, shown, all_rows=options.all))
    failed = any(met.sure or (options.unsure and met.unsure) for _, met in diff.conditions)
    for path, (window, _) in zip((options.then, options.now), files, strict=True):
        if options.fail_if and any(gap.what == str(path) for gap in window.coverage.missing):
            say(f"--fail-if fails: a part of {printable(str(path))} could not be read (see above)")
            failed = True
    return 1 if failed else 0


def compared(
    a: tuple[Window, Sequence[Chain]], b: tuple[Window, Sequence[Chain]], options: argparse.Namespace
) -> ComparedWindows:
    """Compares two windows with their chains by the command's options. Raises UsageError for an invalid
    filter."""
    (then, chains_then), (now, chains_now) = a, b
    wanted = parse(options.filter)
    if wanted.error:
        raise UsageError(f"--filter: {wanted.error}")
    windows = [wanted.apply(window) for window in (then, now)]
    by: tuple[Dimension, ...] = options.by or _fitting(*windows)
    found = compare(alike(windows[0]), alike(windows[1]), by)
    difference = found.difference
    # Nested calls are listed after outermost calls. Host gaps come last: they are long, and are not calls.
    kind = 2 * difference.between + difference.nested
    order = np.lexsort((-difference.now.ns_per_s, -difference.weight, kind, ~difference.changed)).tolist()
    faults = compare_chains(
        _about(chains_then, then, windows[0]),
        _about(chains_now, now, windows[1]),
        lambda tenant: name_of(tenant, then),
        lambda tenant: name_of(tenant, now),
    )
    conditions = tuple((one, one.judge(difference, faults)) for one in options.fail_if)
    lines = compare_lines(*windows)
    return ComparedWindows(windows[0], windows[1], by, found, order, faults, conditions, lines)


def _about(chains: Sequence[Chain], whole: Window, part: Window) -> Sequence[Chain]:
    """Returns the ``chains`` that are about rows or tenants of ``part``. ``part`` is ``whole`` after a filter
    was applied."""
    if len(part.rows) == len(whole.rows):
        return chains
    rows, tenants = set(part.rows.keys), {key.tenant for key in part.rows.keys}
    return [
        chain for chain in chains if rows & set(chain.rows) or (not chain.rows and chain.tenant in tenants)
    ]


def _fitting(then: Window, now: Window) -> tuple[Dimension, ...]:
    """Returns the default dimensions: container and operation, or only operation if the two windows have no
    container name in common."""
    names = tenant_names(then), tenant_names(now)
    if names[0] and names[1] and not names[0] & names[1]:
        say(
            "A and B have no container name in common: compared by operation only; choose dimensions "
            "with --by"
        )
        return ("operation",)
    return "container", "operation"


def _dimensions(text: str) -> tuple[Dimension, ...]:
    wanted = text.split(",")
    for name in wanted:
        if name not in COMPARED_BY:
            raise argparse.ArgumentTypeError(f"unknown dimension {name!r}; use {', '.join(COMPARED_BY)}")
    if len(set(wanted)) != len(wanted):
        raise argparse.ArgumentTypeError(f"{text!r} names a dimension twice")
    return tuple(name for wanted_one in wanted for name in COMPARED_BY if name == wanted_one)


def _condition(text: str) -> Condition:
    try:
        return condition(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
