"""A roll-up worker that never waits for the end of a period, until it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os

import nats.errors

from stalltop.fleet.connection import ServerAccess, connected
from stalltop.fleet.rollup import TIERS, advance
from stalltop.fleet.server_place import Rack


async def main() -> None:
    """Merges without an end."""
    client = await connected(ServerAccess((os.environ["NATS"],)), "worker")
    rack = Rack(os.environ["CLUSTER"], os.environ["RACK"])
    while True:
        for tier in TIERS:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await advance(client, tier, rack, 4_000_000_000.0)
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main())
