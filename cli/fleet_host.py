"""One host of a fleet on this machine: traces what runs in one cgroup and below it, and passes the windows on
by an agent, as if that were all of a host.

Started as ``python -m stalltop.cli.fleet_host HOST``, with `HostPlan` as JSON (`cli.fleet.traced_host` starts
it). Writes a line to stdout when it traces. Ends by a signal, and with the process that started it.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import time

from stalltop.cli.ending import read_until, requests
from stalltop.cli.fleet.traced_host import HostPlan
from stalltop.cli.main import program_version
from stalltop.cli.tracing import diagnosed, say
from stalltop.demo.only import only
from stalltop.demo.source import NamedSource
from stalltop.fleet.agent import AgentOptions, FleetAgent
from stalltop.fleet.connection import ServerAccess
from stalltop.model.errors import StalltopError
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.hosts.clocks import shifted
from stalltop.model.source import Source
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.probes.libraries.processes import is_within
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions

_PR_SET_PDEATHSIG = 1


class OneHostSource(NamedSource):
    """Windows of the tenants in a cgroup, with the names of ``plan``."""

    def __init__(self, source: Source, plan: HostPlan) -> None:
        super().__init__(source, plan.names)
        self._plan = plan

    def read(self) -> Window:
        """Returns the next window of the tenants in the cgroup."""
        return only(super().read(), self._is_here)

    def _is_here(self, tenant: Tenant) -> bool:
        return is_within(tenant.cgroup_path, self._plan.cgroup)


def main(text: str) -> int:
    """Traces and sends until a signal ends it; returns the exit code."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    plan = HostPlan.read(text)
    monitor = Monitor(
        MonitorOptions(nvml_environment=plan.nvml, within=plan.cgroup, stacks="off" if plan.light else "slow")
    )
    source = diagnosed(OneHostSource(monitor, plan), tell=say)
    if monitor.cannot_trace is not None:
        source.close()
        raise monitor.cannot_trace
    agent = FleetAgent(
        AgentOptions(
            ServerAccess((plan.url,)),
            HostAddress(plan.cluster, plan.rack, plan.host),
            program_version(),
            f"demo {plan.host}",
            windows="asked" if plan.light else "always",
            clock=lambda: time.time() + plan.clock_ahead,
        ),
        say,
    )

    def take(window: Window) -> None:
        agent.take(shifted(window, plan.clock_ahead))

    try:
        with requests() as ended:
            agent.start()
            sys.stdout.write("traces\n")
            sys.stdout.flush()
            read_until(source, take, ended)
    finally:
        agent.stop()
        source.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except StalltopError as told:
        say(str(told))
        sys.exit(told.exit_code)
