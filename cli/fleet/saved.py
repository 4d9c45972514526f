"""Writes merged windows of a fleet as one saved window, for `stalltop open`, `query`, `diff` and `export`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from stalltop.fleet.connection import ServerAccess, close, connected
from stalltop.fleet.rollup import TIERS, batches
from stalltop.model.errors import StalltopError
from stalltop.model.fleet.rolling import rolled
from stalltop.model.text.figures import moment
from stalltop.model.text.words import numbered
from stalltop.model.window import Window
from stalltop.recordings.write.saving import save

FINE_SECONDS: Final = 12 * 3600.0
"""For how long the windows of 10 s are kept. A longer past is taken from those of 1 min."""
HOST: Final = "fleet"
"""Name of the host of the window, if no cluster is given."""


def save_merged(
    access: ServerAccess, path: Path, cluster: str, seconds: float, *, overwrite: bool = False
) -> str:
    """Writes the merged windows of the last ``seconds``, of one cluster or of all, to ``path``.

    Returns a line about them. Raises StalltopError if there are none, or if ``path`` cannot be written.
    """
    now = time.time()
    windows = asyncio.run(_merged(access, cluster, now - seconds, coarse=seconds > FINE_SECONDS))
    if not windows:
        raise StalltopError(
            "the fleet has no merged windows of that time", "run stalltop rollup; it merges what is kept"
        )
    start = min(one.start for one in windows)
    whole = rolled(windows, cluster or HOST, start, max(one.end for one in windows) - start)
    written = save(whole, path, overwrite=overwrite)
    calls = numbered(int(whole.rows.calls.sum()), "call")
    return f"written: {written}: {calls} of {moment(start)} to {moment(whole.end)}"


async def _merged(access: ServerAccess, cluster: str, since: float, *, coarse: bool) -> list[Window]:
    client = await connected(access, "stalltop fleet save")
    try:
        found = await batches(client, TIERS[coarse], cluster=cluster)
    finally:
        await close(client)
    return [window for batch in found for window in batch.windows if window.end > since]
