"""Sends the summaries of simulated hosts, at the rate that this machine and the server carry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from nats.aio.client import Client

from stalltop.demo.simulated.fleet_hosts import SimulatedFleet
from stalltop.fleet import subjects
from stalltop.fleet.messages.summary_message import encoded

AT_ONCE: Final = 50
"""Messages between two turns of the event loop."""


async def send_round(client: Client, fleet: SimulatedFleet, seconds: float) -> float:
    """Sends one summary of each host, spread over ``seconds``; returns how long it took, in seconds."""
    began = time.monotonic()
    for host, address in enumerate(fleet.addresses):
        content = encoded(fleet.summary(host, time.time()))
        await client.publish(subjects.of_host(subjects.SUMMARY, address), content)
        if host % AT_ONCE == AT_ONCE - 1:
            due = began + seconds * (host + 1) / len(fleet)
            await asyncio.sleep(max(due - time.monotonic(), 0.0))
    await client.flush(30)
    return time.monotonic() - began


async def simulate(client: Client, fleet: SimulatedFleet, say: Callable[[str], object]) -> None:
    """Sends a summary of each host a second, or as often as possible, until it is cancelled."""
    said = False
    while True:
        took = await send_round(client, fleet, 0.9)
        if took > 2.0 and not said:
            said = True
            say(f"{len(fleet):,} simulated hosts: this machine sends a summary of each every {took:.1f} s")
        await asyncio.sleep(max(1.0 - took, 0.0))
