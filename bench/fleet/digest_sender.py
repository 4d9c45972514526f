"""Sends the digest of simulated hosts once a second, as a worker of ``stalltop rollup`` does that has one
cluster: ``python -m bench.fleet.digest_sender URL HOSTS SECONDS``. Every figure of every host changes each
second. Prints how many digests were sent, and the bytes of the last one."""

from __future__ import annotations

import asyncio
import sys
import time

from stalltop.demo.simulated.fleet_hosts import CLUSTER, SimulatedFleet
from stalltop.fleet.connection import ServerAccess, close, connected
from stalltop.fleet.messages.digest_message import encoded_digest, of_cluster
from stalltop.model.fleet.fleet_digest import digest_of
from stalltop.model.fleet.fleet_state import FleetState


async def main(url: str, hosts: int, seconds: float) -> None:
    """Sends, and prints the counts."""
    client = await connected(ServerAccess((url,)), "bench")
    fleet, state, sent, content = SimulatedFleet(hosts), FleetState(), 0, b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began, now = time.monotonic(), time.time()
        for host, address in enumerate(fleet.addresses):
            state.take(address, fleet.summary(host, now), now)
        view = state.view(now)
        content = encoded_digest(digest_of(view))
        await client.publish(of_cluster(CLUSTER), content)
        await client.flush(30)
        sent += 1
        await asyncio.sleep(max(began + 1.0 - time.monotonic(), 0.0))
    print(sent, len(content), flush=True)
    await close(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
