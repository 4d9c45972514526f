"""The command line: ``stalltop [COMMAND] [OPTIONS]``.

stdout carries data, stderr messages. Exit codes: 0 success; 1 error, or a condition of ``--fail-if`` is met;
2 invalid usage; 3 this host cannot be traced; after a signal 128 plus its number: 130 interrupted (Ctrl-C),
143 ended by SIGTERM, 129 by SIGHUP.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import cast

from stalltop.cli.allocator import return_free_memory
from stalltop.cli.fleet.given import fleets_as_files
from stalltop.model.errors import StalltopError, UsageError, described
from stalltop.tui.terminal.interrupts import INTERRUPTED, RequestedEndError, as_keyboard_interrupt
from stalltop.tui.terminal.streams import drop_output

COMMANDS = {
    "live": "show the live screen of this host (also without a command, on a terminal)",
    "once": "trace for some seconds, print the result and exit (also without a command, in a pipe)",
    "explain": "print the problems of this host or of a file, with causes and fixes",
    "check": "check whether this host can be traced, and say what is missing",
    "record": "record this host into one file for weeks, without a screen",
    "demo": "show the live screen with sample tenants; needs no GPU",
    "open": "show a saved window or a recording on the same screen",
    "diff": "compare two saved windows or recordings; with --fail-if, for scripts",
    "export": "convert a saved window or a recording to a table, a trace, histogram logs or a report",
    "query": "query a saved window or a recording in SQL",
    "merge": "merge files of several hosts into one, with corrected clocks",
    "serve": "show the screen in a web page, to browsers on this host or elsewhere",
    "metrics": "serve this host's figures to Prometheus",
    "mcp": "answer a language model's questions about this host (Model Context Protocol)",
    "notify": "tell webhooks, Alertmanager, Slack or a command about problems of this host",
    "agent": "pass this host's windows on to a fleet, through a NATS server",
    "rollup": "merge the windows of a fleet by rack, tenant and operation",
    "fleet": "show many hosts on one screen: worst first, problems by culprit, jobs across hosts",
    "npd": "check this host for Kubernetes' Node Problem Detector, with its exit codes",
    "config": "print the path of the config file, print the settings, or validate the file",
    "completion": "print a script with which bash, zsh or fish completes commands and options",
}
"""Every command with its summary in the help. The module of a command in ``cli.commands`` has the command's
name."""

NEW_OBJECTS = 50_000
"""Number of new objects after which Python's cyclic garbage collector runs (``gc.set_threshold``). With
Python's default of 700, collections that free almost nothing take an eighth of the time that importing the
screen takes."""


class _Version(argparse.Action):
    """The option ``--version``. The version is read only when the option is used, because reading it is
    slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(message=f"stalltop {program_version()}\n")


def parser(commands: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """Builds the parser of the command line. Adds only the options of ``commands``, because importing all
    commands is slow."""
    top = argparse.ArgumentParser(
        prog="stalltop",
        description="Live terminal monitor for GPU stalls: which tenants are slow, in which calls, and why.",
        epilog="Without COMMAND, stalltop runs live on a terminal and once elsewhere, with the options "
        "of that "
        "command (stalltop live --help). Exit codes: 0 success, 1 error (see stderr), 2 invalid usage, 3 "
        "this host "
        "cannot be traced, 130 interrupted, 143 ended by SIGTERM, 129 by SIGHUP.",
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
    """Parses the arguments of a command. Errors about unknown options show the usage of that command."""
    arguments = _joined(arguments)
    options, unknown = parser(arguments[:1]).parse_known_args(arguments)
    if unknown:
        # An option may be between two positional arguments, which argparse accepts only in this mode.
        own = options.parser.parse_intermixed_args(arguments[arguments.index(options.command) + 1 :])
        own.command = options.command
        return cast(argparse.Namespace, own)
    return options


def _joined(arguments: Sequence[str]) -> list[str]:
    """Replaces ``--at -2h`` by ``--at=-2h``: argparse treats an argument that begins with a minus as an
    option."""
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
    """Returns the version of the installed package, or of this checkout."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stalltop")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        with open(Path(__file__).resolve().parent.parent / "pyproject.toml", "rb") as file:
            return str(tomllib.load(file)["project"]["version"])


def shows_a_screen() -> bool:
    """Returns True if stdout is a terminal that can show a screen."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def with_command(arguments: Sequence[str], *, terminal: bool) -> list[str]:
    """Inserts the default command (``live`` or ``once``) if ``arguments`` have none.

    Raises UsageError for a misspelled command.
    """
    arguments = list(arguments)
    if arguments and (arguments[0] in COMMANDS or arguments[0] in ("-h", "--help", "-V", "--version")):
        return arguments
    if arguments and arguments[0] == "help":
        return [*arguments[1:2], "--help"]
    if arguments and not arguments[0].startswith("-"):
        close = get_close_matches(arguments[0], COMMANDS, 2, 0.6)
        if close:
            raise UsageError(f'unknown command "{arguments[0]}"', f"did you mean {' or '.join(close)}?")
        return arguments  # the parser's error lists all commands
    return ["live" if terminal else "once", *arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    gc.set_threshold(NEW_OBJECTS)
    if arguments is None:
        _take_name()
        return_free_memory()
    _open_standard_streams()
    try:
        given = with_command(sys.argv[1:] if arguments is None else arguments, terminal=shows_a_screen())
        if arguments is None:
            _give_up_rights(given)
        options = parsed(given)
        with as_keyboard_interrupt(), fleets_as_files(options):
            code = int(options.run(options))
        sys.stdout.flush()
        return code
    except StalltopError as told:
        return _told(str(told), told.exit_code)
    except RequestedEndError as asked:
        return asked.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe (`| head`)
        drop_output()
        return 0
    except Exception as error:
        if sys.flags.dev_mode:  # python -X dev -m stalltop: shows the traceback, for debugging
            raise
        text = described(error)
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            text = f"cannot open a file: {error.strerror}\n  raise the limit and start again: ulimit -n 4096"
        _told(text, StalltopError.exit_code)
        if isinstance(error, OSError):
            drop_output()  # otherwise Python would report a failed write to stdout again at exit
        return StalltopError.exit_code


def _take_name() -> None:
    """Names this process ``stalltop`` instead of ``python``: where stalltop itself takes CPU time, problems
    and tables show this name."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as name:
        name.write("stalltop")


def _give_up_rights(arguments: Sequence[str]) -> None:
    """Gives up the capabilities that no command needs, except those that start sample tenants.

    Rights belong to threads, so this comes before numpy is imported, which may start threads.
    """
    if arguments[:1] == ["demo"] or any(argument.partition("=")[0] == "--demo" for argument in arguments):
        return
    from stalltop.probes.privileges import BY_HAND, capabilities, keep_capabilities

    with contextlib.suppress(OSError):
        if capabilities():
            keep_capabilities(BY_HAND)


def _told(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"stalltop: {text}", file=sys.stderr)  # noqa: T201
    return code


def _open_standard_streams() -> None:
    """Opens /dev/null for standard streams that are closed (``>&-``). Otherwise files that are opened later
    would get the descriptors 0, 1 and 2."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open() returns the lowest free descriptor: ``number``
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
