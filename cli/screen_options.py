"""The options that every command with a screen shares, and how they meet the config file."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stalltop.cli.tracing import number, say
from stalltop.tui.settings.file import config_path, left_path, load, load_left, save_left
from stalltop.tui.settings.settings import AUTO, LEAST_INTERVAL, LENGTHS, MOST_INTERVAL, SINCE_START, THEMES

if TYPE_CHECKING:
    from stalltop.tui.screen_app import RunOptions

LEAVE_SECONDS = 0.15
"""How long leaving waits for the choices to be written. A disk that needs longer costs those of this run."""


def theme(text: str) -> str:
    """An argparse type: the name of a theme; empty for what suits the terminal."""
    if text in ("", AUTO):
        return AUTO
    if text not in THEMES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join((AUTO, *THEMES))}")
    return text


def length(text: str) -> float | None:
    """An argparse type: a length of the window in seconds, or ``start``."""
    if text == SINCE_START:
        return None
    with contextlib.suppress(ValueError):
        if float(text) in LENGTHS:
            return float(text)
    known = ", ".join(f"{one:g}" for one in LENGTHS if one is not None)
    raise argparse.ArgumentTypeError(f"{text!r} is none of {known}, {SINCE_START}")


def add_screen_options(parser: argparse.ArgumentParser) -> None:
    """How the screen looks and how often it changes. What is not given is not among the parsed options."""
    group = parser.add_argument_group("screen (docs/config.md: the same and more in a file)")

    def add(name: str, help_: str, **more: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS, help=help_, **more)

    seconds = number(float, LEAST_INTERVAL, MOST_INTERVAL)
    add("--interval", "time between two looks (default: 1)", type=seconds, metavar="SECONDS")
    add("--window", "what the figures stand for: 1, 10, 60, 300, start (default: 10)", type=length)
    add("--ascii", "draw with ASCII only", action="store_true")
    add("--theme", f"colours: {', '.join((AUTO, *THEMES))}; the key t shows them in turn", type=theme)
    add("--no-mouse", "leave the mouse to the terminal", action="store_false", dest="mouse")
    add("--low-bandwidth", "draw less, for slow lines; the key b does it, too", action="store_true")
    group.add_argument("--no-config", dest="config", action="store_false", help="leave the config file aside")


def run_options(options: argparse.Namespace, **more: Any) -> RunOptions:
    """How the screen runs: by the options, else the config file, else as it was left, else by default.

    Raises UsageError where the config file is wrong.
    """
    from stalltop.tui.screen_app import RunOptions
    from stalltop.tui.settings.theme import many_colours

    fixed = load(config_path()) if options.config else {}
    left, wrong = load_left(left_path()) if options.state else ({}, "")
    if wrong:
        say(wrong)
        more["notes"] = (*more.get("notes", ()), wrong)
    given = {name: value for name, value in vars(options).items() if name in FLAGS}
    began = {**left, **fixed, **given}
    if "theme" not in {**fixed, **given} and not many_colours():
        began["theme"] = AUTO  # it was chosen on a terminal with more of them

    def keep(chosen: Mapping[str, Any]) -> None:
        changed = {
            name: value
            for name, value in chosen.items()
            if name not in fixed and value != getattr(screen, name)
        }
        if changed:
            _write_within(LEAVE_SECONDS, {**left, **changed})

    screen = RunOptions(**began, **more, keep=keep if options.state else None)
    return screen


FLAGS = ("interval", "window", "ascii", "theme", "mouse", "low_bandwidth")
"""Settings that have an option."""


def _write_within(seconds: float, values: Mapping[str, Any]) -> None:
    def write() -> None:
        with contextlib.suppress(OSError):  # nobody is there to be told; the next run starts as this one
            save_left(left_path(), values)

    thread = threading.Thread(target=write, name="stalltop-left", daemon=True)
    thread.start()
    thread.join(seconds)
