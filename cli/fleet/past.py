"""The past of a fleet as a recording: the windows that `stalltop rollup` has merged, with the problems that
hosts had."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.cli.durations import duration
from stalltop.fleet.connection import ServerAccess, close, connected
from stalltop.fleet.rollup import TIERS, batches
from stalltop.fleet.stored import problem_changes
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.past_problems import PastProblems
from stalltop.model.fleet.problem_changes import ProblemChange
from stalltop.model.fleet.rolling import rolled, side_by_side
from stalltop.model.text.figures import moment
from stalltop.model.text.words import numbered
from stalltop.model.window import Window
from stalltop.recordings.write.bounds import Bounds
from stalltop.recordings.write.recording import Recording

FINE_SECONDS: Final = 12 * 3600.0
"""For how long the windows of 10 s are kept. A longer past is taken from those of 1 min."""
LAST_SECONDS: Final = 3600.0
HOST: Final = "fleet"
"""Name of the host of the windows, if no cluster is given."""
_BOUNDS: Final = Bounds(1 << 40, 400 * 86_400.0)
"""Nothing is left out: the streams have limits of their own."""


class FleetPast(NamedTuple):
    """Which past is meant."""

    cluster: str = ""
    seconds: float = LAST_SECONDS


def past_named(text: str) -> FleetPast:
    """Returns what ``CLUSTER@TIME`` stands for; both parts may be missing. Raises UsageError."""
    cluster, _, last = text.partition("@")
    try:
        return FleetPast(cluster, duration(last) if last else LAST_SECONDS)
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise UsageError(f"fleet:{text}: {error}", "example: fleet:prod@2h") from None


def save_past(access: ServerAccess, past: FleetPast, path: Path, *, overwrite: bool = False) -> str:
    """Writes the past of the fleet to ``path`` as a recording, one window for each period.

    Returns a line about it. Raises StalltopError if there is none, or if ``path`` cannot be written.
    """
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists", "choose another name, or use --force")
    since = time.time() - past.seconds
    windows, changes = asyncio.run(_read(access, past.cluster, since, coarse=past.seconds > FINE_SECONDS))
    if not windows:
        raise StalltopError(
            "the fleet has no merged windows of that time", "run stalltop rollup; it merges what is kept"
        )
    periods: dict[float, dict[str, list[Window]]] = {}
    for window in windows:
        periods.setdefault(window.start, {}).setdefault(window.host, []).append(window)
    problems, calls = PastProblems(changes), 0
    # The recording is complete before it has its name: a reader never sees a part of it.
    with tempfile.TemporaryDirectory(prefix=".stalltop-", dir=path.absolute().parent) as folder:
        unfinished = Path(folder) / "past.stalltop"
        recording = Recording(unfinished, _BOUNDS)
        try:
            for start in sorted(periods):
                racks = [
                    rolled(found, rack, start, found[0].seconds) for rack, found in periods[start].items()
                ]
                whole = problems.upto(side_by_side(racks, past.cluster or HOST))
                calls += int(whole.rows.calls.sum())
                recording.add(whole)
        finally:
            recording.close()
        os.replace(unfinished, path)
    span = f"{moment(min(periods))} to {moment(max(one.end for one in windows))}"
    return f"written: {path}: {numbered(calls, 'call')} of {span}"


async def _read(
    access: ServerAccess, cluster: str, since: float, *, coarse: bool
) -> tuple[list[Window], list[tuple[HostAddress, ProblemChange]]]:
    client = await connected(access, "stalltop fleet")
    try:
        found = await batches(client, TIERS[coarse], cluster=cluster)
        changes = await problem_changes(client, cluster)
    finally:
        await close(client)
    return [window for batch in found for window in batch.windows if window.end > since], changes


@contextmanager
def as_file(access: ServerAccess, past: FleetPast) -> Iterator[Path]:
    """Yields a file with the past of the fleet, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="stalltop-fleet-") as folder:
        path = Path(folder) / f"{past.cluster or HOST}.stalltop"
        save_past(access, past, path)
        yield path
