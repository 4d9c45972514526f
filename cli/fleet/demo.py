"""A fleet on this machine: a NATS server, simulated hosts, and, as root, hosts with traced sample tenants."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from stalltop.cli.fleet.simulated import simulate
from stalltop.cli.main import program_version
from stalltop.demo.simulated.fleet_hosts import CLUSTER, SimulatedFleet
from stalltop.demo.source import why_simulated
from stalltop.fleet.connection import FleetLoop, ServerAccess, close, connected
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.streams import make_streams

SCENARIOS: Final = ("noisy-neighbour", "trio", "slow-disk", "trio")
"""Scenarios of the traced hosts, in turn: faults on some, none on others."""
MOST_TRACED: Final = 8
STORE_BYTES: Final = 256 << 20
"""Limit of each stream of the demonstration."""
_END_SECONDS: Final = 5.0


@contextmanager
def demo_fleet(hosts: int, traced: int, say: Callable[[str], object]) -> Iterator[ServerAccess]:
    """Starts everything, and yields where the server is; ends everything afterwards. ``hosts`` are simulated,
    ``traced`` are traced for real. Raises StalltopError if the server cannot be started."""
    reason = why_simulated() if traced else ""
    if reason:
        say(f"all hosts are simulated: {reason}")
        traced = 0
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        loop = FleetLoop("stalltop-demo")
        client = loop.wait(connected(access, "stalltop fleet demo"))
        processes: list[subprocess.Popen[bytes]] = []
        try:
            loop.wait(make_streams(client, most_bytes=STORE_BYTES))
            if hosts:
                loop.begin(simulate(client, SimulatedFleet(hosts, program=program_version()), say))
            processes += [_traced_host(server.url, number) for number in range(traced)]
            yield access
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
                process.kill()
                process.wait()
            with contextlib.suppress(Exception):
                loop.wait(close(client), 2.0)
            loop.stop()


def _traced_host(url: str, number: int) -> subprocess.Popen[bytes]:
    scenario = SCENARIOS[number % len(SCENARIOS)]
    module = "stalltop.cli.fleet_host"
    place = CLUSTER, "traced", f"traced-{number + 1}"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, url, *place, scenario],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the screen
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
