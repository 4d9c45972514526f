"""Sends summaries of simulated hosts: ``python -m bench.fleet.sender URL HOSTS SECONDS``.

With 0 seconds, sends one summary of each host as fast as possible. Otherwise sends one of each host a second.
Prints how many messages were sent, and how long each round took.
"""

from __future__ import annotations

import asyncio
import sys
import time

from stalltop.cli.fleet.simulated import send_round
from stalltop.demo.simulated.fleet_hosts import SimulatedFleet
from stalltop.fleet.connection import ServerAccess, close, connected
from stalltop.fleet.streams import make_streams


async def main(url: str, hosts: int, seconds: float) -> None:
    """Sends, and prints messages and seconds."""
    client = await connected(ServerAccess((url,)), "bench")
    await make_streams(client)
    fleet = SimulatedFleet(hosts)
    began, sent, busy = time.monotonic(), 0, 0.0
    while True:
        round_began = time.monotonic()
        busy += await send_round(client, fleet, 0.9 if seconds else 0.0)
        sent += hosts
        if time.monotonic() - began >= seconds:
            break
        await asyncio.sleep(max(1.0 - (time.monotonic() - round_began), 0.0))
    print(sent, time.monotonic() - began, busy, flush=True)
    await close(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
