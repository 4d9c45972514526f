"""Agents that are fed with windows, and what a server kept of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from nats.aio.client import Client

from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.fleet import subjects
from stalltop.fleet.agent import AgentOptions, FleetAgent
from stalltop.fleet.connection import FleetLoop, ServerAccess, close, connected
from stalltop.fleet.messages.window_message import START
from stalltop.fleet.server_place import Rack, jetstream_of
from stalltop.fleet.stored import READ_SECONDS, stored_messages
from stalltop.model.errors import StalltopError
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.window import Window

T = TypeVar("T")

CLUSTER: Final = "bench"
RACK: Final = Rack(CLUSTER, "r1")
WAIT_SECONDS: Final = 120.0


def with_client(access: ServerAccess, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs ``work`` with a connection."""

    async def whole() -> T:
        client = await connected(access, "bench")
        try:
            return await work(client)
        finally:
            await close(client)

    loop = FleetLoop("bench")
    try:
        return loop.wait(whole())
    finally:
        loop.stop()


def until(look: Callable[[], object], seconds: float = WAIT_SECONDS) -> float:
    """Waits until ``look`` returns something true; returns how long that took, s. Raises StalltopError."""
    began = time.monotonic()
    while not look():
        if time.monotonic() - began > seconds:
            raise StalltopError(f"nothing came within {seconds:g} s")
        time.sleep(0.02)
    return time.monotonic() - began


@dataclass(slots=True)
class FedAgents:
    """Agents whose hosts have a window ``hz`` times a second. ``step`` is added to their clocks, s."""

    agents: dict[HostAddress, FleetAgent]
    starts: dict[HostAddress, list[float]]
    """Start of each window that was given to an agent."""
    step: float = 0.0

    @property
    def given(self) -> int:
        """Windows given to agents."""
        return sum(map(len, self.starts.values()))

    @property
    def waiting(self) -> int:
        """Windows that wait for the server."""
        return sum(agent.waiting for agent in self.agents.values())


@contextmanager
def fed(access: ServerAccess, hosts: int, hz: float = 10.0) -> Iterator[FedAgents]:
    """Runs agents, and feeds them until the end of the block. Then all that they have is sent."""
    source = SimulatedSource()
    pattern = source.read()
    source.close()
    addresses = [HostAddress(*RACK, f"n{number}") for number in range(hosts)]
    ended = threading.Event()
    with ExitStack() as ending:
        agents = {}
        for address in addresses:
            agent = FleetAgent(AgentOptions(access, address, "0.1.0", "bench"), lambda line: None)
            agent.start()
            ending.callback(agent.stop)
            agents[address] = agent
        found = FedAgents(agents, {address: [] for address in addresses})

        def feed() -> None:
            while not ended.wait(1 / hz):
                start = time.time() + found.step
                for address, agent in agents.items():
                    agent.take(replace(pattern, start=start, seconds=1.0, host=address.host))
                    found.starts[address].append(start)

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            yield found
        finally:
            ended.set()
            feeder.join()
        until(lambda: not found.waiting)


@dataclass(frozen=True, slots=True)
class KeptWindows:
    """What became of windows."""

    given: int
    kept: int
    lost: int
    """Windows that were given to an agent, and are not in the stream."""
    doubled: int


def kept_windows(access: ServerAccess, given: FedAgents) -> KeptWindows:
    """Compares what agents were given with what the server of their rack keeps, which is asked through
    ``access``."""

    async def read(client: Client) -> Counter[tuple[str, str]]:
        js = jetstream_of(client, RACK, READ_SECONDS)
        messages = await stored_messages(js, "ST1_WIN", subjects.every(subjects.WINDOW, CLUSTER))
        return Counter((one.subject, (one.headers or {}).get(START, "")) for one in messages)

    found = with_client(access, read)
    wanted = {
        (subjects.of_host(subjects.WINDOW, address), repr(start))
        for address, starts in given.starts.items()
        for start in starts
    }
    doubled = sum(count - 1 for count in found.values())
    return KeptWindows(given.given, sum(found.values()), len(wanted - found.keys()), doubled)


def calls_in(windows: Sequence[Window]) -> int:
    """Returns the calls in all rows of ``windows``."""
    return sum(int(window.rows.calls.sum()) for window in windows)
