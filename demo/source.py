"""What ``stalltop demo`` needs: whether real tenants can run, and windows in which they have their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from demo.build import compiler
from demo.cgroups import hierarchy
from demo.scenario import Scenario
from demo.simulated import SimulatedSource
from demo.tenants import DemoTenants
from model.errors import Told
from model.source import Source
from model.tenant import Tenant
from model.window import Window
from probes.monitor import Monitor, MonitorOptions

__all__ = ["DemoSource", "DemoTenants", "NamedSource", "demo_source", "why_simulated"]


def why_simulated() -> str:
    """Empty where real tenants can be started, else why not, in one line.

    Whether they can be traced as well is the tracer's to say.
    """
    if os.geteuid() != 0:
        return "not started as root"
    try:
        compiler()
        root = hierarchy()
    except Told as reason:
        return reason.reason
    if not os.access(root, os.W_OK):
        return f"cgroups cannot be made in {root}"
    return ""


def demo_source(scenario: Scenario, options: MonitorOptions) -> Source:
    """Windows of the tenants of ``scenario``: really traced where that works, else simulated and why."""
    reason = why_simulated()
    if reason:
        return SimulatedSource(reason=reason)
    tenants = DemoTenants(scenario)
    try:
        tenants.start()
    except Told as told:
        return SimulatedSource(reason=told.reason)
    monitor = Monitor(options)
    if monitor.cannot_trace is not None:
        tenants.close()
        monitor.close()
        return SimulatedSource(reason=monitor.cannot_trace.reason)
    return DemoSource(monitor, tenants)


class NamedSource:
    """A source whose tenants get names by container id: sample tenants have no runtime that would know them.

    ``names`` is looked at again at every read.
    """

    def __init__(self, source: Source, names: Mapping[str, str]) -> None:
        self._source = source
        self._names = names

    def read(self) -> Window:
        """The next window of the source, with names."""
        window = self._source.read()
        tenants = {key: self._named(tenant) for key, tenant in window.tenants.items()}
        return replace(window, tenants=tenants)

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _named(self, tenant: Tenant) -> Tenant:
        name = self._names.get(tenant.container_id) if tenant.container_id else None
        return replace(tenant, name=name) if name else tenant


class DemoSource(NamedSource):
    """The windows of a monitor while sample tenants run. Closing ends both."""

    def __init__(self, monitor: Monitor, tenants: DemoTenants) -> None:
        super().__init__(monitor, tenants.names)
        self._running = tenants

    def close(self) -> None:
        """End the tenants, then the tracing."""
        self._running.close()
        super().close()
