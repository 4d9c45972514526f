"""Options of all commands with a screen, and their combination with the config file."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stalltop.cli.tellings import tellings
from stalltop.cli.tracing import number, say
from stalltop.tui.settings.file import config_path, left_path, load, load_left, save_left
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.settings.settings import AUTO, LEAST_INTERVAL, LENGTHS, MOST_INTERVAL, SINCE_START

if TYPE_CHECKING:
    from stalltop.tui.screens.run_options import RunOptions

LEAVE_SECONDS = 0.15
"""Seconds that stalltop waits at exit for the settings to be written. If the disk is slower, the settings
that were changed in this run are lost."""


def theme(text: str) -> str:
    """An argparse type: the name of a theme; '' means ``auto``."""
    if text in ("", AUTO):
        return AUTO
    if text not in THEME_NAMES:
        raise argparse.ArgumentTypeError(
            f"unknown theme {text!r}; use one of {', '.join((AUTO, *THEME_NAMES))}"
        )
    return text


def length(text: str) -> float | None:
    """An argparse type: a length of the window in seconds, or ``start``, which yields None."""
    if text == SINCE_START:
        return None
    with contextlib.suppress(ValueError):
        if float(text) in LENGTHS:
            return float(text)
    known = ", ".join(f"{one:g}" for one in LENGTHS if one is not None)
    raise argparse.ArgumentTypeError(f"{text!r} is not a window length; use one of {known}, {SINCE_START}")


def add_screen_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the screen. Options for settings (``FLAGS``) that the user does not give are absent
    from the parsed options."""
    group = parser.add_argument_group("screen (these and more settings can be in a file: docs/config.md)")

    def add(name: str, help_: str, **more: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS, help=help_, **more)

    seconds = number(float, LEAST_INTERVAL, MOST_INTERVAL)
    add("--interval", "time between two samples (default: 1)", type=seconds, metavar="SECONDS")
    add(
        "--window",
        "seconds that the figures cover: 1, 10, 60, 300, or start for all since the start (default: 10)",
        type=length,
    )
    add("--ascii", "draw with ASCII only", action="store_true")
    add("--plain", "draw no frames around the panels", action="store_true")
    add("--theme", f"colours: {', '.join((AUTO, *THEME_NAMES))}; the key t switches between them", type=theme)
    add("--no-mouse", "leave the mouse to the terminal", action="store_false", dest="mouse")
    add("--low-bandwidth", "draw less, for slow connections; also the key b", action="store_true")
    group.add_argument("--no-config", dest="config", action="store_false", help="ignore the config file")


def run_options(options: argparse.Namespace, **more: Any) -> RunOptions:
    """Combines the settings of the screen, by precedence: options, config file, state of the last run,
    defaults.

    Raises UsageError if the config file is invalid.
    """
    from stalltop.tui.screens.run_options import RunOptions
    from stalltop.tui.settings.theme import many_colours

    fixed = load(config_path()) if options.config else {}
    left, wrong = load_left(left_path()) if options.state else ({}, "")
    if wrong:
        say(wrong)
        more["notes"] = (*more.get("notes", ()), wrong)
    given = {name: value for name, value in vars(options).items() if name in FLAGS}
    began = {**left, **fixed, **given}
    if "theme" not in {**fixed, **given} and not many_colours():
        began["theme"] = AUTO  # the last run's theme may need more colours than this terminal has

    def keep(chosen: Mapping[str, Any]) -> None:
        changed = {
            name: value
            for name, value in chosen.items()
            if name not in fixed and value != getattr(screen, name)
        }
        if changed:
            _write_within(LEAVE_SECONDS, {**left, **changed})

    screen = RunOptions(**began, **more, tellings=tellings, keep=keep if options.state else None)
    return screen


FLAGS = ("interval", "window", "ascii", "plain", "theme", "mouse", "low_bandwidth")
"""Settings that have an option on the command line."""


def _write_within(seconds: float, values: Mapping[str, Any]) -> None:
    def write() -> None:
        # The screen is closed, so an error is not shown. The next run starts with the old settings.
        with contextlib.suppress(OSError):
            save_left(left_path(), values)

    thread = threading.Thread(target=write, name="stalltop-left", daemon=True)
    thread.start()
    thread.join(seconds)
