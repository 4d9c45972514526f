"""The command line: ``stalltop [COMMAND] [OPTIONS]``.

stdout carries data, stderr narration. Exit codes: 0 ok; 1 failed as said; 2 bad usage; 3 cannot trace here;
130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from model.errors import Told

COMMANDS = {
    "live": "the live screen (also without a command, on a terminal)",
    "once": "trace for some seconds, print and exit (also without a command, in a pipe)",
    "check": "say what this host offers for tracing and what is missing",
    "demo": "the live screen on sample tenants; needs no GPU",
    "open": "look at a saved window on the same screen",
}
"""Every command with what the help says of it; each is a module of that name in ``tui.commands``."""

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The whole command line as a parser."""
    top = argparse.ArgumentParser(
        prog="stalltop",
        description="Live terminal monitor for GPU stalls: who is slow, in which call, and how much.",
        epilog="exit codes: 0 ok, 1 failed as said, 2 bad usage, 3 cannot trace here, 130 interrupted",
        allow_abbrev=False,
    )
    top.add_argument("-V", "--version", action="version", version=f"stalltop {program_version()}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        module = importlib.import_module(f"tui.commands.{name}")
        sub = commands.add_parser(name, help=summary, description=module.__doc__, allow_abbrev=False)
        module.add_options(sub)
        sub.set_defaults(run=module.run)
    return top


def program_version() -> str:
    """The installed version, or that of this checkout."""
    try:
        return version("stalltop")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        with open(Path(__file__).parent.parent / "pyproject.toml", "rb") as file:
            return str(tomllib.load(file)["project"]["version"])


def with_command(arguments: Sequence[str], *, terminal: bool) -> list[str]:
    """``arguments`` with the command that is meant where none is named."""
    arguments = list(arguments)
    if arguments and (arguments[0] in COMMANDS or arguments[0] in ("-h", "--help", "-V", "--version")):
        return arguments
    if arguments and not arguments[0].startswith("-"):
        return arguments  # no such command: the parser says which there are
    return ["live" if terminal else "once", *arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    terminal = sys.stdout.isatty()
    options = parser().parse_args(
        with_command(sys.argv[1:] if arguments is None else arguments, terminal=terminal)
    )
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except Told as told:
        print(f"stalltop: {told}", file=sys.stderr)  # noqa: T201
        return told.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has had enough (`| head`): say nothing more, not even in the interpreter's own flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
