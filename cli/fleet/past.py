"""The past of a fleet as a recording: the windows that `stalltop rollup` has merged, with the problems that
hosts had."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.cli.durations import duration
from stalltop.cli.fleet.host_past import host_windows
from stalltop.cli.fleet.past_file import write_recording
from stalltop.fleet.connection import FleetError, ServerAccess, close, connected
from stalltop.fleet.known_racks import known_racks
from stalltop.fleet.rollup import TIERS, batches
from stalltop.fleet.server_place import Rack, place_of
from stalltop.fleet.stored import problem_changes
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.past_problems import PastProblems
from stalltop.model.fleet.problem_changes import ProblemChange
from stalltop.model.fleet.rolling import rolled, side_by_side
from stalltop.model.window import Window

FINE_SECONDS: Final = 12 * 3600.0
"""For how long the windows of 10 s are kept. A longer past is taken from those of 1 min."""
LAST_SECONDS: Final = 3600.0
HOST: Final = "fleet"
"""Name of the host of the windows, if no cluster is given."""
CLOCK_SECONDS: Final = 60.0
"""The clock of a host may be ahead of its server's by this much."""
RACKS_AT_ONCE: Final = 8
"""Racks whose servers are asked at a time."""


class FleetPast(NamedTuple):
    """Which past is meant."""

    cluster: str = ""
    seconds: float = LAST_SECONDS
    host: HostAddress | None = None
    """One host of the cluster; None: all of them, merged by rack."""


def past_named(text: str) -> FleetPast:
    """Returns what ``CLUSTER@TIME`` or ``CLUSTER/RACK/HOST@TIME`` stands for; CLUSTER and TIME may be
    missing. Raises UsageError."""
    name, _, last = text.partition("@")
    cluster, *below = name.split("/")
    try:
        if below and (len(below) != 2 or not all((cluster, *below))):
            raise ValueError(f"{name!r} is neither a cluster nor CLUSTER/RACK/HOST")
        host = HostAddress(cluster, *below) if below else None
        return FleetPast(cluster, duration(last) if last else LAST_SECONDS, host)
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise UsageError(
            f"fleet:{text}: {error}", "examples: fleet:prod@2h, fleet:prod/r7/node-1@10m"
        ) from None


def save_past(access: ServerAccess, past: FleetPast, path: Path, *, overwrite: bool = False) -> str:
    """Writes the past of the fleet to ``path`` as a recording, one window for each period.

    Returns a line about it. Raises StalltopError if there is none, or if ``path`` cannot be written.
    """
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists", "choose another name, or use --force")
    what, without = _merged(access, past, path)
    return f"written: {path}: {what}" + (f"; {without}" if without else "")


def _merged(access: ServerAccess, past: FleetPast, path: Path) -> tuple[str, str]:
    """Writes the merged windows of the fleet, and returns what it is, and what is missing ('': nothing)."""
    since = time.time() - past.seconds
    found = asyncio.run(_read(access, past.cluster, since, coarse=past.seconds > FINE_SECONDS))
    windows, changes = found.windows, found.changes
    if not windows:
        raise StalltopError(
            "the fleet has no merged windows of that time", "run stalltop rollup; it merges what is kept"
        )
    without = f"without {', '.join(found.without)}: no answer of the server there" if found.without else ""
    periods: dict[float, dict[str, list[Window]]] = {}
    for window in windows:
        periods.setdefault(window.start, {}).setdefault(window.host, []).append(window)
    problems = PastProblems(changes)

    def merged() -> Iterator[Window]:
        for start in sorted(periods):
            racks = [rolled(some, rack, start, some[0].seconds) for rack, some in periods[start].items()]
            yield problems.upto(side_by_side(racks, past.cluster or HOST))

    return write_recording(path, merged()), without


class _PartialPast(NamedTuple):
    windows: list[Window]
    changes: list[tuple[HostAddress, ProblemChange]]
    without: list[str]
    """Racks whose servers do not answer."""


async def _read(access: ServerAccess, cluster: str, since: float, *, coarse: bool) -> _PartialPast:
    """Reads the past from the server, or beyond the racks from the server of each rack. Raises FleetError if
    it cannot be read, also if no rack answers."""
    client = await connected(access, "stalltop fleet")
    tier = TIERS[coarse]
    found = _PartialPast([], [], [])
    at_once = asyncio.Semaphore(RACKS_AT_ONCE)

    async def add(rack: Rack | None) -> None:
        async with at_once:
            merged = await batches(client, tier, rack, cluster, since - CLOCK_SECONDS)
            changes = await problem_changes(client, cluster, rack)
        found.windows.extend(one for batch in merged for one in batch.windows if one.end > since)
        found.changes.extend(changes)

    try:
        if place_of(client).whole:
            await add(None)
            return found
        racks = await known_racks(client, cluster)
        results = await asyncio.gather(*map(add, racks), return_exceptions=True)
    finally:
        await close(client)
    for rack, error in zip(racks, results, strict=True):
        if isinstance(error, FleetError):
            found.without.append(rack.text)
        elif error is not None:
            raise error
    if racks and len(found.without) == len(racks):
        raise FleetError(
            f"no server of a rack answers: {', '.join(found.without)}", "see stalltop fleet check"
        )
    found.changes.sort(key=lambda one: one[1].at)
    return found


@contextmanager
def as_file(access: ServerAccess, past: FleetPast, say: Callable[[str], object]) -> Iterator[Path]:
    """Yields a file with the past of the fleet, which is removed afterwards. ``say`` gets a line if a part is
    missing."""
    with tempfile.TemporaryDirectory(prefix="stalltop-fleet-") as folder:
        if past.host is not None:
            path = Path(folder) / "host.stalltop"
            write_recording(path, host_windows(access, past.host, past.seconds, say))
            yield path
            return
        path = Path(folder) / f"{past.cluster or HOST}.stalltop"
        _, without = _merged(access, past, path)
        if without:
            say(f"the past of the fleet is {without}")
        yield path
