"""Look at a saved window on the same screen as the live one: sort, pivot, filter, drill down."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from model.window import Window
from tui.commands.once import print_window
from tui.commands.screen_options import add_screen_options, run_options
from tui.commands.tracing import add_state_options


class Still:
    """A source that has one window and gives it at every read."""

    def __init__(self, window: Window) -> None:
        self._window = window

    def read(self) -> Window:
        """The window, unchanged."""
        return self._window

    def close(self) -> None:
        """Nothing is held."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a file that the key w or an earlier run saved"
    )
    parser.add_argument("--json", action="store_true", help="print the window as JSON instead of showing it")
    add_screen_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show the saved window, or print it where stdout is not a terminal."""
    from store.reading import load

    window = load(options.file)
    if options.json or not sys.stdout.isatty():
        print_window(window, as_json=options.json)
        return 0
    from tui.app import run

    return run(Still(window), run_options(options, still=True))
