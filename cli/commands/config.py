"""Print the path of the screen's config file, print the settings, or validate the file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stalltop.cli.tracing import say
from stalltop.model.errors import UsageError
from stalltop.tui.settings.file import config_path, faults_of, load
from stalltop.tui.settings.settings import SETTINGS, Settings, toml


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "what",
        choices=("path", "print", "validate"),
        metavar="path|print|validate",
        help="path: print the path of the config file; print: print all settings in effect, in the "
        "format of the "
        "file; validate: print the errors of the file",
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="config file (default: see stalltop config path)"
    )


def run(options: argparse.Namespace) -> int:
    """Prints the path or the settings to stdout, or the errors of the file to stderr; returns 0, or 2 if the
    file is invalid."""
    path: Path = options.file or config_path()
    if options.what == "path":
        sys.stdout.write(f"{path}\n")
        return 0
    if options.what == "print":
        settings = Settings(**load(path))
        sys.stdout.write(toml({name: getattr(settings, name) for name in SETTINGS}, about=True))
        return 0
    faults = faults_of(path)
    for fault in faults:
        say(f"{path}, {fault}" if fault.line else f"{path}: {fault}")
    if faults:
        return UsageError.exit_code
    sys.stdout.write(f"{path}: no errors\n")
    return 0
