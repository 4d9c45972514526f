"""Merge the windows of a fleet: by rack, tenant and operation, in steps of 10 s and 1 min (docs/fleet.md).

Counts and histograms add up exactly. Also makes a digest of each rack and each cluster a second, which a
screen reads instead of the summaries of all hosts. Any number of these may run, and any may be killed: they
share the work, and each window counts once. At the server of a rack they merge its windows; beyond the racks
they make the digests. Runs until a signal ends it, with exit code 0.
"""

from __future__ import annotations

import argparse
import asyncio

from stalltop.cli.fleet.options import add_server_options, server_access
from stalltop.cli.tracing import number, say


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    add_server_options(parser)
    parser.add_argument(
        "--seconds",
        type=number(float, 1, 1e9),
        metavar="N",
        help="end after this time (default: when a signal ends it)",
    )


def run(options: argparse.Namespace) -> int:
    """Merges until a signal ends it, and returns 0. Raises FleetError if the server cannot be used."""
    access = server_access(options)
    from stalltop.fleet.connection import ConnectionListener, close, connected
    from stalltop.fleet.digest_worker import DigestWorker
    from stalltop.fleet.rollup import RollupWorker
    from stalltop.fleet.server_place import place_of
    from stalltop.fleet.streams import keep_streams, make_streams

    async def work() -> None:
        client = await connected(access, "stalltop rollup", ConnectionListener(refused=say))
        worker, digests = RollupWorker(client, say), DigestWorker(client, say)
        try:
            await make_streams(client)
            place = place_of(client)
            does = "making digests" if place.hub else "merging windows"
            say(f"{does} at {access.shown}, {place.text}; press Ctrl-C to stop")
            # Beyond the racks there are no windows to merge. Digests are made where all racks are known: the
            # parts of several servers would overwrite each other.
            parts = [] if place.hub else [worker.run()]
            parts.append(digests.run() if place.rack is None else keep_streams(client))
            async with asyncio.timeout(options.seconds):
                await asyncio.gather(*parts)
        except TimeoutError:
            pass
        finally:
            await close(client)
            say(f"merged {worker.counted:,} messages, made {digests.published:,} digests")

    try:
        asyncio.run(work())
    except KeyboardInterrupt:
        return 0
    return 0
