"""One host of `stalltop fleet demo`: sample tenants with their own copies of the libraries, traced by this
process, whose windows an agent passes on.

Started as ``python -m stalltop.cli.fleet_host URL CLUSTER RACK HOST SCENARIO``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from stalltop.cli.commands.record import read_until, requests
from stalltop.cli.main import program_version
from stalltop.cli.tracing import diagnosed, say
from stalltop.demo.build import Built, build
from stalltop.demo.source import TracedTenants
from stalltop.demo.tenants import DemoTenants
from stalltop.fleet.agent import AgentOptions, FleetAgent
from stalltop.fleet.connection import ServerAccess
from stalltop.model.errors import StalltopError
from stalltop.model.fleet.host_summary import HostAddress


def main(arguments: list[str]) -> int:
    """Traces and sends until a signal ends it; returns the exit code."""
    url, cluster, rack, host, scenario = arguments
    with tempfile.TemporaryDirectory(prefix="stalltop-host-") as folder:
        # Probes belong to files: with copies of its own, a host's calls are its own.
        copied = Path(folder) / "libraries"
        shutil.copytree(build().folder, copied)
        tenants = DemoTenants(scenario, built=Built(copied))
        tenants.start()
        source = diagnosed(TracedTenants(tenants, everyone=False), tell=say)
        options = AgentOptions(
            ServerAccess((url,)), HostAddress(cluster, rack, host), program_version(), f"demo {host}"
        )
        agent = FleetAgent(options, say)
        try:
            with requests() as ended:
                agent.start()
                read_until(source, agent.take, ended)
        finally:
            agent.stop()
            source.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except StalltopError as told:
        say(str(told))
        sys.exit(told.exit_code)
