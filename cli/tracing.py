"""Options of all commands that trace, and functions that these commands share."""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.files.host_places import HOST_CONFIG, TRACER_SOCKET

if TYPE_CHECKING:
    from stalltop.model.progress import Progress
    from stalltop.model.source import Source
    from stalltop.probes.options import MonitorOptions
    from stalltop.probes.tracer.kernel_side import KernelSide

BUDGET = "2%"
MEMORY = 256 << 20
LEAST_MEMORY = 128 << 20
"""Maps of fixed size take 103 MiB of it on a host with few CPUs."""
MOST_MEMORY = 4 << 30
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
BEGIN_SECONDS = 1.0
"""``begun`` waits at most this many seconds for the thread that loads the BPF programs. Waiting delays the
screen."""


def number(kind: type[int] | type[float], least: float, most: float) -> type:
    """An argparse type: a number within bounds, both included."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is out of range: use {least:g} to {most:g}")
        return value

    return read  # type: ignore[return-value]  # argparse takes any callable


def size(least: int, most: int) -> Callable[[str], int]:
    """An argparse type: a size such as ``500M`` or ``1.5GiB``, converted to bytes, within bounds."""

    def read(text: str) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not a size; examples: 500M, 2GiB")
        value = int(float(found[1]) * _SIZES[found[2].upper()])
        if not least <= value <= most:
            bounds = f"{least >> 20}MiB to {most >> 30}GiB"
            raise argparse.ArgumentTypeError(f"{text} is out of range: use {bounds}")
        return value

    return read


def add_tracing_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how to trace."""
    group = parser.add_argument_group("tracing")
    group.add_argument(
        "--attach",
        choices=("auto", "multi", "perf"),
        help="how to attach probes: multi (uprobe_multi links, Linux 6.6 or newer), perf (one perf event "
        "per probe), "
        "or auto, which takes the first that works (default: auto)",
    )
    group.add_argument(
        "--memory",
        type=size(LEAST_MEMORY, MOST_MEMORY),
        metavar="SIZE",
        help="the most memory for histograms and all other maps in the Linux kernel, taken as calls need "
        "it: 1 to 3 KiB for each operation of a process (default: 256M)",
    )
    group.add_argument(
        "--budget",
        type=_budget,
        metavar="PERCENT",
        help="the most CPU time that probes may take in any process, in percent of one CPU. The limit of the "
        "whole host is a quarter of PERCENT of all CPUs, but at least twice PERCENT of one CPU (by default "
        "4%%). Above it, calls made inside other traced calls are no longer counted; off: no limit "
        "(default: 2%%)",
    )
    group.add_argument(
        "--sample",
        action="store_true",
        help="if that does not suffice to stay within the budget, count calls of the busiest functions for 1 "
        "second in 10, or not at all",
    )
    group.add_argument(
        "--stacks",
        choices=("off", "slow", "all"),
        help="of which calls to read the stack, which shows the line of source code that made them: of none, "
        "of slow calls and calls that do not return, or of all captured calls; except with off, threads are "
        "sampled between calls, too (default: slow)",
    )
    group.add_argument(
        "--own",
        action="store_true",
        help="trace by itself even if this host has a tracer; probes then cost the traced programs twice",
    )
    group.add_argument(
        "--socket",
        type=Path,
        metavar="PATH",
        help=f"socket of the tracer of this host (default: {TRACER_SOCKET}, or as in {HOST_CONFIG})",
    )


def tracer_settings(options: argparse.Namespace) -> tuple[str, ...]:
    """Returns the options that were given and that only a tracer obeys."""
    given = {
        "--attach": options.attach is not None,
        "--memory": options.memory is not None,
        "--budget": options.budget is not None,
        "--sample": options.sample,
        "--stacks": options.stacks is not None,
    }
    return tuple(name for name, is_given in given.items() if is_given)


def _budget(text: str) -> str:
    """An argparse type: a percentage or ``off``."""
    from stalltop.probes.budget.limits import percent_of

    try:
        percent_of(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a percentage from 0 to 100 nor off") from None
    return text


def monitor_options(options: argparse.Namespace) -> MonitorOptions:
    """Converts the options to those of the monitor. On a terminal, the monitor's steps that take seconds are
    reported."""
    from stalltop.model.progress import Progress
    from stalltop.probes.budget.limits import Budget, percent_of
    from stalltop.probes.options import MonitorOptions

    class NarratedProgress(Progress):
        def begin(self, text: str, usual_seconds: float = 0.0) -> None:
            super().begin(text, usual_seconds)
            if usual_seconds and sys.stderr.isatty():  # explains the delay to the user
                say(f"{text} (about {max(usual_seconds, 1.0):.0f} s)")

    percent = percent_of(options.budget or BUDGET)
    return MonitorOptions(
        attach=options.attach or "auto",
        memory=int(options.memory or MEMORY),
        budget=None if percent is None else Budget.of_host(percent, sample=options.sample),
        progress=NarratedProgress(),
        stacks=options.stacks or "slow",
    )


def begun(options: argparse.Namespace, progress: Progress) -> MonitorOptions:
    """Starts to load the BPF programs in a thread; returns options for a monitor that uses the result.

    Returns as soon as that thread waits for the Linux kernel or the compiler. Before that, the thread runs
    Python code, and both threads would slow each other down (GIL).
    """
    from stalltop.cli.later import Ahead

    def make() -> KernelSide:
        try:
            return replace(monitor_options(options), progress=progress).begin()
        finally:
            progress.end()

    ahead = Ahead(make)
    progress.wait(BEGIN_SECONDS)
    return replace(monitor_options(options), progress=progress, kernel=ahead.take)


def add_state_options(parser: argparse.ArgumentParser) -> None:
    """Adds ``--no-state``, for the commands that diagnose this host or show a screen."""
    parser.add_argument(
        "--no-state",
        dest="state",
        action="store_false",
        help="neither read nor write the state kept between runs: the baseline of this host and the "
        "settings of the "
        "screen",
    )


def say(line: str) -> None:
    """Prints a message for the user on stderr."""
    print(f"stalltop: {line}", file=sys.stderr)  # noqa: T201


def diagnosed(source: Source, *, keep: bool = False, tell: Callable[[str], object] = say) -> Source:
    """Adds diagnosis to ``source``: its windows contain chains.

    With ``keep``, the baseline of this host is read from earlier runs and saved for later ones. If that
    fails, ``tell`` is called with a line about it.
    """
    from stalltop.diagnosis.diagnosed import Diagnosed
    from stalltop.diagnosis.engine import Diagnosis

    if not keep:
        return Diagnosed(source, Diagnosis(own_pid=os.getpid()))
    from stalltop.cli.normals import BaselineKeeper, load
    from stalltop.files.normals_file import normals_path

    path = normals_path(socket.gethostname())
    normals, writable = load(path, tell)
    made = Diagnosed(source, Diagnosis(own_pid=os.getpid(), normals=normals))
    return BaselineKeeper(made, normals, path) if writable else made
