"""The options that every tracing command shares."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stalltop.model.progress import Progress
    from stalltop.model.source import Source
    from stalltop.probes.options import MonitorOptions
    from stalltop.probes.tracer.kernel_side import KernelSide

BEGIN_SECONDS = 1.0
"""How long a screen waits for tracing to begin before it is made."""


def number(kind: type[int] | type[float], least: float, most: float) -> type:
    """An argparse type: a number within bounds, both included."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {most:g}")
        return value

    return read  # type: ignore[return-value]  # argparse takes any callable


def add_tracing_options(parser: argparse.ArgumentParser) -> None:
    """How to trace: for the commands that do."""
    group = parser.add_argument_group("tracing")
    group.add_argument(
        "--attach",
        choices=("auto", "multi", "perf"),
        default="auto",
        help="uprobe_multi links, or a perf event a probe as on kernels before 6.6 (default: what works)",
    )
    group.add_argument(
        "--slots",
        type=number(int, 16, 65536),
        default=4096,
        help="histograms in the kernel, 16 KiB each: one per operation and process (default: %(default)s)",
    )


def monitor_options(options: argparse.Namespace) -> MonitorOptions:
    """The options as the monitor takes them; what takes seconds is said to a person."""
    from stalltop.model.progress import Progress
    from stalltop.probes.options import MonitorOptions

    class Said(Progress):
        def begin(self, text: str, usual_seconds: float = 0.0) -> None:
            super().begin(text, usual_seconds)
            if usual_seconds and sys.stderr.isatty():  # a script does not wonder
                say(f"{text} (some {max(usual_seconds, 1.0):.0f} s)")

    return MonitorOptions(attach=options.attach, slots=int(options.slots), progress=Said())


def begun(options: argparse.Namespace, progress: Progress) -> MonitorOptions:
    """Begin the kernel's part now, beside other work; gives what a monitor goes on with.

    Returns once the kernel or the compiler has work: until then a second thread of Python would only hinder
    the first.
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
    """What is remembered: for the commands that look for causes on this host."""
    parser.add_argument(
        "--no-state",
        dest="state",
        action="store_false",
        help="neither use nor keep what earlier runs left: what is normal here, how the screen was set",
    )


def say(line: str) -> None:
    """Tell the user something beside the data."""
    print(f"stalltop: {line}", file=sys.stderr)  # noqa: T201


def diagnosed(source: Source, *, keep: bool = False, tell: Callable[[str], None] = say) -> Source:
    """``source`` with windows that say what is wrong.

    With ``keep``, what is normal on this host comes from earlier runs and goes to later ones; ``tell`` gets
    a line where that fails.
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
