"""Print the problems of this host, or of a saved window or recording: each from its effect to its root cause,
with remedies."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from stalltop.cli.commands.once import traced
from stalltop.cli.tracing import add_state_options, add_tracing_options, number
from stalltop.cli.whole_file import chains_of, whole_file
from stalltop.model.chain import Chain
from stalltop.model.window import Window


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="a saved window or a recording (default: trace this host now)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/json.md)")
    parser.add_argument(
        "--seconds",
        type=number(float, 0.1, 86400),
        default=5.0,
        help="how long to trace this host (default: %(default)g)",
    )
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Prints every problem found; returns 0, also if there is none, or 3 if this host cannot be traced."""
    if options.file is not None:
        _print(*whole_file(options.file), as_json=options.json)
        return 0
    return traced(options, partial(_print_now, as_json=options.json))


def _print_now(window: Window, *, as_json: bool) -> None:
    _print(window, chains_of(window), as_json=as_json)


def _print(window: Window, chains: Sequence[Chain], *, as_json: bool) -> None:
    from stalltop.cli.printing import style
    from stalltop.cli.tellings import tellings
    from stalltop.formats.documents.explain import explain_document
    from stalltop.formats.text.answer import answer_lines
    from stalltop.formats.text.explain import explain_text
    from stalltop.formats.text.window import LEAST_WIDTH

    if as_json:
        json.dump(explain_document(window, chains), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        printed = style().at_least(LEAST_WIDTH)
        answer = answer_lines(window, chains, tellings(), printed)
        sys.stdout.write(explain_text(window, chains, printed, answer))
