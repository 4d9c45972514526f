"""The command line: ``stalltop [COMMAND] [OPTIONS]``.

stdout carries data, stderr narration. Exit codes: 0 ok; 1 failed as said; 2 bad usage; 3 cannot trace here;
130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import cast

from stalltop.model.errors import StalltopError, UsageError, described
from stalltop.tui.terminal.interrupts import INTERRUPTED, as_keyboard_interrupt
from stalltop.tui.terminal.streams import drop_output

COMMANDS = {
    "live": "the live screen (also without a command, on a terminal)",
    "once": "trace for some seconds, print and exit (also without a command, in a pipe)",
    "explain": "say what is wrong on this host, or in a saved window, why, and what helps",
    "check": "say what this host offers for tracing and what is missing",
    "record": "record this host into one file for weeks, without a screen",
    "demo": "the live screen on sample tenants; needs no GPU",
    "open": "look at a saved window or a recording on the same screen",
    "diff": "what became slower or faster between two saved windows or recordings; fails a script if told to",
    "export": "write a saved window or a recording as a table, a trace, histogram logs or a report",
    "query": "ask a saved window or a recording in SQL",
    "merge": "put files of several hosts into one, on one clock",
    "serve": "the same screen in a web page, for browsers on this host or elsewhere",
    "config": "where the settings of the screen are, what is in force, and what is wrong with them",
}
"""Every command with what the help says of it; each is a module of that name in ``cli.commands``."""


class _Version(argparse.Action):
    """``--version``: looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(message=f"stalltop {program_version()}\n")


def parser(commands: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line as a parser. Only ``commands`` get their options, which takes importing them."""
    top = argparse.ArgumentParser(
        prog="stalltop",
        description="Live terminal monitor for GPU stalls: who is slow, in which call, and how much.",
        epilog="Without COMMAND: live on a terminal, once elsewhere, with that command's options "
        "(stalltop live --help). Exit codes: 0 ok, 1 failed as said, 2 bad usage, 3 cannot trace here, "
        "130 interrupted.",
        allow_abbrev=False,
    )
    top.add_argument(
        "-V", "--version", action=_Version, nargs=0, help="show the version of the program and exit"
    )
    named = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sub = named.add_parser(name, help=summary, allow_abbrev=False)
        if name in commands:
            module = importlib.import_module(f"stalltop.cli.commands.{name}")
            sub.description = module.__doc__
            module.add_options(sub)
            sub.set_defaults(run=module.run, parser=sub)
    return top


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of one command. What it does not know is told in its own name, with its own usage."""
    arguments = _joined(arguments)
    options, unknown = parser(arguments[:1]).parse_known_args(arguments)
    if unknown:
        # It may be that an option stands between two arguments, which argparse takes as it is only if asked.
        own = options.parser.parse_intermixed_args(arguments[arguments.index(options.command) + 1 :])
        own.command = options.command
        return cast(argparse.Namespace, own)
    return options


def _joined(arguments: Sequence[str]) -> list[str]:
    """``--at -2h`` as ``--at=-2h``: argparse would take what begins with a sign for an option."""
    joined: list[str] = []
    for argument in arguments:
        option = joined[-1] if joined else ""
        signed = argument.startswith("-") and argument[1:2].isdecimal()
        if signed and option.startswith("--") and len(option) > 2 and "=" not in option:
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def program_version() -> str:
    """The installed version, or that of this checkout."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stalltop")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        with open(Path(__file__).resolve().parent.parent / "pyproject.toml", "rb") as file:
            return str(tomllib.load(file)["project"]["version"])


def shows_a_screen() -> bool:
    """Whether stdout is a terminal that can show more than lines."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def with_command(arguments: Sequence[str], *, terminal: bool) -> list[str]:
    """``arguments`` with the command that is meant where none is named.

    Raises UsageError for what is nearly one.
    """
    arguments = list(arguments)
    if arguments and (arguments[0] in COMMANDS or arguments[0] in ("-h", "--help", "-V", "--version")):
        return arguments
    if arguments and arguments[0] == "help":
        return [*arguments[1:2], "--help"]
    if arguments and not arguments[0].startswith("-"):
        close = get_close_matches(arguments[0], COMMANDS, 2, 0.6)
        if close:
            raise UsageError(f'there is no command "{arguments[0]}"', f"did you mean {' or '.join(close)}?")
        return arguments  # the parser says which there are
    return ["live" if terminal else "once", *arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_standard_streams()
    try:
        options = parsed(
            with_command(sys.argv[1:] if arguments is None else arguments, terminal=shows_a_screen())
        )
        with as_keyboard_interrupt():
            code = int(options.run(options))
        sys.stdout.flush()
        return code
    except StalltopError as told:
        return _told(str(told), told.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has had enough (`| head`)
        drop_output()
        return 0
    except Exception as error:
        if sys.flags.dev_mode:  # python -X dev -m stalltop: all of it, for whoever looks for the mistake
            raise
        text = described(error)
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            text = "no more files can be opened here\n  allow more: ulimit -n 4096"
        _told(text, StalltopError.exit_code)
        if isinstance(error, OSError):
            drop_output()  # it may be that stdout takes nothing, and would say so again at the end
        return StalltopError.exit_code


def _told(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"stalltop: {text}", file=sys.stderr)  # noqa: T201
    return code


def _open_standard_streams() -> None:
    """Let streams that were closed (``>&-``) lead nowhere: else later files were taken for them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
