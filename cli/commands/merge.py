"""Merge files of several hosts into one. Estimates the offsets of their clocks, prints them, and corrects the
times."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from stalltop.cli.progress import ProgressLine
from stalltop.cli.tracing import say
from stalltop.files.complete import PathTakenError
from stalltop.model.errors import UsageError
from stalltop.model.hosts.clocks import Clock
from stalltop.model.text.figures import moment, printable
from stalltop.model.text.words import numbered

SCHEMA: Final = "stalltop.merge/1"
"""Name and version of what ``--json`` prints."""
_MOST_SECONDS: Final = 86_400.0 * 365
"""Largest clock offset that ``--offset`` accepts: one year. A larger offset is most likely a typing error."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="saved windows and recordings")
    parser.add_argument(
        *("-o", "--output", "--to"),
        dest="to",
        required=True,
        type=Path,
        metavar="FILE",
        help="output file",
    )
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")
    parser.add_argument(
        "--offset",
        type=_offset,
        action="append",
        default=[],
        metavar="HOST=SECONDS",
        help="how far the clock of HOST is ahead of that of the first file's host (default: estimated)",
    )
    parser.add_argument(
        "--host-name",
        type=_name,
        action="append",
        default=[],
        metavar="FILE=NAME",
        help="rename the host of a file, if two hosts have the same name",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the hosts and their clocks as one JSON object"
    )


def run(options: argparse.Namespace) -> int:
    """Merges the files and prints each host with its clock; returns 1 if some windows could not be read."""
    from stalltop.recordings.write.merging import merge_files

    names = dict(options.host_name)
    strange = [path for path in names if path not in options.files]
    if strange:
        raise UsageError(f"--host-name: {strange[0]} is not one of the files to merge")
    for path in options.files:
        with contextlib.suppress(OSError):
            if os.path.samefile(path, options.to):
                raise UsageError(
                    f"cannot write {options.to}: it is one of the files to merge", "name another one with -o"
                )
    beside = "" if options.to.parent.is_dir() else f", in a new folder, {options.to.parent}"
    progress = ProgressLine("window")
    try:
        merged = merge_files(
            options.files,
            options.to,
            overwrite=options.force,
            names=names,
            given_ns={host: round(seconds * 1e9) for host, seconds in options.offset},
            step=progress.at,
        )
    except PathTakenError as taken:
        raise UsageError(taken.reason, "--force replaces it") from None
    finally:
        progress.ended()
    for warning in merged.warnings:
        say(f"left out: {printable(warning)}")
    status = 1 if merged.warnings else 0
    if options.json:
        hosts = [asdict(host) for host in merged.hosts]
        json.dump({"schema": SCHEMA, "file": str(merged.path), "hosts": hosts}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return status
    for host in merged.hosts:
        lines = [
            f"{printable(host.name)}: {numbered(host.windows, 'window')}, "
            f"{moment(host.start)} to {moment(host.end)}"
        ]
        lines.append(f"  clock: {clock_text(host.clock, printable(merged.hosts[0].name))}")
        if host.left_out:
            left_out = numbered(host.left_out, "window")
            lines.append(f"  left out: {left_out} of times that other windows cover already")
        sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(f"written: {merged.path}{beside}\n")
    return status


def clock_text(clock: Clock, first: str) -> str:
    """Describes a host's clock relative to that of the host ``first``, in one line for a person."""
    if clock.how == "reference":
        return "reference: all times of the merged file are by this clock"
    if clock.offset_ns is None or clock.error_ns is None:
        return (
            f"offset from {first} unknown (no common NCCL communicator, no time server); times are not "
            "corrected; "
            "give the offset with --offset"
        )
    ahead = f"{clock.offset_ns / 1e6:+.1f} ms"
    if clock.how == "given":
        return f"{ahead} from {first}, as given by --offset; times are corrected"
    error = f"± {clock.error_ns / 1e6:.1f} ms"
    if clock.how == "time server":
        return f"equal to that of {first} {error}: time servers synchronise both; times are not corrected"
    return (
        f"{ahead} {error} from {first}, estimated from common NCCL collectives ({clock.points:,} points); "
        "times are corrected"
    )


def _pair(text: str, form: str) -> tuple[str, str]:
    name, sign, value = text.rpartition("=")
    if not sign or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is invalid; example: {form}")
    return name, value


def _offset(text: str) -> tuple[str, float]:
    host, value = _pair(text, "gpu2=-1.5")
    try:
        seconds = float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of seconds") from None
    if not abs(seconds) <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{value} seconds is out of range: a clock offset is at most a year")
    return host, seconds


def _name(text: str) -> tuple[Path, str]:
    path, name = _pair(text, "other.stalltop=gpu2")
    if not name.isprintable() or "," in name or "/" in name:
        raise argparse.ArgumentTypeError(
            f"{name!r} is not a host name: it may not contain a comma or a slash"
        )
    return Path(path), name
