"""The config file of the screen: say where it is, print what is in force, or check a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stalltop.cli.tracing import say
from stalltop.model.errors import UsageError
from stalltop.tui.settings.file import config_path, faults_of, load
from stalltop.tui.settings.settings import SETTINGS, Settings, toml


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "what",
        choices=("path", "print", "validate"),
        metavar="path|print|validate",
        help="path: where the file is looked for; print: the settings that are in force, as such a file; "
        "validate: say what is wrong in it",
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="another file than the usual one")


def run(options: argparse.Namespace) -> int:
    """Print on stdout; 2 where the file is wrong."""
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
    sys.stdout.write(f"{path}: nothing is wrong\n")
    return 0
