"""A fleet on this machine: a NATS server, simulated hosts, and, as root, traced hosts that run one training
job together.

A traced host is a cgroup: its tenants run below it, with their own copies of the libraries, because probes
belong to files. A process for each host traces only what runs in that cgroup. The clocks of the hosts differ.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from stalltop.cli.fleet.simulated import simulate
from stalltop.cli.fleet.traced_host import HostPlan, TracedHost
from stalltop.cli.main import program_version
from stalltop.demo.build import Built, build
from stalltop.demo.injecting import FaultInjector
from stalltop.demo.job_hosts import job_host
from stalltop.demo.simulated.fleet_hosts import CLUSTER, SimulatedFleet
from stalltop.demo.source import why_simulated
from stalltop.demo.tenants import DemoTenants
from stalltop.fleet.connection import FleetLoop, ServerAccess, close, connected
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.rollup import RollupWorker
from stalltop.fleet.streams import make_streams
from stalltop.model.caption import Caption

CLOCKS_AHEAD: Final = (0.0, 0.75, -1.5, 0.02)
"""By how many seconds the clocks of the traced hosts are ahead, in turn."""
STORE_BYTES: Final = 256 << 20
"""Limit of each stream of the demonstration."""


@contextmanager
def demo_fleet(hosts: int, traced: int, say: Callable[[str], object]) -> Iterator[ServerAccess]:
    """Starts everything, and yields where the server is; ends everything afterwards. ``hosts`` are simulated,
    ``traced`` are traced for real. Raises StalltopError if something cannot be started."""
    reason = why_simulated() if traced else ""
    if reason:
        say(f"all hosts are simulated: {reason}")
        traced = 0
    with ExitStack() as running:
        server = running.enter_context(LocalServer())
        access = ServerAccess((server.url,))
        loop = FleetLoop("stalltop-demo")
        running.callback(loop.stop)
        client = loop.wait(connected(access, "stalltop fleet demo"))

        def leave() -> None:
            with contextlib.suppress(Exception):
                loop.wait(close(client), 2.0)

        running.callback(leave)
        loop.wait(make_streams(client, most_bytes=STORE_BYTES))
        loop.begin(RollupWorker(client, say).run())  # the past of the fleet
        if hosts:
            loop.begin(simulate(client, SimulatedFleet(hosts, program=program_version()), say))
        if traced:
            running.enter_context(_job(server.url, traced))
        yield access


@contextmanager
def _job(url: str, hosts: int) -> Iterator[None]:
    """Runs a training job on traced hosts. Their ranks begin when all of them are traced."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="stalltop-fleet-")))
        meeting = folder / "meeting"
        meeting.touch()
        library = build().folder
        tenants = list[DemoTenants]()
        tracers = list[TracedHost]()
        running.callback(_end, tracers)
        for number in range(hosts):
            copied = folder / f"libraries-{number + 1}"
            shutil.copytree(library, copied)
            cgroup = f"/stalltop-{os.getpid()}-host-{number + 1}"
            one = DemoTenants(
                job_host(number, hosts, f"job-{os.getpid()}"),
                built=Built(copied),
                below=cgroup,
                meeting=meeting,
            )
            running.callback(one.close)
            one.start()
            tenants.append(one)
            ahead = CLOCKS_AHEAD[number % len(CLOCKS_AHEAD)]
            place = url, CLUSTER, "traced", f"traced-{number + 1}"
            tracers.append(TracedHost(HostPlan(*place, cgroup, one.names, clock_ahead=ahead)))
        for tracer in tracers:
            tracer.wait()
        for one in tenants:
            one.join()
        for one in tenants:
            injector = FaultInjector(one, one.scenario.timetable, Caption())
            running.callback(injector.stop)
        yield


def _end(tracers: Sequence[TracedHost]) -> None:
    for tracer in tracers:
        tracer.end()
    for tracer in tracers:
        tracer.close()
